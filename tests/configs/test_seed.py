"""Every Python block of the retriever document runs as written: as a config file, or as Python."""

import re
from pathlib import Path

import pytest

from kshot.configs import load
from kshot.core.errors import BadValue
from kshot.retrievers import FixKRetriever, RandomRetriever

SEED = Path(__file__).parents[2].parent / "shared" / "seeds" / "aisbench-retriever.md"
BLOCKS = re.findall(r"^ *```python\n(.*?)^ *```", SEED.read_text(), re.DOTALL | re.MULTILINE) if SEED.exists() else []
PRELUDE = "from ais_bench.benchmark.openicl.icl_retriever import FixKRetriever\nfrom ais_bench.benchmark.openicl.icl_retriever.icl_random_retriever import RandomRetriever\n"
ROWS = {"train": [{"text": f"t{i}", "label": f"l{i}"} for i in range(6)], "test": [{"text": "a", "label": "b"}] * 3}

pytestmark = pytest.mark.skipif(not SEED.exists(), reason="the seed document is not on this machine")


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_block_runs(number, tmp_path):
    text = (
        re.sub(r"^   ", "", BLOCKS[number], flags=re.MULTILINE) if BLOCKS[number].startswith("   ") else BLOCKS[number]
    )
    if "retrieve()" in text:
        space = {"RandomRetriever": RandomRetriever, "dataset": ROWS}
        exec(text, space)
        assert space["result1"] == space["result2"]
        assert all(len(set(ids)) == 3 for ids in space["result1"])
        return
    (tmp_path / "config.py").write_text(text if "import" in text else PRELUDE + text)
    config = load(tmp_path / "config.py")
    assert config is not None


def test_there_are_blocks_of_every_kind():
    assert len(BLOCKS) >= 10
    assert sum("infer_cfg" in block for block in BLOCKS) >= 5


def test_ids_out_of_range_raise_the_value_error_it_names(tmp_path):
    with pytest.raises(ValueError, match="6"):
        FixKRetriever(ROWS, fix_id_list=[0, 6])
    assert issubclass(BadValue, ValueError)
    (tmp_path / "config.py").write_text(
        "from ais_bench.benchmark.utils.logging.exceptions import AISBenchValueError\nx = issubclass(AISBenchValueError, ValueError)\n"
    )
    assert load(tmp_path / "config.py") is not None
