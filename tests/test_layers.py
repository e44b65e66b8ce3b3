"""The house: who may import whom, no cycles, and nothing heavy before it is needed."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import kshot

ROOT = Path(kshot.__file__).parent

# Each part may import itself, what stands here, and nothing else of kshot.
GROUND = {"records", "errors"}
PURE = GROUND | {"offsets"}
MAY = {
    "__init__": set(),  # it names the others as text and imports them on demand
    "errors": set(),
    "records": set(),
    "offsets": set(),
    "settings": {"errors"},
    "plugins": {"errors"},
    "corpus": {"errors"},
    "task": {"records", "corpus"},
    "tally": PURE | {"task", "metrics"},
    "serving": GROUND | {"task"},
    "engine": GROUND | {"task", "serving"},
    "prompts": GROUND,
    "retrievers": GROUND | {"prompts"},
    "methods": GROUND | {"prompts"},
    "metrics": GROUND | {"corpus"},
    "datasets": PURE | {"prompts", "retrievers", "methods", "metrics", "task", "tally", "settings", "plugins"},
    "lookup": PURE | {"prompts", "retrievers", "methods", "metrics", "task", "tally", "settings"},
    "passages": PURE | {"prompts", "methods", "metrics", "task", "tally", "settings", "datasets", "corpus"},
    "configs": PURE
    | {"prompts", "retrievers", "methods", "metrics", "task", "tally", "settings", "plugins", "datasets"},
    "backends": PURE | {"prompts", "task", "plugins", "corpus"},
    "runs": PURE,
    "evaluation": PURE | {"task", "tally", "engine", "methods", "metrics"},
    "running": PURE | {"corpus", "task", "tally", "engine", "evaluation", "runs", "settings"},
    "report": GROUND | {"runs"},
    "api": PURE
    | {
        "retrievers",
        "configs",
        "prompts",
        "datasets",
        "lookup",
        "passages",
        "methods",
        "corpus",
        "backends",
        "runs",
        "task",
        "tally",
        "engine",
        "evaluation",
        "running",
        "settings",
    },
    "exporting": GROUND | {"api", "backends", "passages", "running", "runs", "settings"},
    "cli": {"*"},
    "__main__": {"cli"},
}
HEAVY = {
    "torch", "transformers", "vllm", "ray", "datasets", "sentence_transformers", "matplotlib", "onnxruntime",
    "tokenizers", "aiohttp", "httpx", "asyncio", "pyarrow", "pandas", "ftfy", "bm25s", "tantivy", "llama_index", "pypdf", "bs4", "ir_measures", "sacrebleu", "rouge_score", "nltk", "numpy", "jinja2", "rich",
}  # fmt: skip


def part_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path):
    """Every kshot module a file imports, wherever the import stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "kshot")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "kshot":
            if node.module == "kshot":
                yield from (f"kshot.{alias.name}" for alias in node.names)
            else:
                yield node.module


FILES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path):
    part = part_of(path)
    assert part in MAY, f"{part} has no place in the house yet: add it to MAY"
    for module in imported(path):
        target = module.split(".")[1]
        allowed = MAY[part] | {part}
        ok = "*" in allowed or target in allowed or target == "__version__"
        if part_of(path) == "datasets" and "catalogue" in path.parts:
            ok = target in {"datasets", "metrics", "errors"}  # a benchmark is written as a user would write it
        assert ok, f"{path.relative_to(ROOT)} imports {module}"


def test_there_are_no_cycles_between_parts():
    graph = {}
    for path in FILES:
        graph.setdefault(part_of(path), set()).update(m.split(".")[1] for m in imported(path))
    state = {}

    def visit(part, trail):
        assert state.get(part) != "open", f"cycle: {' → '.join([*trail, part])}"
        if state.get(part) == "done":
            return
        state[part] = "open"
        for following in graph.get(part, set()) - {part}:
            visit(following, [*trail, part])
        state[part] = "done"

    for part in graph:
        visit(part, [])


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


def test_help_costs_little_cpu():
    code = "import resource; from kshot.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\nu = resource.getrusage(resource.RUSAGE_SELF); import sys; print(u.ru_utime + u.ru_stime, file=sys.stderr)"
    spent = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr)
        for _ in range(3)
    ]
    assert min(spent) < 0.4


def test_the_public_names_are_those_of_the_type_stub():
    stub = ast.parse((ROOT / "__init__.pyi").read_text())
    typed = {alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert typed == set(kshot.__all__)
    assert all(getattr(kshot, name) is not None for name in kshot.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        kshot.nothing  # noqa: B018


def test_no_source_file_is_too_long_to_read():
    long = {str(p.relative_to(ROOT)): n for p in FILES if (n := len(p.read_text().splitlines())) > 400}
    assert not long
