"""Small tables as people have them, and what they mean."""

import json
from dataclasses import dataclass, field

import kshot
from kshot.core.records import AnyOption, Option
from kshot.settings import settings_from
from kshot.sources import source_of

HEADER = "Q,A,B,C,D,key\n"
ROWS = "cap?,Paris,Rome,Berlin,Oslo,A\nsum?,1,2,3,4,D\n"
FLAGS = {"question": "Q", "options": ["A", "B", "C", "D"], "answer": "key"}
ONE_COLUMN = {"question": "q", "options": "o", "answer": "k"}


@dataclass(frozen=True)
class Table:
    """A file, the flags that describe it, the right options of its rows, and the options of the first."""

    file: str
    content: str | bytes
    right: list
    first: tuple = ("Paris", "Rome", "Berlin", "Oslo")
    flags: dict = field(default_factory=lambda: FLAGS)


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


TABLES = [
    Table("plain.csv", HEADER + ROWS, [0, 3]),
    Table("bom.csv", "\ufeff" + HEADER + ROWS, [0, 3]),
    Table("semicolons.csv", (HEADER + ROWS).replace(",", ";"), [0, 3]),
    Table("tabs.csv", (HEADER + ROWS).replace(",", "\t"), [0, 3]),
    Table("tabs.tsv", (HEADER + ROWS).replace(",", "\t"), [0, 3]),
    Table("commas.tsv", HEADER + ROWS, [0, 3]),
    Table("bars.csv", (HEADER + ROWS).replace(",", "|"), [0, 3]),
    Table("named.csv", "sep=;\n" + (HEADER + ROWS).replace(",", ";"), [0, 3]),
    Table("windows.csv", (HEADER + ROWS).replace("\n", "\r\n"), [0, 3]),
    Table("old_mac.csv", (HEADER + ROWS).replace("\n", "\r"), [0, 3]),
    Table("lower.csv", HEADER + ROWS.replace(",A\n", ", a\n").replace(",D\n", ",d\n"), [0, 3]),
    Table("brackets.csv", HEADER + ROWS.replace(",A\n", ",(A)\n").replace(",D\n", ",D.\n"), [0, 3]),
    Table("letter_and_text.csv", HEADER + ROWS.replace(",A\n", ",A. Paris\n").replace(",D\n", ",D) 4\n"), [0, 3]),
    Table("quoted.csv", HEADER + '"two\nlines, a comma",1,"2,5",3,"say ""4""",B\n', [1], ("1", "2,5", "3", 'say "4"')),
    Table("empty_end.csv", HEADER + "\n" + ROWS + ",,,,,\n,,,,,\n", [0, 3]),
    Table("nameless.csv", "Q,A,B,C,D,key,,\n" + ROWS.replace("A\n", "A,,\n").replace("D\n", "D,,\n"), [0, 3]),
    Table("fewer.csv", HEADER + ROWS + "two?,1,2,,,B\n", [0, 3, 1]),
    Table("spaced.csv", "Q, A, B, C, D, key\n" + ROWS, [0, 3]),
    Table("index.csv", HEADER + "a,w,x,y,z,0\nb,w,x,y,z,3\n", [0, 3], tuple("wxyz")),
    Table("number.csv", HEADER + "a,w,x,y,z,1\nb,w,x,y,z,4\n", [0, 3], tuple("wxyz")),
    Table("said.csv", HEADER + "a,w,x,y,z,1\nb,w,x,y,z,2\n", [0, 1], tuple("wxyz"), {**FLAGS, "answer_as": "number"}),
    Table("text.csv", HEADER + "a,w,x,y,z,z\nb,w,x,y,z,W\n", [3, 0], tuple("wxyz")),
    Table("case_counts.csv", HEADER + "a,us,US,y,z,US\nb,w,x,y,z,w\n", [1, 0], ("us", "US", "y", "z")),
    Table("columns.csv", HEADER + "a,w,x,y,z,A\n", [3], tuple("zyxw"), {**FLAGS, "options": ["D", "C", "B", "A"]}),
    Table(
        "names.csv", "q,one,two,k\na,w,x,two\nb,w,x,One\n", [1, 0], ("w", "x"),
        {"question": "q", "options": ["one", "two"], "answer": "k"},
    ),
    Table("cell_bars.csv", "q,o,k\na,red|green|blue,B\nb,one|two,A\n", [1, 0], ("red", "green", "blue"), ONE_COLUMN),
    Table("cell_commas.csv", 'q,o,k\na,"red, green",green\nb,"1,2,3",3\n', [1, 2], ("red", "green"), ONE_COLUMN),
    Table("cell_lines.csv", 'q,o,k\na,"red\ngreen",B\n', [1], ("red", "green"), ONE_COLUMN),
    Table("cell_letters.csv", "q,o,k\na,A. red B. green,B\nb,(a) x (b) y,a\n", [1, 0], ("red", "green"), ONE_COLUMN),
    Table("cell_json.csv", 'q,o,k\na,"[""red"", ""green""]",B\n', [1], ("red", "green"), ONE_COLUMN),
    Table("cell_python.csv", "q,o,k\na,\"['red', 'green']\",B\n", [1], ("red", "green"), ONE_COLUMN),
    Table("cell_both.csv", "q,o,k\na,\"[\"\"red\"\", \"\"green\"\"]\",B\nb,\"['x', 'y']\",A\n", [1, 0], ("red", "green"), ONE_COLUMN),
    Table("cell_list_or_bars.csv", "q,o,k\na,\"['red', 'green']\",green\nb,x|y|z,x\n", [1, 0], ("red", "green"), ONE_COLUMN),
    Table("cell_labels.jsonl", lines({"q": "a", "o": {"text": ["x", "y"], "label": ["1", "2"]}, "k": "2"}, {"q": "b", "o": {"1": "u", "2": "v"}, "k": "1"}), [1, 0], ("x", "y"), ONE_COLUMN),
    Table("comma_name.csv", 'q,"A,B",k\na,x|y,B\n', [1], ("x", "y"), {**ONE_COLUMN, "options": ["A", "B"]}),
    Table("lists.jsonl", lines({"q": "a", "o": ["x", "y"], "k": 1}, {"q": "b", "o": ["u", "v", "w"], "k": 0}), [1, 0], ("x", "y"), ONE_COLUMN),
    Table("several.jsonl", lines({"q": "a", "o": ["x", "y", "z"], "k": ["A", "C"]}, {"q": "b", "o": ["x", "y"], "k": "B"}), [(0, 2), 1], ("x", "y", "z"), ONE_COLUMN),
    Table("floats.jsonl", lines({"q": "a", "o": ["x", "y"], "k": 1.0}, {"q": "b", "o": ["x", "y"], "k": 0.0}), [1, 0], ("x", "y"), ONE_COLUMN),
    Table("labels.jsonl", lines({"q": "a", "o": {"text": ["x", "y"], "label": ["1", "2"]}, "k": "2"}), [1], ("x", "y"), ONE_COLUMN),
    Table("objects.jsonl", lines({"q": "a", "o": [{"label": "A", "text": "x"}, {"label": "B", "text": "y"}], "k": "B"}), [1], ("x", "y"), ONE_COLUMN),
    Table("keys.jsonl", lines({"q": "a", "o": {"A": "x", "B": "y"}, "k": "B"}), [1], ("x", "y"), ONE_COLUMN),
    Table("keys_text.csv", 'q,o,k\na,"{""A"": ""x"", ""B"": ""y""}",B\n', [1], ("x", "y"), ONE_COLUMN),
    Table("list.json", json.dumps([{"q": "a", "o": ["x", "y"], "k": "y"}], indent=1), [1], ("x", "y"), ONE_COLUMN),
    Table("splits.json", json.dumps({"train": [{"q": "t", "o": ["x", "y"], "k": "x"}], "test": [{"q": "a", "o": ["u", "v"], "k": "v"}]}), [1], ("u", "v"), ONE_COLUMN),
]  # fmt: skip


def written(folder, table):
    """Write a table into a folder, and return its path."""
    path = folder / table.file
    path.write_bytes(table.content if isinstance(table.content, bytes) else table.content.encode())
    return path


def samples(spec, **flags):
    """Return the samples of what a user named."""
    settings = settings_from(flags)
    source = source_of(str(spec), settings)
    source.check(settings)
    return [sample for task in source.tasks(settings) for sample in task.samples]


def right(sample):
    """Return the index of the right option, or those of several."""
    match sample.target:
        case Option(index):
            return index
        case AnyOption(indices):
            return indices
    return None


def asked(spec, **flags):
    """Return every first request."""
    return [shown.requests for shown in kshot.preview(str(spec), **flags)]
