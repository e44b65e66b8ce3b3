"""Make the model card: ``python training/embedded/card.py [--runs DIR]``, 10 minutes on two cores (DIR lets it resume).

Every figure comes from a ``kshot run``, and the card shows the commands; the recipe comes from ``training.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "src"))

from kshot.backends.embedded import FOLDER, Embedded  # noqa: E402 - found through the line above
from kshot.cli import main as kshot  # noqa: E402
from kshot.lookup.generate import TASKS  # noqa: E402

SEED = 424242  # training draws on the GPU, and its own table uses 90,010 and up: only the card uses this seed
SAMPLES = 100
NAMES = [task for tasks in TASKS.values() for task in tasks]
LENGTHS = (10, 20, 40, 60, 80, 100, 120)
VARIANTS = (
    "sep|small|bare",
    "sep|small|simple_rule",
    "sep|small|math_rule_explained",
    "nosep|small|simple_rule",
    "sep|same|bare",
)
SHIPPED = ("config.json", "model.onnx", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
BARE, RULE = ("--variant", "sep|small|bare"), ("--variant", "sep|small|simple_rule")
HARD = ("--group", "nonunique", "--length", "40", "--samples", str(SAMPLES), "--seed", str(SEED), "--hard")
HARD_FILE = f"data/nonunique/hard_sample_{SAMPLES}_len_40_seed_{SEED}.jsonl"

TABLE = (
    "-m", "embedded", "-d", "lookup", "--length", ",".join(map(str, LENGTHS)),
    *(word for variant in VARIANTS for word in ("--variant", variant)),
    "--samples", str(SAMPLES), "--seed", str(SEED), "--out", "table",
)  # fmt: skip


def _held_out(*words: str, tasks: str = "lookup", out: str) -> tuple[str, ...]:
    seeded = () if "--data" in words else ("--samples", str(SAMPLES))
    return ("-m", "embedded", "-d", tasks, *words, *seeded, "--seed", str(SEED), "--out", out)


# Settings that training never used -> the run that measures them
HELD_OUT = {
    "length 160, rule": _held_out("--length", "160", *RULE, out="longer"),
    "hard records (queries in the first half), length 40, bare": _held_out(
        "--data", HARD_FILE, *BARE, tasks="lookup:" + ",".join(TASKS["nonunique"]), out="hard"
    ),
    "published pool (nonunique examples of length 7), length 20, bare": _held_out(
        "--length", "20", "--reference", *BARE, out="trap"
    ),
    "the same, with the rule": _held_out("--length", "20", "--reference", *RULE, out="trap-rule"),
    "12 examples, length 20, bare": _held_out("--length", "20", "--shots", "12", *BARE, out="twelve"),
    "1 example, length 20, bare": _held_out("--length", "20", "--shots", "1", *BARE, out="one"),
    "no example, length 20, rule": _held_out("--length", "20", "--shots", "0", *RULE, out="none"),
}

CARD = """# The embedded model

A transformer with Llama's architecture and {weights:,} weights ({layers} layers, {width} wide, {heads} heads,
SwiGLU of {inner}, RoPE, tied embeddings) and a byte-level tokenizer of {tokens} tokens. The kshot project trained it
from scratch on token lookup and nothing else. It is built in, so that `kshot run` shows a
real evaluation, with real failures, before any model is downloaded.

- **Use:** `kshot run -m embedded` (the default; onnxruntime, no torch), or `-m hf:embedded` (transformers). Both read
  the same `model.safetensors`: `model.onnx` is only the graph. The model generates text and computes log-probabilities.
- **Size:** {size:.2f} MB in all: fp16 weights, computed in fp32. Context: {positions:,} tokens; a longer prompt is
  reported as failed.
- **Licence:** Apache-2.0, for weights and data. The data is generated; no text of others was used.
- **Fingerprint:** `{fingerprint}`

## Data and recipe
The prompts of the six tasks ({tasks}) are equally frequent. They are made on the GPU by the rules of
`kshot.lookup.generate` and with the texts of `kshot.lookup.prompts` (a test compares them token by token). Query
lengths are 8–88 (unique: from 6). There are 1–8 examples (bare: 3–8) of length 6–12 (nonunique: 8–12) or as long as
the query. All five templates occur, with and without separator; a third of the bare prompts begin with random tokens.
The loss is on the token after each colon and, with a small weight, on the blank line after it.

Training took {steps:,} steps of about 72,000 tokens in {minutes:.0f} minutes on one H200, with
AdamW {rate}, warm-up and cosine, bf16, seed {seed}. The weights are then rounded to fp16.
The command: `python training/embedded/train.py --out FOLDER`.

**Held out:** lengths above 88; `hard` records; nonunique examples of length 7; more than 8 examples; bare with fewer
than 3, a rule with none; any other wording of the rules (`--templates`); instruct prompts; and the records of this
card: seed {card_seed} was never used in training.

<!-- table: made by training/embedded/card.py; do not edit -->
## Accuracy
In %, n = {samples} records per cell; in brackets the lower end of the 95 % interval (Wilson). Trained lengths end at
88.

    {table_command}

{table}

## Held-out settings
In %, n = {samples} records per cell, the lower end of the 95 % interval in brackets.

{held_out}

    {held_out_commands}
<!-- end of table -->

## What it cannot do
- **Free text, knowledge, other tasks.** It has seen nothing but lookup prompts; on any other benchmark its answers
  are noise.
- **Instruct prompts.** It has no chat template: `--model-type chat` is an error that says so.
- **Lengths far beyond 88.** The tables show where it fails; tasks that ask for the first occurrence fail first.
- **The length-7 trap.** In a nonunique record of length 7 the query stands at 2 and 4 always, so the right of the
  first is the left of the last. Bare examples of that length (the published pool, `--reference`) cannot tell NRFirst
  from NLLast, for any model; it was not trained on them. kshot's default pool has length 10 instead.
- **Represent other models.** It is a demonstration and a test of the tool, not a baseline.
"""


def run(words: Sequence[str]) -> dict[tuple[str, str, int], Mapping[str, Any]]:
    """Call ``kshot run``, and return the accuracy rows by variant, task and length."""
    if kshot(["run", *words]):
        sys.exit(f"failed: kshot run {shlex.join(words)}")
    summary = json.loads((Path(words[-1]) / "summary.json").read_text(encoding="utf-8"))
    return {(r["variant"], r["lookup"], r["length"]): r for r in summary["results"] if r["metric"] == "Accuracy"}


def cell(row: Mapping[str, Any] | None) -> str:
    """Return the accuracy and the lower end of its interval."""
    if row is None:
        return "–"
    if row["failed"] or row["n"] != SAMPLES:
        sys.exit(f"{row['task']}: {row['failed']} failed, {row['n']} answered")
    return f"{row['value']:.1f} ({row['ci95'][0]:.1f})"


def lines(head: Sequence[object], rows: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Give the lines of a Markdown table."""
    yield "| " + " | ".join(map(str, head)) + " |"
    yield "|---" + "|--:" * (len(head) - 1) + "|"
    yield from (f"| {' | '.join([name, *cells])} |" for name, cells in rows.items())


def accuracy() -> str:
    """Return the tables by task and length, one per variant."""
    found = run(TABLE)
    parts = []
    for variant in VARIANTS:
        rows = {task: [cell(found[variant, task, length]) for length in LENGTHS] for task in NAMES}
        parts.append("\n".join([f"### `{variant}`", "", *lines(["length", *LENGTHS], rows)]))
    return "\n\n".join(parts)


def held_out() -> str:
    """Return the table of settings that training never used."""
    kshot(["lookup", "generate", *HARD, "--out", "data"])
    rows = {}
    for name, words in HELD_OUT.items():
        found = {task: row for (_, task, _), row in run(words).items()}
        rows[name] = [cell(found.get(task)) for task in NAMES]
    return "\n".join(lines(["", *NAMES], rows))


def card() -> str:
    """Return the whole card; this runs what the card reports."""
    config = json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))
    trained = json.loads((HERE / "training.json").read_text(encoding="utf-8"))
    commands = [("lookup", "generate", *HARD, "--out", "data"), *(("run", *words) for words in HELD_OUT.values())]
    return CARD.format(
        weights=trained["weights"],
        layers=config["num_hidden_layers"],
        width=config["hidden_size"],
        heads=config["num_attention_heads"],
        inner=config["intermediate_size"],
        positions=config["max_position_embeddings"],
        tokens=len(json.loads((FOLDER / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]),
        size=sum((FOLDER / name).stat().st_size for name in SHIPPED) / 1e6,
        fingerprint=Embedded().fingerprint,
        tasks=", ".join(NAMES),
        steps=trained["log"][-1]["step"],
        minutes=trained["log"][-1]["seconds"] / 60,
        rate=trained["settings"]["lr"],
        seed=trained["settings"]["seed"],
        card_seed=SEED,
        samples=SAMPLES,
        table_command=shlex.join(["kshot", "run", *TABLE]),
        table=accuracy(),
        held_out=held_out(),
        held_out_commands="\n    ".join(shlex.join(["kshot", *words]) for words in commands),
    )


def main() -> None:
    """Run everything in a folder of its own, then write the card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, help="keep the runs here (default: a temporary folder)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (args.runs or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        os.chdir(folder)
        text = card()
        os.chdir(HERE)
    (FOLDER / "CARD.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
