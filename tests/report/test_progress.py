"""How the progress of a run looks: golden screens at 80 and 120 columns, and what must hold for any state."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from kshot.report.progress import progress_line, progress_lines, progress_view
from kshot.report.quantities import abridged, dollars, duration, money, pace, rough_duration
from kshot.runs.progress import ProgressState, StepProgress
from tests.progress_tasks import task_progress
from tests.screens import assert_screen

STARTED = "2026-11-16T09:00:00+00:00"
LLAMA, SERVER = "hf:/data/models/Llama-3-8B-Instruct", "openai:gpt-x@http://127.0.0.1:9100/v1"
SUBJECTS = [f"mmlu:subject_{number:02}" for number in range(57)]


def done(task, model, total=246, **more):
    return task_progress(task, model, total, state="done", done=total, metric="Accuracy", **more)


def mmlu(*, finished=41, models=(LLAMA, SERVER), **running):
    """57 subsets on each model; on the first, so many are done, and the next one runs."""
    tasks = []
    for model in models:
        for number, name in enumerate(SUBJECTS):
            task = task_progress(name, model, 246, "mmlu")
            if model == models[0] and number < finished:
                task = done(name, model, group="mmlu", value=60 + number / 7, failed=number // 20)
            elif model == models[0] and number == finished:
                task = task_progress(
                    name,
                    model,
                    246,
                    "mmlu",
                    "running",
                    84,
                    metric="Accuracy",
                    scored=80,
                    value=63.2,
                    interval=(54.1, 71.3),
                    rate=41.2,
                    **running,
                )
            tasks.append(task)
    return ProgressState(STARTED, 247.3, True, 434.0, tasks)


STATES = {
    "opening": ProgressState(
        STARTED, 2.0, True, None, [task_progress("gsm8k", LLAMA, 1319)], StepProgress(f"opening {LLAMA}", 0, 1)
    ),
    "first_seconds": ProgressState(
        STARTED, 3.4, True, None, [task_progress("gsm8k", LLAMA, 1319, state="running", done=2, rate=None)]
    ),
    "middle": mmlu(),
    "trouble": mmlu(
        models=(SERVER, LLAMA), failed=3, retried=12, prompt_tokens=1_234_567, completion_tokens=34_567, cost_usd=0.0132
    ),
    "unknown_total": ProgressState(
        STARTED,
        95.0,
        False,
        None,
        [
            done("arc", LLAMA, 1172, value=71.4, interval=(68.7, 73.9)),
            task_progress("my_rows", LLAMA, None, state="running", done=311, metric="Accuracy", value=48.2, rate=0.31),
        ],
    ),
    "unknown_sizes": ProgressState(
        STARTED,
        95.0,
        True,
        None,
        [
            done(SUBJECTS[0], LLAMA, 100, group="mmlu", value=71.4),
            task_progress(SUBJECTS[1], LLAMA, 99, "mmlu", "running", 20, rate=2.5),
            *(task_progress(name, LLAMA, None, "mmlu") for name in SUBJECTS[2:]),
        ],
    ),
    "resumed": ProgressState(
        STARTED,
        7.0,
        True,
        610.0,
        [
            done("arc", LLAMA, 1172, value=71.4, interval=(68.7, 73.9), recalled=1172),
            task_progress(
                "gsm8k",
                LLAMA,
                1319,
                state="running",
                done=902,
                recalled=860,
                failed=1,
                metric="Accuracy",
                scored=900,
                value=41.2,
                interval=(38.0, 44.5),
                rate=0.68,
            ),
            task_progress("hellaswag", LLAMA, 10_042),
        ],
    ),
    "index": ProgressState(
        STARTED, 66.0, True, None, [task_progress("fastbook", "bm25", 191)], StepProgress("bm25 index", 12_000, 100_000)
    ),
    "many_tasks": ProgressState(
        STARTED,
        80.0,
        True,
        42.0,
        [
            *(
                done(f"lookup:UL:{length}", "embedded", 50, value=100.0, interval=(92.9, 100.0))
                for length in range(10, 50)
            ),
            task_progress("lookup:UL:50", "embedded", 50, state="running", done=25, rate=9.9),
            *(task_progress(f"lookup:UL:{length}", "embedded", 50) for length in range(51, 71)),
        ],
    ),
    "long_and_wide_names": ProgressState(
        STARTED,
        80.0,
        True,
        3_723.0,
        [
            task_progress(
                "一二三四五六七八九十" * 6,
                f"hf:{'/a/rather/deep/folder' * 6}/checkpoint-1000",
                5_000_000,
                state="running",
                done=1_234_567,
                metric="Exact match of a long name",
                value=12.3,
                interval=(12.2, 12.4),
                rate=1_234.5,
                failed=1_000_000,
            ),
        ],
    ),
    "all_failed": ProgressState(
        STARTED, 9.0, True, 0.0, [task_progress("quiz", SERVER, 10, state="running", done=10, failed=10, retried=70)]
    ),
    "end": ProgressState(STARTED, 81.0, True, 0.0, [done(name, LLAMA, group="mmlu", value=61.0) for name in SUBJECTS]),
    "nothing": ProgressState(STARTED, 0.2),
}


def drawn(state, width, height=24):
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None, legacy_windows=False)
    console.print(progress_view(state, width, height))
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", STATES)
def test_the_screens_are_as_they_were_looked_at(name, width):
    assert_screen(f"progress_{name}_{width}", drawn(STATES[name], width))


@pytest.mark.parametrize("height", [1, 2, 3, 5, 24])
@pytest.mark.parametrize("width", [20, 40, 79, 80, 120, 200])
@pytest.mark.parametrize("name", STATES)
def test_no_screen_is_wider_or_higher_than_the_terminal(name, width, height):
    lines = progress_lines(STATES[name], width, height)
    assert 1 <= len(lines) <= height
    assert max(cell_len(line.plain) for line in lines) <= width
    assert len(drawn(STATES[name], width, height).splitlines()) <= height


def test_a_low_terminal_shows_what_runs_before_what_is_done():
    models = [f"hf:model-{number}" for number in range(30)]
    state = ProgressState(STARTED, 1.0, True, None, [done("quiz", model, 10, value=50.0) for model in models[:20]])
    state.tasks += [task_progress("quiz", models[20], 10, state="running", done=3, rate=2.0)]
    state.tasks += [task_progress("quiz", model, 10) for model in models[21:]]
    text = drawn(state, 80, 10)
    assert "model-20" in text
    assert "3 of 10" in text
    assert "20 of 30 models done" in text


def test_texts_from_strangers_neither_steer_the_terminal_nor_break_a_line():
    evil = "evil\x1b[31m\nline\u202e"
    task = task_progress(evil, evil, 3, evil, "running", 1, metric=evil, value=1.0)
    state = ProgressState(STARTED, 1.0, True, None, [task], StepProgress(evil, 1, 3))
    for text in (drawn(state, 120), progress_line(state)):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "\\x1b" in text
    assert "\n" not in progress_line(state)
    other = task_progress(evil, evil, 3, evil, "done", 3, metric=evil, value=1.0)
    assert "\x1b" not in drawn(ProgressState(STARTED, 1.0, True, None, [other, other]), 120)


def test_a_line_of_a_log_tells_the_same():
    assert progress_line(mmlu(models=(LLAMA,), finished=5, failed=3)) == (
        "1,314 of 14,022 (9.4 %) · 41.2/s · 7 min 14 s left · mmlu:subject_05 Accuracy 63.2 · 3 failed"
    )
    assert progress_line(mmlu()).endswith(f"· mmlu:subject_41 on {LLAMA} Accuracy 63.2 · 22 failed")
    assert progress_line(STATES["unknown_total"]) == (
        "1,483 samples · the total is not known · 18.6/min · 1 min 35 s so far · my_rows Accuracy 48.2"
    )
    assert progress_line(STATES["index"]) == "0 of 191 (0.0 %) · 1 min 6 s so far · bm25 index: 12,000 of 100,000"
    assert progress_line(STATES["nothing"]) == "preparing · 0 s so far"


def test_a_terminal_without_unicode_gets_ascii():
    console = Console(file=io.StringIO(), width=80, color_system=None)
    console.print(progress_view(STATES["trouble"], 80, ascii_only=True))
    text = console.file.getvalue()
    assert text.isascii()
    assert text.startswith("#########-----------------   36.3 %  10,170 of 28,044 | 41.2/s | 7 min 14 s left\n")


def test_colour_is_never_the_only_carrier():
    console = Console(file=io.StringIO(), width=120, color_system="truecolor", force_terminal=True)
    console.print(progress_view(STATES["trouble"], 120))
    assert "\x1b[31m3 failed" in console.file.getvalue()
    assert not any(code in console.file.getvalue() for code in ("\x1b[33m", "\x1b[93m", "\x1b[37m", "\x1b[97m"))


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (duration(0), "0 s"),
        (duration(59.6), "1 min"),
        (duration(312), "5 min 12 s"),
        (duration(3600), "1 h"),
        (duration(3725), "1 h 2 min"),
        (duration(90_000), "1 d 1 h"),
        (duration(-1), "0 s"),
        (pace(41.23), "41.2/s"),
        (pace(1234.4), "1,234/s"),
        (pace(0.31), "18.6/min"),
        (pace(0.001), "3.6/h"),
        (pace(0), "0.0/h"),
        (abridged(9_999), "9,999"),
        (abridged(34_567), "34.6k"),
        (abridged(999_999), "1.00M"),
        (abridged(1_234_567), "1.23M"),
        (abridged(10**16), "10,000T"),
        (money(0), "0.00 USD"),
        (money(0.0132), "0.013 USD"),
        (money(1234.5), "1,234.50 USD"),
        (money(1e-6), "<0.0001 USD"),
        (money(0.5), "0.50 USD"),
        (dollars(0.999), "1.00"),
        (dollars(0.004), "0.004"),
        (rough_duration(0), "0 s"),
        (rough_duration(119), "119 s"),
        (rough_duration(5400), "90 min"),
        (rough_duration(200_000), "2 d"),
    ],
)
def test_quantities(shown, expected):
    assert shown == expected
