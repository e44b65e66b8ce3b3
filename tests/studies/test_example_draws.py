"""The spread over draws of examples."""

import pytest

from kshot.core.errors import UsageError
from kshot.settings import Settings
from kshot.sources import source_of
from kshot.studies.example_draws import ExampleDraws, Spread, parse_seeds, spread


def test_seeds():
    assert parse_seeds("0..9") == range(10)
    assert parse_seeds(" 3 .. 5 ") == range(3, 6)
    assert list(parse_seeds("7")) == [7]
    assert list(parse_seeds("4294967295")) == [4294967295]


@pytest.mark.parametrize(
    "bad", ["", "9..0", "-1..3", "a..b", "0..", "..3", "0...9", "1,2", "0..4294967296", "٣", "9" * 5000]
)
def test_what_is_no_seeds(bad):
    with pytest.raises(UsageError, match=r"--retriever-seeds is .*such as 0..9"):
        parse_seeds(bad)


def test_spread():
    found = spread({0: 50.0, 1: 54.0, 2: 52.0, 3: 56.0})
    assert found == Spread(mean=53.0, sd=pytest.approx((20 / 3) ** 0.5), min=50.0, max=56.0)
    assert spread({5: 1}) == (1.0, None, 1.0, 1.0)
    with pytest.raises(UsageError, match="no values"):
        spread({})


CONFIG = """
from opencompass.models import HuggingFaceBaseModel
models = [dict(type=HuggingFaceBaseModel, abbr="tiny", path="models/tiny", max_out_len=4)]
judge_models = [dict(type=HuggingFaceBaseModel, abbr="judge", path="models/judge", max_out_len=4)]
news_datasets = [dict(abbr="news")]
"""


def test_the_draws_of_a_source_use_its_models_and_judges(tmp_path):
    (tmp_path / "config.py").write_text(CONFIG)
    draws = source_of(str(tmp_path / "config.py"), Settings(retriever_seeds="0..2"))
    assert isinstance(draws, ExampleDraws)
    assert list(draws.models) == ["hf:models/tiny"]
    assert list(draws.judges) == ["hf:models/judge"]
    assert not draws.has_corpus
    assert not draws.searches(Settings())


def test_the_draws_of_a_source_are_of_its_kind():
    draws = source_of("handbook", Settings(retriever_seeds="0..2"))
    assert draws.has_corpus
    assert draws.searches(Settings())
    assert not draws.searches(Settings(method="rag"))
