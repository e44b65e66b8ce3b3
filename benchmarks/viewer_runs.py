"""Makes the runs that benchmarks/viewer.py looks at.

    python benchmarks/viewer_runs.py FOLDER [SAMPLES [QUESTIONS_OF_CHOICE]]

Two runs, ``before`` and ``after``, of the same questions: open ones about a passage, and choices among four options,
each with two examples before it. A line of ``samples.jsonl`` has about 1.6 KB; words are as frequent as in a language.
"""

from __future__ import annotations

import random
import sys
from functools import cache
from itertools import accumulate
from pathlib import Path

from kshot import Answers, Failed, Generate, Generated, Metric, Prompt, Sample, Task, evaluate
from kshot.core.records import Option
from kshot.methods.generation import generate

SHARES = {"before": 0.55, "after": 0.57}
"""How many of the answers are right; those of the choices are right by chance as well."""
FAILED = 0.002
CATEGORIES = (
    *(
        "algebra",
        "anatomy",
        "astronomy",
        "biology",
        "business",
        "chemistry",
        "economics",
        "geography",
        "history",
        "law",
    ),
    *("logic", "medicine", "philosophy", "physics", "politics", "psychology", "religion", "sociology", "statistics"),
    "virology",
)


class Exact(Metric):
    """Whether the answer is the one expected."""

    name, bounds, binary = "Exact", (0.0, 100.0), True

    def rate(self, prediction, reference):
        """Return 100 or 0."""
        return 100.0 * (prediction in reference)


class Closeness(Metric):
    """A measure with grades."""

    name, bounds = "Closeness", (0.0, 100.0)

    def rate(self, prediction, reference):
        """Return 100 for the right answer, and a number that depends on the length of any other."""
        return 100.0 if prediction in reference else float(len(prediction) * 7 % 100)


class Chosen(Metric):
    """Whether the option is the right one."""

    name, bounds, binary = "Accuracy", (0.0, 100.0), True

    def rate(self, prediction, reference):
        """Return 100 or 0."""
        return 100.0 * (prediction == reference)


@cache
def vocabulary() -> tuple[list[str], list[float]]:
    """Return 20,000 words and their summed frequencies, as Zipf's law has them."""
    draws = random.Random(1)
    words = ["".join(draws.choices("abcdefghijklmnopqrstuvwxyz", k=draws.randrange(2, 11))) for _ in range(20_000)]
    return words, list(accumulate(1 / (at + 10) for at in range(len(words))))


def text(draws: random.Random, count: int) -> str:
    """Draw some words."""
    words, summed = vocabulary()
    return " ".join(draws.choices(words, cum_weights=summed, k=count))


@cache
def names() -> list[str]:
    """Return what answers are drawn from."""
    return [word.capitalize() for word in vocabulary()[0][:3_000]]


def questions(opens: int, choices: int) -> tuple[list[Sample], list[Sample]]:
    """Make the samples of both tasks."""
    draws = random.Random(2)
    common = [
        {"fields": {"n": at}, "category": CATEGORIES[at % 20], "position": at} for at in range(max(opens, choices))
    ]
    return (
        [Sample(f"q{at}", target=Answers((draws.choice(names()),)), **common[at]) for at in range(opens)],
        [
            Sample(f"c{at}", target=Option(draws.randrange(4)), choices=tuple(draws.sample(names(), 4)), **common[at])
            for at in range(choices)
        ],
    )


def ask_open(sample: Sample, _: object) -> Prompt:
    """Ask about a passage, after two examples."""
    draws = random.Random(sample.id)

    def question(name: str, answer: str) -> str:
        return f"Passage: {text(draws, 45)}\nQuestion: {name}{text(draws, 12)}?\nAnswer:{answer}"

    examples = [question("", f" {draws.choice(names())}") for _ in range(2)]
    return Prompt("\n\n".join([*examples, question(f"{sample.id} ", "")]))


def ask_choice(sample: Sample, _: object) -> Prompt:
    """Ask for one of four options, after two examples."""
    draws = random.Random(sample.id)

    def question(name: str, options: list[str], answer: str) -> str:
        listed = "\n".join(f"{letter}. {option}" for letter, option in zip("ABCD", options, strict=True))
        return f"{name}{text(draws, 40)}?\n{listed}\nAnswer:{answer}"

    examples = [question("", draws.sample(names(), 4), f" {draws.choice('ABCD')}") for _ in range(2)]
    return Prompt("\n\n".join([*examples, question(f"{sample.id} ", list(sample.choices), "")]))


class Replier:
    """Knows a share of the answers, draws the others, and fails now and then."""

    name = fingerprint = "replier"
    answers = (Generate,)

    def __init__(self, seed: str, share: float, samples: list[Sample]) -> None:
        self.draws, self.share, self.samples = random.Random(seed), share, {each.id: each for each in samples}

    def serve(self, queue):
        """Answer each request at once."""
        for request in queue:
            asked = request.prompt.text.rpartition("\n\n")[2]
            name = (asked.partition("Question: ")[2] or asked).split()[0]
            if self.draws.random() < FAILED:
                yield request, Failed("timeout", "no answer within 600 s")
            else:
                yield request, Generated(self.reply(self.samples[name]))

    def reply(self, sample: Sample) -> str:
        """Write a name and forty words, or a letter."""
        right = self.draws.random() < self.share
        if isinstance(sample.target, Option):
            return "ABCD"[sample.target.index if right else self.draws.randrange(4)]
        return f"{sample.target.texts[0] if right else self.draws.choice(names())}. {text(self.draws, 40)}"


def make(folder: Path, samples: int, choices: int | None = None) -> None:
    """Make both runs, with four choices for six open questions unless it is said how many."""
    choices = samples * 4 // 10 if choices is None else choices
    opens, chosen = questions(samples - choices, choices)
    reading = generate(lambda _, reply: reply.partition(".")[0], max_tokens=64)
    choosing = generate(lambda _, reply: "ABCD".index(reply[0]), max_tokens=4)
    tasks = [
        Task("reading", opens, ask_open, reading, (Exact(), Closeness()), facts={"shots": 2}),
        Task("choices", chosen, ask_choice, choosing, (Chosen(),), facts={"shots": 2}),
    ]
    for name, share in SHARES.items():
        asked = [task for task in tasks if task.samples]
        evaluate(Replier(name, share, [*opens, *chosen]), asked, out=folder / name, fsync="never")


if __name__ == "__main__":
    make(Path(sys.argv[1]), *map(int, sys.argv[2:] or ["100000"]))
