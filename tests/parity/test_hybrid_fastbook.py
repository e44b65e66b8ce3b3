"""The default hybrid on the public benchmark: minutes of encoding, so only when asked for (``make slow``)."""

import os

import pytest

import kshot
from tests.passages.books import FASTBOOK, needs_fastbook

BEST_PUBLISHED = f"replay:{FASTBOOK}/published_runs.json#answerai_colbert_500"


@needs_fastbook
@pytest.mark.skipif(not os.environ.get("KSHOT_SLOW"), reason="set KSHOT_SLOW=1: it encodes for some minutes")
def test_the_default_hybrid_holds_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("KSHOT_CACHE", str(tmp_path / "cache"))
    result = kshot.evaluate(["hybrid", BEST_PUBLISHED], "fastbook", data=str(FASTBOOK), out=tmp_path / "run")
    rows = {row["metric"]: row for row in result.results if (row["task"], row["model"]) == ("fastbook", "hybrid")}
    assert rows["AC_MRR@10"]["value"] >= 0.58
    assert rows["AC_Recall@10"]["value"] >= 0.88
    (mrr,) = [row for row in result.comparisons if row["metric"] == "AC_MRR@10"]
    low, high = mrr["ci95"]
    assert (mrr["ahead"] is None) == (low <= 0 <= high)
