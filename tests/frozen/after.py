"""What comes after a run, and before it: screens at two widths, exports, pages, comparisons, lists, checks, previews."""

import os
import shutil
from pathlib import Path

from tests.frozen.cases import Cases
from tests.frozen.commands import Caller, lines, streams
from tests.frozen.materials import write_materials
from tests.frozen.ways import BOOK, BOTH, CHOICE, LMEVAL, MODEL, PLANETS
from tests.frozen.world import ROOT
from tests.terminal import on_terminal

SOURCES = f"""
zero     | run {MODEL} {BOTH} --out runs/zero
two      | run {MODEL} {BOTH} -k 2 --out runs/two
models   | run {MODEL} {MODEL},seed=7 {PLANETS} -k 1 --out runs/models
clerk    | run -m shop.py:Clerk,fails=3 -d shop.py:Prices --dataset-path 120 --out runs/clerk
taught   | run -m shop.py:Clerk,fails=3 -d shop.py:Prices --dataset-path 120 -k 3 --out runs/taught
graded   | run -m shop.py:Clerk -m shop.py:Clerk,right=90 -d shop.py:Graded --dataset-path 60 --out runs/graded
exams    | run -m shop.py:Clerk -d shop.py:Exams -k 1 --out runs/exams
curve    | run -m shop.py:Clerk,right=40 -d shop.py:Prices --dataset-path 60 -k 0,1,3 --retriever random,bm25 --out runs/curve
lookup   | run -m embedded -d lookup:UR,UL --length 10,40 --variant 'sep|small|bare' --variant 'nosep|same|bare' --samples 4 --out runs/lookup
search   | run -m fts5 -m bm25 -d handbook --limit 20 --out runs/search
rag      | run {MODEL} {BOOK} --method rag --search bm25 --judge made_up.py:Judge --out runs/rag
judged   | run {MODEL} -d classes.py:Judged --judge made_up.py:Judge --out runs/judged
config   | run arc.py {MODEL} --data ARC-c=arc.jsonl --out runs/config
group    | run {MODEL} -d lmeval:planets {LMEVAL} --out runs/group
tokens   | run -m embedded {PLANETS} --token-logprobs --limit 3 --out runs/tokens
shard1   | run {MODEL} {BOTH} -k 1 --shard 1/2 --out runs/shard1
shard2   | run {MODEL} {BOTH} -k 1 --shard 2/2 --out runs/shard2
refused  | run -m shop.py:Clerk -d shop.py:Prices --dataset-path 9 --max-requests 4 --out runs/refused
"""
NAMES = [line.partition(" ")[0] for line in SOURCES.strip().splitlines()]

READ_BACK = """
runs runs
runs runs --sort headline --limit 3
runs runs --model clerk --json
runs runs --state stopped
show runs/exams --by subset
show runs/exams --worst 3
show runs/clerk --by category --best 2 --metric EM
show runs/lookup --by task
show runs/graded --metric F1 --json
samples runs/zero --wrong --limit 2
samples runs/zero --wrong --json
samples runs/two --flipped runs/zero
samples runs/two --flipped runs/zero --wrong --full --limit 1
samples runs/clerk --failed
samples runs/clerk --category bread --sort prompt --reverse --limit 3
samples runs/graded --metric Distance --above 2 --limit 3
samples runs/zero --contains mars --id 2 --full
samples runs/lookup --sort score --limit 2 --full
samples runs/search --wrong --limit 2 --full
samples runs/rag --limit 2 --full
samples runs/judged --limit 2 --full
samples runs/config --limit 1 --full
samples runs/group --task planets_write --full --limit 2
samples runs/tokens --full --limit 1
samples runs/curve --task prices,num_shots=3 --right --limit 2
compare runs/zero runs/two
compare runs/zero runs/two --flips 3 --all
compare runs/clerk runs/taught
compare runs/clerk runs/taught --category bread --flips
compare runs/clerk runs/taught --json
compare runs/taught runs/clerk runs/taught --all-pairs
compare runs/zero runs/two runs/models
compare runs/models
compare runs/graded
compare runs/search
compare runs/search --json
compare runs/lookup runs/lookup
compare runs/exams runs/exams --all
compare runs/rag runs/rag --all
compare runs/clerk runs/search
gate runs/two --fail-under Accuracy=90 --fail-if-worse runs/zero --fail-on-failed
gate runs/taught --fail-if-worse runs/clerk --fail-under EM=10
gate runs/clerk --fail-if-worse runs/taught --json --junit gates.xml --step-summary gates.md
score runs/zero
score runs/clerk --json
score runs/judged
score runs/search
passages export runs/search exported
"""

EXPORTS = """
export runs/zero runs/two --to csv
export runs/clerk --to csv --what samples
export runs/clerk runs/taught --to csv --what comparisons
export runs/zero runs/two --to markdown
export runs/curve --to markdown --no-intervals
export runs/search --to markdown --what comparisons
export runs/lookup --to markdown
export runs/zero runs/two --to latex
export runs/exams --to latex --caption 'Exams & more' --label tab:exams
export runs/clerk runs/taught --to latex --what comparisons --no-intervals
export runs/graded runs/clerk --to latex
"""
FILES = """
new dataset | new dataset examples/planets.csv Trivia --question question --options A,B,C,D --answer key
new metric | new metric word_overlap
inspect | export runs/zero --to inspect --out files/inspect
inspect rag | export runs/rag --to inspect --out files/inspect-rag
lmeval | export runs/zero --to lmeval --out files/lmeval
lmeval group | export runs/group --to lmeval --out files/lmeval-group
hf | export runs/models --to hf --dataset-id my-org/planets:default --out files/hf
trec | export runs/search --to trec --out files/trec
parquet | export runs/clerk --to parquet --what samples --out files/parquet/samples.parquet
raw | export runs/zero runs/clerk --to csv --what samples --raw --out files/raw/samples.csv
csv | export runs/zero --to csv --out files/csv/results.csv
"""

PREVIEWS = f"""
preview {BOTH} -k 2 --limit 1
preview {BOTH} -k 1 --limit 2 --model-type chat --json
preview {PLANETS} --ranking-type prob --limit 1
preview {PLANETS} --ranking-type generation -k 0,2 --limit 1
preview -d classes.py:Subsets:plus -k 1 --limit 1
preview -d classes.py:Judged --judge made_up.py:Judge --judge-scale 1-5 --judge-rubric 'Is it kind?' --limit 1
preview -d classes.py:Talks --judge made_up.py:Judge --limit 1 --json
preview {CHOICE} --limit 2
preview {CHOICE} -k 2 --limit 1 --json
preview arc.py --data ARC-c=arc.jsonl --limit 1
preview race.py --data race-middle=race.jsonl --data race-high=race.jsonl --limit 1
preview race.py --data race-middle=race.jsonl --data race-high=race.jsonl --limit 1 --model-type chat --json
preview raw.py --data raw=raw.jsonl --judge made_up.py:Grader --limit 1 --model-type chat
preview arc.py --data ARC-c=arc.jsonl --diff arc.py
preview opencompass/configs/datasets/mmlu/mmlu_gen.py --limit 1 --json
preview -d lmeval:planets {LMEVAL} --limit 1
preview -d lmeval:planets_rolling {LMEVAL} --limit 2 --json
preview -d handbook --limit 2
preview {BOOK} --method rag --search bm25 --read 2 --limit 1
preview -d lookup:NLFirst --length 20 --limit 1
preview -d lookup:UR,UL --length 10 --variant 'nosep|same|math_rule_explained' --limit 1 --model-type chat --json
preview -d llmbox/utilization/dataset/colours.py:Colours --dataset-path llmbox/rows -k 1 --limit 1
preview -d boolq --dataset-path nowhere.jsonl
check arc.py race.py raw.py own.py
check arc.py --data ARC-c=arc.jsonl --json
check opencompass/configs/datasets/gsm8k/gsm8k_gen.py opencompass/configs/eval_all.py
check lmeval:planets {LMEVAL}
check lmeval:planets_write {LMEVAL} --json
check examples/planets.csv --question question --options A,B,C,D --answer key
check examples/planets.csv --question question --options A,B --answer key
list datasets
list retrievers
list models
list search-engines
list metrics
list chunkers
list cleanups
list loggers
list lmeval {LMEVAL}
list datasets --json
list metrics --json
passages check book
passages check handbook --json
passages ceiling -d handbook
passages ceiling {BOOK} --chunker windows:1 --json
passages question -d handbook configs.3
passages chunks {BOOK} --chunker windows:5/2
lookup generate --group unique --length 10 20 --samples 3 --seed 2025 --out looked-up
run --help
preview --help
compare --help
samples --help
--help
"""
COLOURED = (
    "runs runs",
    "show runs/exams",
    "samples runs/zero --wrong --limit 2",
    "compare runs/clerk runs/taught",
    "show runs/curve",
)

EARLY = 1_700_000_000
"""When the folders of earlier versions were written: they do not say it themselves."""


def make(cases: Cases) -> None:
    """Add the cases."""
    write_materials()
    with streams() as printed:
        caller = Caller(cases, printed)
        for name, words in lines(SOURCES):
            cases.add(f"made/{name}", f"exit code {caller.call(*words).code}")
        for name in NAMES:
            for command in (f"show runs/{name}", f"runs runs/{name}"):
                caller.at_both_widths(command.split())
        for table in (PREVIEWS, READ_BACK, EXPORTS):
            for _, words in lines(table):
                caller.at_both_widths(words)
        for name, words in lines(FILES):
            caller.screen(f"{name}/screen", *words)
        written = ("files", "gates.xml", "gates.md", "exported", "looked-up", "trivia.py", "word_overlap.py")
        caller.files("written", [*map(Path, written), *Path().glob("test_*.py")])
        caller.screen("merge/screen", "merge", "runs/shard1", "runs/shard2", "--out", "runs/merged")
        caller.run_files("merge", Path("runs/merged"))
        early_folders(caller)
        pages(caller)
    for command in COLOURED:
        code, text = on_terminal(*command.split(), columns=100)
        cases.add(f"coloured/{command}", f"exit code {code}\n{text}")


def early_folders(caller: Caller) -> None:
    """Read the folders of earlier versions."""
    for family in ("runs_0_1", "runs_every_option"):
        shutil.copytree(ROOT / "tests" / "data" / family, family)
        for file in Path(family).rglob("*"):
            os.utime(file, (EARLY, EARLY))
        for folder in sorted(Path(family).iterdir()):
            for words in (["show"], ["runs"], ["samples", "--limit", "1", "--full"], ["compare"], ["score"]):
                caller.screen(f"early/{folder}/{words[0]}", *words, str(folder))
        caller.screen(f"early/{family}/list", "runs", family)


def pages(caller: Caller) -> None:
    """Write reports, and the site of all runs; ask the viewer."""
    for name, runs in {"both": ("zero", "two"), "clerks": ("clerk", "taught", "curve"), "all": NAMES[:14]}.items():
        caller.screen(f"report {name}/screen", "report", *(f"runs/{run}" for run in runs), "--out", f"{name}.html")
        caller.files(f"report {name}", [Path(f"{name}.html")])
    caller.files("report of a run", [Path(f"runs/{name}/report.html") for name in NAMES if name != "refused"])
    caller.screen("site/screen", "view", "runs", "--static", "site")
    caller.files("site", [Path("site")])
    viewer(caller)


def viewer(caller: Caller) -> None:
    """Ask the viewer's server for what its pages ask for."""
    from tests.viewer.conftest import app_over

    ask, routes = app_over(Path("runs"))
    pair = "/api/compare?a=clerk&b=taught"
    paths = ["/", "/api/runs/clerk/samples/3", "/api/runs/taught/samples/3?other=clerk", "/api/runs/nowhere"]
    waiting = [
        f"/api/runs/{name}/{what}" for name in ("clerk", "zero", "search") for what in ("facets", "samples?limit=5")
    ]
    waiting += [
        "/api/runs/clerk/samples?state=wrong&sort=score&limit=3",
        "/api/runs/taught/samples?other=clerk&limit=3",
        pair,
    ]
    for path in waiting:
        ask.ready(path)
    for path in (*waiting, "/api/runs", *paths):
        answer = ask(path)
        caller.cases.add(f"viewer{path}", f"{answer.status}\n".encode() + answer.body)
    routes.close()
