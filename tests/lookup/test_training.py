"""The embedded model is trained on the very text that ``kshot.lookup.prompts`` writes, token by token."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kshot
from kshot.lookup.generate import VOCAB, answers, generate
from kshot.lookup.prompt_writer import TEMPLATES, VARIANTS, LookupPromptWriter, Shot, Variant, default_texts, prompts

torch = pytest.importorskip("torch")
pytest.importorskip("tokenizers")
FOLDER = Path(__file__).parents[2] / "training" / "embedded"


@pytest.fixture(scope="module")
def modules():
    if not FOLDER.is_dir():
        pytest.skip("the training scripts are not here")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        import batches
        import vocabulary

        yield batches, vocabulary
    for name in ("batches", "vocabulary"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def tokenizer(modules):
    return modules[1].build()


def test_characters_and_prompts_are_spelt_whole(tokenizer):
    for text in [*VOCAB, *(f" {c}" for c in VOCAB), "\n\n", " |", ":"]:
        assert len(tokenizer.encode(text).ids) == 1
    data = generate("nonunique", 20, 3, 1)
    for form in VARIANTS:
        for text in prompts(data, task="NLFirst", variant=form):
            assert tokenizer.decode(tokenizer.encode(text).ids) == text
    odd = "Any text: naïve – 12,345\n\n\t答案"
    assert tokenizer.decode(tokenizer.encode(odd).ids) == odd


def shot(lines, index, length, task, sep):
    context = "".join(VOCAB[c] for c in lines.context[index, : length - 1].tolist())
    query, target = VOCAB[lines.query[index]], VOCAB[lines.target[index]]
    assert answers(context, query)[task] == target
    assert context.count(query) == lines.count[index]
    return Shot(context + ("|" if sep else "") + query, target)


@pytest.mark.parametrize("same", [False, True])
def test_rendered_rows_are_prompts(modules, tokenizer, same):
    batches, _ = modules
    torch.manual_seed(3)
    renderer = batches.PromptRenderer(tokenizer, "cpu")
    spec = renderer.specs(120, 40, same=same)
    tokens, weight = renderer.render(spec, 900, 40 if same else batches.SMALL_LENGTHS[1], 40)
    drawn = renderer.last
    for row in range(len(tokens)):
        task, sep = batches.NAMES[spec["task"][row]], int(spec["sep"][row])
        pool, length = int(spec["pool"][row]), int(spec["length"][row])
        shown = [
            shot(drawn["examples"], row * batches.MAX_SHOTS + i, pool, task, sep) for i in range(spec["shots"][row])
        ]
        item = shot(drawn["asked"], row, length, task, sep)
        worked = shot(drawn["worked"], row, pool, task, sep)
        form = Variant("sep" if sep else "nosep", "small", TEMPLATES[spec["template"][row]])
        write = LookupPromptWriter(form, default_texts(), task, reference=False, instruct=False)
        noise = int(spec["noise"][row])
        ids = tokenizer.encode(f"{write(item, shown, worked)} {item.target}\n\n").ids
        if noise:
            assert form.template == "bare"
            assert tokens[row, noise - 1] == renderer.blank
            ids = tokens[row, :noise].tolist() + ids
        assert tokens[row, : len(ids)].tolist() == ids
        assert not tokens[row, len(ids) :].any()
        assert weight[row, len(ids) - 3] == 1  # the colon of the question, before its answer
        for place in weight[row].nonzero()[:, 0].tolist():
            assert tokens[row, place] == renderer.colon or tokens[row, place + 1] == renderer.blank


# ---- from training to the shipped files ----

SHIPPED = Path(kshot.__file__).parent / "backends" / "embedded"


def script(name, *arguments):
    command = [sys.executable, str(FOLDER / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr


def test_export_writes_the_shipped_graph_byte_for_byte(tmp_path):
    pytest.importorskip("onnx")
    for name in ("config.json", "model.safetensors"):
        shutil.copyfile(SHIPPED / name, tmp_path / name)
    script("export.py", tmp_path)
    assert (tmp_path / "model.onnx").read_bytes() == (SHIPPED / "model.onnx").read_bytes()


def test_the_shipped_tokenizer_is_the_one_built(modules, tokenizer, tmp_path):
    modules[1].save(tokenizer, tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert json.loads((tmp_path / name).read_text()) == json.loads((SHIPPED / name).read_text())


def test_what_training_saves_can_be_exported_and_run(tmp_path, monkeypatch):
    pytest.importorskip("onnx")
    script("train.py", "--out", tmp_path, "--steps", 2, "--scale", 0.01, "--samples", 1, "--lengths", 10)
    facts = json.loads((tmp_path / "training.json").read_text())
    assert (facts["log"][-1]["step"], facts["lengths"]) == (2, [10])
    assert set(facts) == set(json.loads((FOLDER / "training.json").read_text()))
    script("export.py", tmp_path)
    assert {path.name for path in SHIPPED.iterdir() if path.suffix in {".json", ".onnx", ".safetensors"}} == {
        path.name for path in tmp_path.iterdir() if path.name != "training.json"
    }
    monkeypatch.setattr("kshot.backends.embedded.FOLDER", tmp_path)
    found = kshot.evaluate("embedded", "lookup:UR", length=10, samples=2)
    assert found.results[0]["n"] == 2
