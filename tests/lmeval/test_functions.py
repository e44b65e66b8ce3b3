"""Functions of task files: calls, values, filters, metrics, sibling modules, packages that are missing."""

import pytest

from kshot.core.errors import DataError
from kshot.lmeval.files import FunctionRef, read_body, task_config
from kshot.lmeval.functions import FunctionFault, Functions, places_of
from kshot.sandbox.guest import GuestFault
from tests.lmeval.tasks import ref, write

UTILS = """
    import functools
    import nltk
    import nosuchpackage
    from lm_eval.api.filter import Filter
    from lm_eval.api.registry import register_filter
    from lm_eval.api.metrics import metric_max_over_ground_truths
    from lm_eval.filters.extraction import RegexFilter
    from lm_eval.utils import general_detokenize, weighted_f1_score
    from lm_eval.models import huggingface
    from lm_eval.tasks.birds.shared import loud

    SAMPLES = [{"q": "a"}]
    NEW = nltk.__version__ >= "3"
    shout = functools.partial(loud, times=2)

    def parts(doc):
        return tuple(doc["q"]), {1: doc["n"]}, {"x": float("nan")}

    def lazily(doc):
        yield from doc["q"]

    def kinds(results):
        return [type(each).__name__ for each in results]

    def samples():
        return SAMPLES * 2

    def third(doc):
        return doc["q"][2]

    def wanting(doc):
        return nosuchpackage.use(doc)

    def using(doc):
        return huggingface.HFLM(doc)

    @register_filter("own")
    class Own(Filter):
        def __init__(self, ending):
            self.ending = ending

        def apply(self, resps, docs):
            return ([text + self.ending + doc["q"] for text in each] for each, doc in zip(resps, docs))

    class Numbers(RegexFilter):
        def apply(self, resps, docs):
            return [each[0] for each in super().apply(resps, docs)]

    def by_keyword(references, predictions, bonus=0):
        return float(references == predictions) + bonus

    def by_pair(items):
        return items

    def alike(first, second):
        from fuzzywuzzy import fuzz
        import pkg_resources
        return fuzz.ratio(first, second), pkg_resources.get_distribution("jinja2").version

    def squad(gold, reply):
        import transformers.data.metrics.squad_metrics as squad_metrics
        return squad_metrics.compute_exact(gold, reply), squad_metrics.compute_f1(gold, reply)

    def best(doc):
        return metric_max_over_ground_truths(lambda a, b: len(a + b), "ab", ["c", "def"])
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tree")
    write(
        folder, birds__utils_py=UTILS, birds__shared_py="def loud(doc, times=1):\n    return doc['q'].upper() * times\n"
    )
    write(folder, birds__broken_py="def f(:\n", birds__raising_py="raise KeyError('no')\n")
    return folder


@pytest.fixture(scope="module")
def functions(tree):
    worker = Functions(tree)
    yield worker
    worker.close()


@pytest.fixture
def named(tree):
    return lambda name, module="utils": ref(tree / "birds", name, module)


DOC = {"q": "owl", "n": 2}


def test_values_keep_their_types(functions, named):
    ((letters, counts, other),) = functions.each(named("parts"), [(DOC,)])
    assert letters == ("o", "w", "l")
    assert counts == {1: 2}
    assert other["x"] != other["x"]
    assert functions.each(named("lazily"), [(DOC,)]) == [["o", "w", "l"]]
    assert functions.each(named("kinds"), [([(1.5, True), [1, 2], "x"],)]) == [["tuple", "list", "str"]]


def test_a_partial_of_a_sibling_s_function(functions, named):
    assert functions.each(named("shout"), [(DOC,), ({"q": "wren"},)]) == ["OWLOWL", "WRENWREN"]


def test_values_that_are_no_functions(functions, named):
    assert functions.value(named("SAMPLES")) == [{"q": "a"}]
    assert functions.value(named("samples")) == [{"q": "a"}, {"q": "a"}]
    assert functions.value(named("NEW")) is True
    assert functions.name(named("third")) == "third"


def test_many_large_values_come_in_several_answers(functions, named):
    long = {"q": "x" * 3_000_000}
    assert functions.each(named("shout"), [(long,)] * 7) == ["X" * 6_000_000] * 7


def test_a_call_that_fails_names_file_line_and_row(functions, named):
    docs = [(DOC,), ({"q": "o"},), ({"q": "wren"},)]
    with pytest.raises(FunctionFault, match=r"birds/utils\.py:\d+: utils\.third fails on row 1: IndexError") as caught:
        functions.each(named("third"), docs)
    assert (caught.value.row, caught.value.kind) == (1, "IndexError")
    first, second, last = functions.each(named("third"), docs, keep_faults=True)
    assert (first, last) == ("l", "e")
    assert isinstance(second, FunctionFault)


@pytest.mark.parametrize(
    ("name", "module", "expected"),
    [
        ("nothing", "utils", "there is no 'nothing' in .*utils.py"),
        ("f", "broken", "SyntaxError.*broken.py"),
        ("f", "raising", "KeyError: 'no' .*raising.py:1"),
        ("f", "absent", "No such file"),
    ],
)
def test_what_cannot_be_loaded(functions, named, name, module, expected):
    with pytest.raises(DataError, match=expected):
        functions.find(named(name, module))


def test_a_package_is_only_missed_where_it_is_used(functions, named):
    assert functions.each(named("third"), [(DOC,)]) == ["l"]
    with pytest.raises(GuestFault, match=r"needs the package 'nosuchpackage'.*pip install nosuchpackage"):
        functions.each(named("wanting"), [(DOC,)])
    with pytest.raises(GuestFault, match=r"needs the package 'lm_eval'.*pip install lm_eval"):
        functions.each(named("using"), [(DOC,)])


def test_filters_of_a_task(functions, named):
    assert functions.filtered(named("Own"), {"ending": "!"}, [["a", "b"]], [DOC]) == [["a!owl", "b!owl"]]
    found = functions.filtered(named("Numbers"), {"regex_pattern": "(x)?([0-9]+)"}, [["a 12"], [None]], [DOC, DOC])
    assert found == ["12", "[invalid]"]


def test_metrics_of_a_task(functions, named):
    assert functions.measured(named("by_keyword"), {"bonus": 1}, [("a", "a"), ("a", "b")]) == [2.0, 1.0]
    assert functions.measured(named("by_pair"), {}, [("a", "b")]) == [["a", "b"]]
    assert functions.each(named("best"), [(DOC,)]) == [5]


@pytest.mark.needs("scikit-learn")
def test_what_stands_for_lm_eval_s_own_functions(functions, named):
    assert functions.each(named("general_detokenize"), [("do n't ( go ) .",)]) == ["don't (go)."]
    pairs = [(0, 0), (1, 1), (1, 0), (2, 2)]
    from sklearn.metrics import f1_score

    expected = f1_score(*zip(*pairs, strict=True), average="weighted")
    assert functions.each(named("weighted_f1_score"), [(pairs,)]) == [pytest.approx(expected)]


def test_a_file_alone_may_read_the_modules_that_it_imports_and_no_others(tmp_path):
    folder = write(
        tmp_path / "tree",
        birds__song__utils_py="from lm_eval.tasks.birds import shared\nfrom lm_eval.tasks.secrets import keys\n",
        birds__shared_py="import lm_eval.tasks.birds.deep.more\n",
        birds__deep__more_py="",
        secrets__notes_txt="private",
        birds__song__task_yaml="task: x\nprocess_docs: !function utils.f\nprocess_results: !function utils.g\n",
    )
    path = folder / "birds" / "song" / "task.yaml"
    tree, readable = places_of(task_config(read_body(path), path))
    assert tree == folder
    assert sorted(readable) == [folder / "birds/deep/more.py", folder / "birds/shared.py", folder / "birds/song"]


def test_a_module_of_the_tree_by_its_whole_name(tree, functions):
    named = FunctionRef(None, "lm_eval.tasks.birds.shared", "loud", "task.yaml:1:1")
    assert functions.each(named, [(DOC,)], {"times": 3}) == ["OWLOWLOWL"]


def test_small_packages_that_are_not_installed(functions, named):
    import difflib
    from importlib import metadata

    for first, second in (("owl", "owls"), ("wren", "wren"), ("", "tit")):
        ((alike, version),) = functions.each(named("alike"), [(first, second)])
        assert alike == pytest.approx(100 * difflib.SequenceMatcher(None, first, second).ratio(), abs=0.5)
        assert version == metadata.version("jinja2")


@pytest.mark.parametrize(
    ("gold", "reply", "exact", "f1"),
    [
        ("The owl.", "an OWL", 1, 1),
        ("a brown owl", "brown  wren", 0, 0.5),
        ("owl", "tit", 0, 0),
        ("the", "!", 1, 1),
        ("owl", "", 0, 0),
    ],
)
def test_what_newer_transformers_lack(functions, named, gold, reply, exact, f1):
    assert functions.each(named("squad"), [(gold, reply)]) == [(exact, pytest.approx(f1))]
