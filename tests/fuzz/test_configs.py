"""Config files: any text is read or refused; where both readers read a file, they read the same."""

import json

from hypothesis import strategies as st

from kshot.configs import entry, load
from kshot.configs._language import Interpreter
from kshot.configs._reader import RestrictedInterpreter
from kshot.core.errors import DataError
from tests.fuzz.harness import Told, any_text, folder, fuzz, grafted, json_values, mutated, told

NAMES = ["a", "b", "reader", "x_datasets", "datasets", "models", "work_dir", "i"]
names = st.sampled_from(NAMES)
small_text = st.text("ab{}'\"\\\n$é中 ", max_size=6)
literals = st.one_of(st.integers(-5, 300).map(repr), st.floats(allow_nan=False, allow_infinity=False).map(repr), small_text.map(repr), st.sampled_from(["None", "True", "False", "...", "b'x'", "1j", "0x1f", "1_000", "'a' 'b'", "[]", "{}", "()", "r'\\d'", "'''x'''"]))  # fmt: skip


def nested(inner):
    """Draw expressions of expressions."""
    return st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.lists(inner, max_size=3).map(lambda items: f"({', '.join(items)},)" if items else "()"),
        st.lists(st.tuples(small_text.map(repr) | st.integers(0, 3).map(repr), inner), max_size=3).map(
            lambda pairs: "{" + ", ".join(f"{k}: {v}" for k, v in pairs) + "}"
        ),
        st.dictionaries(names, inner, max_size=3).map(
            lambda pairs: "dict(" + ", ".join(f"{k}={v}" for k, v in pairs.items()) + ")"
        ),
        st.tuples(
            inner,
            st.sampled_from(["+", "*", "-", "/", "//", "%", "|", "==", "<", "in", "and", "or", "is", "not in"]),
            inner,
        ).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(inner, inner, inner).map(lambda p: f"({p[0]} if {p[1]} else {p[2]})"),
        st.tuples(inner, inner).map(lambda p: f"{p[0]}[{p[1]}]"),
        inner.map(lambda e: f"[i for i in {e}]"),
        inner.map(lambda e: f"{{i: {e} for i in 'ab'}}"),
        st.tuples(
            inner,
            st.sampled_from(
                [
                    "upper()",
                    "strip()",
                    "split()",
                    "items()",
                    "keys()",
                    "get('a')",
                    "copy()",
                    "format(1)",
                    "join(['a'])",
                    "__class__",
                    "append(1)",
                    "replace('a', 'b')",
                    "startswith('a')",
                ]
            ),
        ).map(lambda p: f"{p[0]}.{p[1]}"),
        st.tuples(
            st.sampled_from(
                [
                    "len",
                    "str",
                    "list",
                    "tuple",
                    "sorted",
                    "range",
                    "sum",
                    "int",
                    "set",
                    "repr",
                    "bool",
                    "enumerate",
                    "zip",
                    "max",
                    "eval",
                    "open",
                    "type",
                    "abs",
                    "min",
                    "round",
                    "float",
                    "any",
                ]
            ),
            inner,
        ).map(lambda p: f"{p[0]}({p[1]})"),
        inner.map(lambda e: f"f'<{{{e}}}>'".replace("\\", "")),
        inner.map(lambda e: f"{{**{e}}}"),
        inner.map(lambda e: f"(lambda: {e})()"),
        inner.map(lambda e: f"-{e}"),
    )


expressions = st.recursive(literals | names, nested, max_leaves=5)
ENTRY = "dict(abbr='x', type='X', path='p', reader_cfg=dict(input_columns=['q'], output_column='a'), infer_cfg=dict(prompt_template=dict(template='{q}'), inferencer=dict(max_out_len=3)))"
statements = st.one_of(
    st.tuples(names, expressions).map(lambda p: f"{p[0]} = {p[1]}"),
    st.tuples(names, expressions).map(lambda p: f"{p[0]} += {p[1]}"),
    st.tuples(names, expressions).map(lambda p: f"for {p[0]} in {p[1]}:\n    work_dir = {p[0]}"),
    expressions.map(lambda e: f"if {e}:\n    a = 1\nelse:\n    b = 2"),
    names.map("del {}".format),
    st.just(f"x_datasets = [{ENTRY}]"),
    st.sampled_from(["from mmengine.config import read_base", "with read_base():\n    from .base import base_datasets", "with read_base():\n    from .none import x", "from opencompass.datasets import GSM8KDataset", "import os", "import json", "from .base import *", "pass", "a: int = 1", "a, b = 1, 2", "(a, *b) = [1, 2, 3]", "a = b = []", "def f(x):\n    return x", "class C: pass", "assert a", "raise ValueError('x')", "try:\n    a = 1\nexcept Exception:\n    pass", "while False: pass", "global a", "a = lambda: 1", "import torch", "exec('a = 1')", "x_datasets = [f for f in locals() if f.endswith('s')]", "a['b'] = 1", "a.b = 1", "from ais_bench.benchmark.datasets import RaceDataset as b", "datasets = sum([v for k, v in locals().items() if k.endswith('_datasets')], [])"]),
    any_text,
)  # fmt: skip
programs = st.lists(statements, max_size=6).map("\n".join)
BASE = "base_datasets = [dict(abbr='base', n=1)]\n"


class PlainFiles:
    """Config files as both readers ask for them, without a process in between."""

    def find(self, paths):
        """Return the first of these files that there is."""
        from pathlib import Path

        found = next((path for path in paths if Path(path).is_file()), None)
        return None if found is None else (found, Path(found).read_bytes().decode("latin-1"))


def read_by(kind, path):
    """Load a config by one of the readers; return the values as text, or the fault."""
    answer = json.loads(kind(str(path), PlainFiles(), [str(path.parent)]).answer({"action": "load", "id": 1}))
    if "fault" in answer:
        assert isinstance(answer["fault"]["kind"], str)
        return None
    return answer["result"]


def without_code(value):
    """Leave out what only one reader knows: functions and classes of the config."""
    return "$own" not in json.dumps(value) and "$opaque" not in json.dumps(value)


def written(place, text):
    """Write a config beside the one that it may read."""
    (place / "base.py").write_text(BASE)
    path = place / "config.py"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path


SAFE = ("exec", "open", "eval", "import", "__class__")
"""What the Python of a drawn config must not have when it runs in this process."""


@fuzz(
    programs.filter(lambda text: not any(word in text.replace("from mmengine.config import", "") for word in SAFE)),
    examples=50,
)
def test_both_readers_read_the_same(text):
    """The restricted reader may refuse more; what it reads, Python reads too, and equally."""
    with folder() as place:
        path = written(place, text)
        restricted, whole = read_by(RestrictedInterpreter, path), read_by(Interpreter, path)
        if restricted is not None and without_code(restricted):
            assert whole is not None, "only the restricted reader reads it"
            if without_code(whole):
                assert json.dumps(restricted, sort_keys=True) == json.dumps(whole, sort_keys=True)


@fuzz(
    programs
    | mutated(
        st.just(
            f"from mmengine.config import read_base\nwith read_base():\n    from .base import base_datasets\nx_datasets = [{ENTRY}]\n".encode()
        )
    ).map(lambda raw: raw.decode("latin-1")),
    examples=50,
)
def test_the_restricted_reader_reads_any_text_or_says_why_not(text):
    with folder() as place:
        read_by(RestrictedInterpreter, written(place, text))


@fuzz(programs, examples=3)
def test_a_config_of_any_text_is_loaded_or_refused(text):
    with folder() as place:
        config = told(load, written(place, text), load_seconds=20.0, kind=DataError, where=place)
        if not isinstance(config, Told):
            try:
                told(lambda: [str(each.abbr) for each in config.chosen], kind=DataError)
            finally:
                config.close()


BODY = {
    "abbr": "x",
    "type": "X",
    "path": "p",
    "reader_cfg": {"input_columns": ["q"], "output_column": "a", "test_range": "[0:5]"},
    "infer_cfg": {"prompt_template": {"type": "PromptTemplate", "template": "{q}"}, "retriever": {"type": "ZeroRetriever"}, "inferencer": {"type": "GenInferencer", "max_out_len": 5}},
    "eval_cfg": {"evaluator": {"type": "AccEvaluator"}, "pred_postprocessor": {"type": "first-capital"}},
}  # fmt: skip


@fuzz(grafted(BODY, odds=12) | json_values(), st.sampled_from([None, True, False]))
def test_an_entry_of_any_shape_is_made_or_refused(body, strict):
    if isinstance(body, dict):
        made = told(entry, body, strict=strict, kind=DataError)
        if not isinstance(made, Told):
            for name in ("abbr", "reader_cfg", "infer_cfg", "eval_cfg", "inferencer"):
                told(getattr, made, name, None, kind=DataError)
