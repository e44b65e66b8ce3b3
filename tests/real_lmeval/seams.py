"""Where prompt and option meet: ``lmeval:`` runs of kshot beside lm-eval itself, as texts and as chats.

Tiny random models with four kinds of tokenizers, tasks that end and begin in different white space, several numbers of examples,
and chat templates that end in white space or not, with BOS or without. Every log-probability and reply is compared, and
every figure. ``make lmeval-check`` does all of it; the test suite has a part of it, as lm-eval answered.
"""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tests.real_lmeval.comparison import ROUNDING, TOLERANCE
from tests.real_lmeval.models import FAMILIES, LLAMA_3, family_tokenizer, random_model
from tests.real_lmeval.rows import as_text, choices, rows
from tests.tiny_models import ask_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

TOKENIZERS = (LLAMA_3, FAMILIES[2], FAMILIES[0], FAMILIES[1])
ALWAYS_THE_SAME = 3
"""The first of these are learned the same every time, so that lm-eval's answers about them can be recorded."""
SHOTS = (0, 2, 5)
ENOUGH = 0.999
"""The share of log-probabilities and replies that must be equal, and figures all."""
TEXT = "text"
"""Runs without a chat template."""

_TURNS = "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}</s>\n{% endfor %}"
_INST = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system message') }}{% endif %}"
    "{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% else %} {{ m.content }}</s>{% endif %}{% endfor %}"
)
_HEADS = "{% for m in messages %}<|{{ m.role }}|>\n\n{{ m.content | trim }}<|end|>{% endfor %}"
TEMPLATES = {
    "space": _TURNS + "{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
    "space-bos": "{{ bos_token }}" + _HEADS + "{% if add_generation_prompt %}<|assistant|>\n\n{% endif %}",
    "none": _TURNS + "{% if add_generation_prompt %}<|assistant|>\n<think></think>{% endif %}",
    "none-bos": "{{ bos_token }}" + _INST,
}
"""By how they end before a reply, and whether they begin with BOS; "none-bos" refuses a system message, as Mistral's did,
and "none" begins a reply otherwise than a message of the assistant."""


def _asked(output_type: str, target: str, *metrics: str) -> dict[str, Any]:
    measured = [{"metric": name} for name in metrics]
    return {"output_type": output_type, "doc_to_choice": None, "doc_to_target": target, "metric_list": measured}


SHAPES: dict[str, dict[str, Any]] = {
    "usual": {},
    "line": {"doc_to_text": "{{question}}\nAnswer:\n", "target_delimiter": ""},
    "spaces": {"doc_to_text": "Question: {{question}}\nAnswer:\n  ", "target_delimiter": ""},
    "delimiter": {"doc_to_text": "{{question}}\nAnswer: ", "target_delimiter": "\n\n"},
    "spaced": {"doc_to_text": "{{question}}\nAnswer:", "target_delimiter": "", "doc_to_choice": "spaced"},
    "inside": {"doc_to_text": "{{question}}\nThe ans", "target_delimiter": "", "doc_to_choice": "inside"},
    "described": {"description": "Choose:\n\n", "fewshot_delimiter": "\n", "target_delimiter": "\n"},
    "prefix": {"gen_prefix": "It is:"},
    "prefix_line": {"gen_prefix": "It is:\n", "target_delimiter": ""},
    "inputs": {"doc_to_text": "label", "doc_to_choice": "before", "doc_to_target": "{{after}}"},
    "likelihood": _asked("loglikelihood", "{{options[label]}}", "perplexity", "acc"),
    "likelihood_line": _asked("loglikelihood", "\n{{options[label]}}", "perplexity", "acc") | {"target_delimiter": ":"},
    "rolling": _asked("loglikelihood_rolling", "{{page}}", "word_perplexity", "byte_perplexity", "bits_per_byte"),
    "reply": {
        **_asked("generate_until", "{{options[label]}}", "exact_match"),
        "doc_to_text": "{{question}}\nAnswer:\n",
        "target_delimiter": "",
        "generation_kwargs": {"until": ["\n\n"], "do_sample": False, "max_gen_toks": 8},
    },
}
_SCORES = [{"metric": name} for name in ("acc", "acc_norm", "acc_bytes", "acc_mutual_info")]
_TASK = {
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": {name: f"{name}.jsonl" for name in ("train", "test")}},
    "output_type": "multiple_choice",
    "training_split": "train",
    "test_split": "test",
    "fewshot_split": "train",
    "doc_to_text": "Question: {{question}}\nAnswer:",
    "doc_to_choice": "options",
    "doc_to_target": "label",
    "metric_list": _SCORES,
}


def build(folder: Path, count: int, tokenizers: Sequence[str] = TOKENIZERS) -> list[Path]:
    """Write the rows (``count`` of them are asked), the tasks, the templates and the models; return the models."""
    for name in ("tasks", "templates", "models"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for split, most in (("train", 12), ("test", count)):
        lines = [json.dumps(row, ensure_ascii=False) for row in _rows(split, most)]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name, keys in SHAPES.items():
        (folder / "tasks" / f"{name}.yaml").write_text(json.dumps({"task": name, **_TASK, **keys}), encoding="utf-8")
    for name, source in TEMPLATES.items():
        (folder / "templates" / f"{name}.jinja").write_text(source, encoding="utf-8")
    texts = list(_learned())
    return [
        random_model(folder / "models" / str(number), family_tokenizer(family, texts))
        for number, family in enumerate(tokenizers)
    ]


def _rows(split: str, count: int) -> Iterator[dict[str, Any]]:
    draw = random.Random(f"seams {split}")
    for _ in range(count):
        row = choices(draw)
        # Longer than a token, so that something is left to score where the first token begins in the prompt.
        options = [f"{option} by the sea" for option in row["options"]]
        first, second = options[:2]
        yield row | {
            "options": options,
            "spaced": [space + option for space, option in zip(("\n", " ", "\n\n", "  "), options, strict=True)],
            "inside": [f"wer is {option}" for option in options],
            "before": [f"{first} is near.\n", f"{second} is near. ", f"{second} or {first}:"],
            "after": "\nSo it is.",
            "label": row["label"] % 3,
            "page": f"{row['question']}\nAnswer:\n{first}\n",
        }


def _learned() -> Iterator[str]:
    """Texts from which the tokenizers learn to join marks, ends of lines and the words after them."""
    for row in rows("text", "train"):
        yield as_text("text", row)
        yield as_text("text", row).replace("Answer: ", "Answer:\n")
        yield as_text("text", row).replace("Answer: ", "Answer:\n\n")
        yield f"<|user|>\n{row['question']}<|end|>\n<|assistant|>\nIt is:\n{row['options'][0]}<|end|>\n\n"
        yield f"[INST] {row['question']} [/INST] It is: {row['options'][1]}"


def key(number: int, template: str, shape: str, shots: int) -> str:
    """Return the name of a run of lm-eval, as ``in_lmeval.py`` writes it."""
    return f"{number} {shape} {shots}" + (f" {template}" if template != TEXT else "")


def ran(folder: Path, number: int, template: str, shots: int, *, own_rules: bool = False) -> Any:
    """Run kshot on all tasks; ``own_rules``: those by which kshot's other tasks score options."""
    import torch

    import kshot
    from kshot.backends.hf.model import Transformers

    torch.set_num_threads(1)  # so small a model is slower on several
    chat = None if template == TEXT else (folder / "templates" / f"{template}.jinja").read_text(encoding="utf-8")
    model = Transformers(
        str(folder / "models" / str(number)), device="cpu", batch_size=16, truncate="left", chat_template=chat
    )
    return kshot.evaluate(
        _ByOwnRules(model) if own_rules else model,
        f"lmeval:{folder / 'tasks'}",
        dataset_path=str(folder),
        num_shots=shots,
        model_type="chat" if chat else "base",
    )


class _ByOwnRules:
    """A model that reads no prompt by lm-eval's rules."""

    def __init__(self, model: Any) -> None:
        self.name, self.fingerprint, self.answers, self._model = "own-rules", "own-rules", model.answers, model

    def serve(self, queue: Any) -> Iterator[Any]:
        """Answer what waits."""
        asked = queue.take()
        plain = [replace(request, prompt=replace(request.prompt, rules="kshot")) for request in asked]
        yield from zip(asked, ask_all(self._model, plain), strict=True)


@dataclass
class Tally:
    """How many values were compared, and those that differ."""

    answers: int = 0
    figures: int = 0
    largest: float = 0.0
    other_answers: list[str] = field(default_factory=list)
    other_figures: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add what was compared elsewhere."""
        self.answers += other.answers
        self.figures += other.figures
        self.largest = max(self.largest, other.largest)
        self.other_answers += other.other_answers
        self.other_figures += other.other_figures

    def __str__(self) -> str:
        return f"{self.answers:8} {len(self.other_answers):6} {self.figures:8} {len(self.other_figures):6} {self.largest:8.1e}"


def compare(result: Any, expected: Any, tally: Tally) -> None:
    """Compare a run with lm-eval's runs by task: each log-probability, each flag, each reply, each figure."""
    for shape, theirs in expected.items():
        documents = [row for row in result.samples if _task(row) == shape]
        for row, sample in zip(documents, theirs["samples"], strict=True):
            pairs = list(_pairs(row["response"], sample["resps"]))
            tally.answers += len(pairs)
            numbers = [abs(mine[0] - answer[0]) for mine, answer in pairs if not isinstance(mine, str)]
            tally.largest = max(tally.largest, *numbers, 0.0)
            place = f"{shape}, document {sample['doc_id']}"
            tally.other_answers += [
                f"{place}: kshot {pair[0]}, lm-eval {pair[1]}" for pair in pairs if not _same(*pair)
            ]
        figures = {
            f"{row['lmeval_metric']},{row['filter']}": row["value"] / row["scale"]
            for row in result.results
            if _task(row) == shape
        }
        for name, value in theirs["metrics"].items():
            tally.figures += 1
            if name not in figures or not math.isclose(figures[name], value, rel_tol=1e-5, abs_tol=1e-12):
                tally.other_figures.append(f"{shape}, {name}: kshot {figures.get(name)}, lm-eval {value}")


def _task(row: Any) -> str:
    return str(row["task"]).removeprefix("lmeval:").partition(",")[0]


def _pairs(ours: Any, theirs: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    if isinstance(ours, str):
        yield ours.removeprefix(" "), next(iter(theirs))[0].removeprefix(" ")  # as in comparison.py
        return
    for mine, (answer,) in zip(ours, theirs, strict=False):
        yield (mine["logprob"], mine["greedy"]), tuple(answer) if isinstance(answer, list) else (answer, mine["greedy"])


def _same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, str):
        return bool(ours == theirs)
    allowed = max(TOLERANCE, ROUNDING * abs(theirs[0]))
    return abs(ours[0] - theirs[0]) <= allowed and ours[1] == theirs[1]
