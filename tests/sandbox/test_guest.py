"""Libraries that the code of other projects uses do their work in its confined process."""

import importlib.util
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from kshot.sandbox import process
from kshot.sandbox.guest import Guest, GuestFault
from tests.configs.homes import evaluator_home

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="guests are confined on Linux alone")

NAME = "opencompass.datasets.OwnEvaluator"
WAYS = {"namespaces": process.LAYERS, "Landlock 3": ("landlock", "seccomp")}
"""The most that a system lends, and the least."""
LIBRARIES = {
    "numpy": """
        import numpy as np
        assert (np.ones((300, 300)) @ np.ones((300, 300))).sum() == 300**3
        np.linalg.svd(np.eye(50))
        np.save("x.npy", np.ones(4))
        assert np.load("x.npy", mmap_mode="r").sum() == 4
    """,
    "pandas": """
        import pandas as pd
        table = pd.DataFrame({"a": [1, 2, 2], "b": ["x", "y", "z"]})
        table.to_csv("a.csv")
        table.to_parquet("a.parquet")
        assert len(pd.read_csv("a.csv").groupby("a")) == 2 and len(pd.read_parquet("a.parquet")) == 3
    """,
    "polars": """
        import polars as pl
        pl.DataFrame({"a": [1, 2, 2]}).write_parquet("p.parquet")
        assert pl.scan_parquet("p.parquet").group_by("a").len().collect().height == 2
    """,
    "pyarrow": """
        import pyarrow as pa, pyarrow.dataset, pyarrow.parquet
        pa.parquet.write_table(pa.table({"a": list(range(1000))}), "a.parquet")
        assert pa.dataset.dataset("a.parquet").to_table(use_threads=True).num_rows == 1000
        pa.memory_map("a.parquet").close()
    """,
    "sympy": """
        import sympy
        x = sympy.symbols("x")
        assert sympy.integrate(x, x) == x**2 / 2 and sympy.lambdify(x, x**2)(3) == 9
    """,
    "regex": """
        import regex
        assert regex.fullmatch(r"\\p{L}+", "äb", timeout=60) and regex.sub("a", "b", "aaa", concurrent=True) == "bbb"
    """,
    "torch": """
        import torch
        torch.set_num_threads(2)
        assert (torch.ones(300, 300) @ torch.ones(300, 300)).sum() == 300**3
        x = torch.ones(3, requires_grad=True)
        (x * 2).sum().backward()
        torch.save(x, "x.pt")
        assert torch.load("x.pt").sum() == 3
        assert len(list(torch.utils.data.DataLoader(list(range(8)), batch_size=2))) == 4
    """,
    "tokenizers": """
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer.train_from_iterator(["a b c d"] * 50, trainers.BpeTrainer(vocab_size=50))
        assert len(tokenizer.encode_batch(["a b"] * 100)) == 100
    """,
    "sklearn": """
        import numpy as np
        from sklearn.cluster import KMeans
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.metrics import f1_score
        KMeans(2, n_init=1).fit(np.eye(9))
        RandomForestClassifier(4, n_jobs=2).fit([[0], [1], [2], [3]], [0, 0, 1, 1])
        assert f1_score([0, 1], [0, 1]) == 1
    """,
    "joblib": """
        from joblib import Parallel, delayed, dump, load
        assert Parallel(n_jobs=2)(delayed(abs)(i) for i in (-1, -2)) == [1, 2]
        dump([1], "j")
        assert load("j") == [1]
    """,
    "datasets": """
        import datasets
        rows = datasets.Dataset.from_list([{"a": i} for i in range(100)])
        rows = rows.map(lambda row: {"b": row["a"] + 1}).filter(lambda row: row["b"] > 3).shuffle(seed=1)
        rows.save_to_disk("rows")
        datasets.load_from_disk("rows").to_json("rows.json")
        assert len(datasets.load_dataset("json", data_files="rows.json", split="train")) == 97
    """,
    "nltk": """
        import nltk
        from nltk.translate.bleu_score import sentence_bleu
        assert sentence_bleu([["a", "b", "c", "d"]], ["a", "b", "c", "d"]) == 1
        assert nltk.stem.PorterStemmer().stem("running") == "run"
    """,
    "onnxruntime": """
        import numpy as np, onnxruntime
        from onnx import TensorProto, helper
        x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
        graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "g", [x], [y])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        assert session.run(None, {"x": np.ones(2, "f4")})[0].sum() == 4
    """,
    "asyncio": """
        import asyncio
        async def work():
            await asyncio.gather(asyncio.to_thread(sum, [1]), *[asyncio.sleep(0) for _ in range(9)])
            return await asyncio.wait_for(asyncio.sleep(0, 3), 60)
        assert asyncio.run(work()) == 3
    """,
    "threading": """
        import signal, threading
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(abs, [-1] * 50)) == [1] * 50
        event = threading.Event()
        threading.Timer(0.01, event.set).start()
        assert event.wait(60)
        signal.signal(signal.SIGUSR1, lambda *_: None)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
    """,
    "shutil": """
        import fcntl, os, pathlib, shutil, tempfile
        os.makedirs("a/b")
        pathlib.Path("a/b/c").write_text("1")
        pathlib.Path("a/b/c").chmod(0o600)
        for copied in (shutil.copy, shutil.copy2):
            copied("a/b/c", "d")
        shutil.copytree("a", "e")
        shutil.make_archive("z", "zip", "a")
        shutil.unpack_archive("z.zip", "f")
        shutil.rmtree("e")
        with tempfile.NamedTemporaryFile() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            fcntl.lockf(file, fcntl.LOCK_EX)
    """,
    "mmap": """
        import mmap, os, select
        with mmap.mmap(-1, 1 << 16) as memory:
            memory.resize(1 << 17)
            memory.madvise(mmap.MADV_DONTNEED)
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        assert select.select([reader], [writer], [], 60)[1] == [writer]
    """,
    "sqlite3": """
        import sqlite3
        with sqlite3.connect("a.db") as table:
            table.execute("pragma journal_mode=wal")
            table.execute("create table t (a)")
            table.execute("insert into t values (1)")
        assert sqlite3.connect("a.db").execute("select a from t").fetchall() == [(1,)]
    """,
    "resource": """
        import faulthandler, os, platform, resource
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        faulthandler.disable()
        assert platform.platform() and os.cpu_count() and os.sched_getaffinity(0) and os.getgroups() is not None
    """,
    "multiprocessing": """
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor
        with ProcessPoolExecutor(2) as pool, multiprocessing.Pool(2) as others:
            assert list(pool.map(abs, [-1])) == others.map(abs, [-1]) == [1]
        with multiprocessing.Lock(), multiprocessing.get_context("spawn").RLock():
            multiprocessing.Event().set()
    """,
    "tqdm": """
        from tqdm.contrib.concurrent import process_map
        assert process_map(abs, [-1, 2], disable=True) == [1, 2]
    """,
    "subprocess": """
        import subprocess
        try:
            subprocess.run(["true"])
        except OSError:
            pass
        else:
            raise AssertionError("a process was started")
    """,
}  # fmt: skip


@pytest.fixture(scope="module", params=WAYS)
def guest(request, tmp_path_factory):
    """Give a function that runs code in a guest; the guest has loaded nothing of kshot's."""
    body = """
        import os, tempfile
        os.chdir(tempfile.mkdtemp())
        exec(predictions[0], {"__name__": "library"})
        return {"accuracy": 1.0}
    """
    home = evaluator_home(tmp_path_factory.mktemp("home"), body)
    with pytest.MonkeyPatch.context() as patched:
        if request.param == "Landlock 3":
            patched.setattr(process, "_LANDLOCK_ABI", 3)
        packages = {"opencompass": home / "opencompass"}
        made = Guest("the libraries", packages, "kshot.configs._home_adapter", layers=WAYS[request.param])

        def run(code):
            given = {"predictions": [dedent(code)], "references": [""], "rows": [{}]}
            return made.ask("evaluate", name=NAME, options={}, **given)

        try:
            run("")
        except GuestFault as fault:
            pytest.skip(str(fault))
        yield run
        made.close()


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_works_in_a_guest(name, guest):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    assert guest(LIBRARIES[name]) == {"accuracy": 1.0}


@pytest.mark.skipif(not Path("/usr/share/zoneinfo/Asia/Tokyo").exists(), reason="no time zones are installed")
def test_time_zones_are_there(guest):
    """``/etc/localtime`` is a link to one of them, which would hide all others."""
    guest("import zoneinfo\nassert '/usr/share/zoneinfo' in zoneinfo.TZPATH\nassert zoneinfo.ZoneInfo('Asia/Tokyo')")
