"""Real runs for the tests of pages: options, texts, lookup, search, hostile output, and two of 5,000 samples."""

from pathlib import Path

from kshot import evaluate
from tests.compared_runs import SHOP, chdir

PLANETS = Path(__file__).parents[2] / "examples" / "planets.py"
MANY = 5_000

HOSTILE = r'''
from kshot import Em, GenerationDataset

TEXTS = {
    "script": "<script>document.title = 'owned'; window.owned = 1</script>",
    "image": "<img src=x onerror=\"window.owned = 1\"><svg onload='window.owned = 1'>",
    "closing": "</script></pre></td></table></template><script>window.owned = 1</script><!-- ]]>",
    "link": "[x](javascript:window.owned=1) <a href=\"javascript:window.owned=1\">x</a> {{constructor}} ${1}",
    "word": "W" * 1_000_000,
    "right-to-left": "\u202edesrever\u202c \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u2066isolate\u2069 \u200fmark",
    "ansi": "\x1b[31mred\x1b[0m \x1b]8;;http://example.com\x07link\x1b]8;;\x07 \x07 \x00 \x9b31m",
    "surrogate": "half of a pair: \ud800, and the other: \udc00",
    "combining": "Z" + "\u0300" * 500,
    "lines": "one line\n" * 2_000,
    "__proto__": "__proto__ constructor toString",
    "": "   ",
}


class Hostile(GenerationDataset):
    """Texts that would break a page."""

    instruction = "Say {name}: {text}\nAnswer:"
    category_column = "name"
    metrics = [Em()]

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        self.evaluation_data = [{"name": name, "text": text[:9_000]} for name, text in TEXTS.items()]
        self.example_data = []

    def format_instance(self, row):
        return {**row, "target": TEXTS[row["name"]] if row["name"] == "image" else row["text"][:2_000]}


def hostile(prompt):
    """Answers what was asked for, in full."""
    name = str(prompt).partition("Say ")[2].partition(":")[0]
    return TEXTS[name]
'''


def make_runs(folder):
    """Make all runs below a folder: ``zero`` and ``two`` have the same questions, and so have ``before`` and ``after``."""
    (folder / "shop.py").write_text(SHOP, encoding="utf-8")
    (folder / "hostile.py").write_text(HOSTILE, encoding="utf-8")
    quick = {"fsync": "never"}
    with chdir(folder):
        planets = [f"{PLANETS}:Planets", f"{PLANETS}:PlanetNames"]
        for name, shots in (("zero", 0), ("two", 2)):
            evaluate("embedded", planets, out=name, num_shots=shots, **quick)
        evaluate(["fts5", "bm25"], "handbook", out="search", limit=40, **quick)
        lookup = {"variant": ["sep|small|bare", "nosep|same|bare"], "length": [10, 40], "samples": 6}
        evaluate("embedded", ["lookup:UR", "lookup:UL"], out="lookup", **lookup, **quick)
        evaluate("hostile.py:hostile", "hostile.py:Hostile", out="hostile", **quick)
        for name, right in (("before", 60), ("after", 64)):
            clerk = f"shop.py:Clerk,right={right},fails=1"
            evaluate(clerk, "shop.py:Prices", out=name, dataset_path=str(MANY), **quick)
    return folder
