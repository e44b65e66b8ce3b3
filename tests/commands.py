"""Running the command line in tests: in this process (quick, counted by coverage) or as a real process."""

import subprocess
import sys
from dataclasses import dataclass

from kshot.cli import main

CAPITALS = '''
import json
from pathlib import Path

from kshot import Em, GenerationDataset, MultipleChoiceDataset

WORLD = [("France", "Paris"), ("Italy", "Rome"), ("Norway", "Oslo"), ("Peru", "Lima"), ("Cuba", "Havana")]


class Capitals(MultipleChoiceDataset):
    """Capitals of countries, four options each."""

    instruction = "What is the capital of {{country}}?{{' ' + options if options}}\\nAnswer:"
    evaluation_set = "test"
    example_set = "dev"

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        size = int(dataset_path or 5)
        self.evaluation_data = [{"country": c + str(i // 5), "right": k} for i in range(size) for k, (c, _) in [(i % 5, WORLD[i % 5])]]
        self.example_data = [{"country": c, "right": k} for k, (c, _) in enumerate(WORLD)]

    def format_instance(self, row):
        return {"country": row["country"], "options": [city for _, city in WORLD], "target_idx": row["right"]}


class Cities(GenerationDataset):
    """The same, in free text."""

    instruction = "The capital of {country} is"
    metrics = [Em()]
    load_raw_dataset = Capitals.load_raw_dataset

    def format_instance(self, row):
        return {"country": row["country"], "target": WORLD[row["right"]][1]}
'''


@dataclass
class Done:
    code: int
    out: str
    err: str


def kshot(capsys, *arguments):
    """Call the command line in this process."""
    capsys.readouterr()
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as exc:
        code = exc.code
    said = capsys.readouterr()
    return Done(code, said.out, said.err)


def kshot_process(*arguments, cwd, **more):
    """Call the command line as a user does."""
    command = [sys.executable, "-m", "kshot", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600, check=False, **more)
    return Done(done.returncode, done.stdout, done.stderr)
