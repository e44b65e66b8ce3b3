"""The architecture: who may import whom, no cycles, one name for one thing, and nothing heavy before it is needed."""

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import kshot

ROOT = Path(kshot.__file__).parent

# Each part may import core, what stands here, and nothing else of kshot. Parts of one line never import each other.
BASE = {"index", "sandbox", "tables", "prompts", "statistics", "cleanups"}
MIDDLE = {"retrievers", "methods", "metrics"}
FRONT_ENDS = {"datasets", "configs", "lmeval", "lookup", "passages"}
TOP = {
    "option_types",
    "sources",
    "planning",
    "rescoring",
    "merging",
    "comparing",
    "exporting",
    "reporting",
    "result",
    "api",
    "settings",
}
EVERYTHING = {
    *BASE,
    *MIDDLE,
    *FRONT_ENDS,
    *TOP,
    "backends",
    "runs",
    "studies",
    "report",
    "viewer",
    "loggers",
    "run_files",
}
STUBS = {"option_types"}
"""Types for editors, which nothing imports at run time."""
MAY = {
    "core": set(),
    "loggers": set(),
    "option_types": set(),
    **{part: set() for part in BASE},
    **dict.fromkeys(MIDDLE, BASE),
    **dict.fromkeys(FRONT_ENDS, BASE | MIDDLE),
    "settings": {*FRONT_ENDS, "backends"},  # of each its module ``settings`` alone
    "backends": {"index", "prompts"},
    "runs": {"statistics", "settings"},
    "studies": {"statistics", "settings", "runs"},
    "report": {"runs"},
    "reporting": {"runs", "report", "comparing"},
    "viewer": {"runs", "report", "comparing"},
    "run_files": {"settings", "runs"},
    "result": {"runs", "report", "comparing"},
    "comparing": {"metrics", "runs", "report"},
    "exporting": {"metrics", "datasets", "runs", "report", "rescoring"},
    "sources": EVERYTHING - {"report", "reporting", "viewer", "planning", "rescoring", "merging", "result", "api"},
    "planning": EVERYTHING - {"report", "reporting", "viewer", "rescoring", "merging", "result", "api"},
    "rescoring": EVERYTHING - {"report", "viewer", "api", "merging"},
    "merging": {"loggers", "rescoring", "result", "runs"},
    "api": EVERYTHING - {"report", "viewer", "rescoring", "merging"},
    "cli": EVERYTHING,
    "__main__": {"cli"},
    "__init__": EVERYTHING,  # it names the others for type checkers, and imports them on demand
}
HEAVY = {
    "torch", "transformers", "vllm", "ray", "datasets", "sentence_transformers", "matplotlib", "onnxruntime",
    "tokenizers", "aiohttp", "httpx", "asyncio", "pyarrow", "pandas", "ftfy", "bm25s", "tantivy", "llama_index", "pypdf", "bs4", "ir_measures", "sacrebleu", "rouge_score", "nltk", "numpy", "jinja2", "rich",
    "wandb", "mlflow", "trackio", "starlette", "uvicorn",
}  # fmt: skip


def part_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports_of(tree, *, for_types=True):
    """Every kshot module that a file imports, wherever the import stands; ``for_types=False``: not for types alone."""
    skipped = set()
    if not for_types:
        blocks = [n for n in ast.walk(tree) if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
        skipped = {inner for block in blocks for inner in ast.walk(block)}
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "kshot")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "kshot":
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in MODULES or node.module == "kshot" else node.module


def module_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = sorted(ROOT.rglob("*.py"))
MODULES = {module_of(path): path for path in FILES}


class Trees(dict):
    """The syntax tree of each file, read when a test first needs it: every worker of the suite collects this module."""

    def __missing__(self, path):
        self[path] = ast.parse(path.read_text())
        return self[path]


TREES = Trees()


def allowed(path):
    """Return the parts that a file may import."""
    if "catalogue" in path.parts:  # a benchmark is written as a user would write it
        return {"datasets", "metrics", "cleanups", "core"}
    return {"core", "__version__", part_of(path)} | MAY[part_of(path)]


def test_every_part_has_a_place():
    assert {part_of(path) for path in FILES} | STUBS == set(MAY)


def test_imports_point_down():
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in FILES
        for module in imports_of(TREES[path])
        if module.split(".")[1] not in allowed(path)
    ]
    assert wrong == []


STARTED_BY_NAME = {("sandbox/process.py", part) for part in ("configs", "cleanups")}
"""Profiles name the packages whose modules run inside confined processes; they import none of them."""


def test_modules_that_are_named_in_a_text_are_below_too():
    """``import_module("kshot.x")``, lazy names and registries import what a text says."""
    found = {
        (str(path.relative_to(ROOT)), parts[1])
        for path in FILES
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if (parts := node.value.partition(":")[0].split("."))[0] == "kshot" and ".".join(parts) in MODULES
        if len(parts) > 1 and parts[1] not in allowed(path)
    }
    assert found == STARTED_BY_NAME


def test_imports_name_the_whole_module():
    """The other tests do not read imports such as ``from . import x``."""
    relative = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in FILES
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == []


def test_ways_in_beside_each_other_share_no_code_of_their_own():
    """Rows with flags and files of LLMBox are both datasets; neither knows the other, nor do pool, server and hf."""
    beside = {"datasets": {"rows", "llmbox", "catalogue"}, "backends": {"pool", "server", "hf"}}
    wrong = [
        f"{module_of(path)} imports {module}"
        for path in FILES
        if len(own := module_of(path).split(".")) > 2 and own[2] in beside.get(own[1], ())
        for module in imports_of(TREES[path])
        if len(other := module.split(".")) > 2 and other[1] == own[1]
        if other[2] in beside[own[1]] - {own[2]}
    ]
    assert wrong == []


def test_settings_stand_apart_from_the_code_that_reads_them():
    """``kshot --help`` needs the settings of every part, and no more of it."""
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in FILES
        if path.name == "settings.py"
        for module in imports_of(TREES[path])
        if module not in {"kshot.core.options", "kshot.core.errors"} and not module.endswith(".settings")
    ]
    assert wrong == []


def assert_acyclic(graph):
    state = {}

    def visit(node, trail):
        assert state.get(node) != "open", f"cycle: {' → '.join([*trail, node])}"
        if state.get(node) == "done":
            return
        state[node] = "open"
        for following in sorted(graph.get(node, set()) - {node}):
            visit(following, [*trail, node])
        state[node] = "done"

    for node in graph:
        visit(node, [])


def test_there_are_no_cycles_between_parts():
    graph = {}
    for path in FILES:
        if path != ROOT / "__init__.py":
            graph.setdefault(part_of(path), set()).update(m.split(".")[1] for m in imports_of(TREES[path]))
    assert_acyclic(graph)


def test_there_are_no_cycles_between_modules():
    """Imports inside functions count; those for type checkers alone do not, since they are never run."""
    assert_acyclic({module_of(path): set(imports_of(TREES[path], for_types=False)) for path in FILES})


def test_one_class_name_means_one_class():
    classes = [node.name for path in FILES for node in ast.walk(TREES[path]) if isinstance(node, ast.ClassDef)]
    assert [name for name, count in Counter(classes).items() if count > 1] == []


@pytest.mark.parametrize(
    "code", ["import kshot", "from kshot.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass"]
)
def test_nothing_heavy_is_imported_by(code):
    report = f"import sys\n{code}\nprint(sorted({{m.split('.')[0] for m in sys.modules}} & {HEAVY!r}), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_one_sample_of_the_embedded_model_imports_what_it_needs_and_no_more(tmp_path):
    dataset = Path(__file__).parents[1] / "examples" / "planets.py"
    given = ["run", "-d", f"{dataset}:Planets", "-m", "embedded", "--limit", "1", "--out", str(tmp_path / "run")]
    code = f"from kshot.cli import main\ntry: main({given!r})\nexcept SystemExit: pass"
    report = f"import sys\n{code}\nprint(sorted({{m.split('.')[0] for m in sys.modules}} & {HEAVY!r}), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    assert ast.literal_eval(done.stderr.strip().splitlines()[-1]) == sorted(
        HEAVY & {"numpy", "jinja2", "onnxruntime", "rich", "tokenizers"}
    )


COUNTED_HELP = """
import sys

calls = 0

def count(frame, event, arg):
    global calls
    calls += event == "call"

sys.setprofile(count)
try:
    from kshot.cli import main
    main(["--help"])
except SystemExit:
    sys.setprofile(None)
print(calls, file=sys.stderr)
"""


def test_help_does_little_work():
    """It calls 60,000 functions, nearly all of them to import modules; numpy alone would be 50,000 more."""
    done = subprocess.run([sys.executable, "-c", COUNTED_HELP], capture_output=True, text=True, check=True)
    assert int(done.stderr) < 80_000


def test_the_public_names_can_be_imported():
    assert "evaluate" in kshot.__all__
    assert all(getattr(kshot, name) is not None for name in kshot.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        kshot.nothing  # noqa: B018


def test_mypy_knows_the_parts_of_the_package(tmp_path):
    """``kshot.lookup`` and its like are modules with types, not ``Any``."""
    pytest.importorskip("mypy", reason="mypy is not installed: kshot[dev]")
    (tmp_path / "user.py").write_text(
        "import kshot\nreveal_type(kshot.evaluate)\nreveal_type(kshot.lookup.prompts)\nkshot.lookup.no_such_thing\n"
        "kshot.evaluate('embedded', 'lookup', num_shots=5, length=[10, 20], ranking_type='ppl', log='wandb')\n"
        "kshot.preview('lookup', stop='x', data=['a.jsonl'], temperature=1)\n"
        "kshot.evaluate('embedded', 'lookup', num_shot=5)\n"
        "kshot.evaluate('embedded', 'lookup', num_shots='x')\n"
        "kshot.evaluate('embedded', 'lookup', ranking_type='best')\n"
        "kshot.preview('lookup', model_type='instruct')\n"
    )
    # The settings and what mypy has found already are those of ``make lint``: without, it reads all of torch first.
    project = Path(__file__).parents[1]
    own = ["--config-file", str(project / "pyproject.toml"), "--cache-dir", str(project / ".mypy_cache")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--follow-imports=silent", *own, "user.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert '"Any"' not in done.stdout, done.stdout
    assert "-> kshot.result.Result" in done.stdout
    assert 'has no attribute "no_such_thing"' in done.stdout
    wrong = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error: " in line}
    assert wrong == {4, 7, 8, 9, 10}, done.stdout
    assert 'Unexpected keyword argument "num_shot"' in done.stdout
