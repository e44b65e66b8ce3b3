"""Runs as .eval logs of Inspect: one file for each task of each model, which its viewer opens."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from kshot import __version__
from kshot.core.budget import PROBE, UNUSED
from kshot.core.durable import new_binary_version
from kshot.core.errors import RunError
from kshot.core.extras import importing
from kshot.core.failed_parts import all_parts
from kshot.core.records import UNANSWERED, ResultRow
from kshot.core.shareable import shareable, well_formed_value
from kshot.core.text_files import FileNames, path_inside
from kshot.core.visible import metric_label, one_line
from kshot.report.sample_look import (
    ReadResponse,
    listed_options,
    option_letter,
    read_response,
    shots_in_prompts,
    shown_content,
    written,
)
from kshot.runs.compared_run import by_task, checked_by_task
from kshot.runs.folder import SUMMARY
from kshot.runs.headline import finite, task_rows
from kshot.runs.record import RunRecord
from kshot.runs.run_state import moment

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalMetric, EvalResults, EvalSample, EvalScore
    from inspect_ai.model import ChatMessage, ModelOutput, ModelUsage, StopReason
    from inspect_ai.scorer import Score


_STOP_REASONS: Mapping[str, StopReason] = {"stop": "stop", "length": "max_tokens", "window": "model_length"}
_SHOWN = {
    "task",
    "model",
    "id",
    "prompt",
    "reasoning",
    "answer",
    "target",
    "scores",
    "failed",
    "stop_reason",
    "options",
    "token_logprobs",
}
"""What has a place of its own in Inspect's sample; the rest of a row goes to its metadata."""

_MAX_ID = 200
"""Characters of an id that is the name of a file in the log."""

_KEY = ("task", "model", "id")
"""What no two samples of a run share."""

_MAX_OPTIONS = 10_000
"""A larger number is no option: its letters would be a text of their own."""

_PERCENT = (0.0, 100.0)


class ScoreForm(NamedTuple):
    """How a metric is written: right and wrong as ``C`` and ``I``, percents as shares of 1.

    ``label`` is its name with its ``rule``; both are "" where the name alone says it.
    """

    divisor: float = 1.0
    right: float | None = None
    rule: str = ""
    label: str = ""

    def value(self, score: float) -> str | float:
        """Return a score of a sample."""
        return self.share(score) if self.right is None else "C" if score == self.right else "I"

    def number(self, score: float) -> float:
        """Return a score of a sample as the number that Inspect takes it for."""
        return self.share(score) if self.right is None else float(score == self.right)

    def share(self, figure: float) -> float:
        """Return a figure, or an end of its interval."""
        return figure / self.divisor


def forms_of(figures: Sequence[ResultRow]) -> dict[str, ScoreForm]:
    """Return the form of each metric of a task. One whose scale is unknown stays as it is in ``summary.json``.

    A detail has the scale of what it breaks down.
    """
    headlines = {row["metric"]: _form(row) for row in figures if not row.get("detail")}
    divisors = {form.divisor for form in headlines.values()}
    shared = ScoreForm(divisors.pop() if len(divisors) == 1 else 1.0)
    return headlines | {row["metric"]: shared for row in figures if row.get("detail")}


def _form(row: ResultRow) -> ScoreForm:
    bounds = tuple(row.get("bounds") or ())
    is_right_or_wrong = row.get("binary") and row.get("higher_is_better") and bounds and None not in bounds
    right = bounds[1] if is_right_or_wrong else None
    return ScoreForm(100.0 if bounds == _PERCENT else 1.0, right, row.get("rule", ""), metric_label(row))


def inspect_sample(row: ResultRow, forms: Mapping[str, ScoreForm], ranking_type: str, when: datetime) -> EvalSample:
    """Return a sample; one that failed has an error and no scores. ``when`` the run began is the time of its events."""
    from inspect_ai.log import EvalError, EvalSample

    row = well_formed_value(row)
    found = read_response(row, ranking_type)
    mark = hashlib.blake2b(json.dumps([row.get(name) for name in _KEY]).encode(), digest_size=8).hexdigest()
    failed, choices = row.get("failed"), listed_options(row) or list(found.options.texts)
    asked, output = _messages(row.get("prompt"), mark), _output(row, found, choices, mark)
    chooses = found.chooses or bool(choices) or type(row.get("answer")) is int  # a reply would be a text
    shown = None if row.get("answer") is None or found.passages else _named(row["answer"], chooses=chooses)
    targets = row.get("target")
    rights = targets if isinstance(targets, list) else [] if targets is None else [targets]
    named = [_named(each, chooses=chooses) for each in rights]
    told = _SHOWN | ({"response"} if isinstance(row.get("response"), str) else set())  # a reply is the output
    sample = EvalSample(
        id=sample_id(row.get("id")),
        epoch=1,
        input=row["prompt"] if isinstance(row.get("prompt"), str) else asked,
        choices=choices or None,
        target=named if isinstance(targets, list) else "".join(named),
        messages=[*asked, *([output.choices[0].message] if output.choices else [])],
        output=output,
        scores={} if failed else _scores(row, forms, shown or None),
        metadata={name: value for name, value in row.items() if name not in told},
        error=None if not failed else EvalError(message=str(failed), traceback="", traceback_ansi=""),
        uuid=mark,
    )
    sample.events = _events(sample, asked, when)
    return sample


def sample_id(found: Any) -> str:
    """Return an id that can name a file of the log; one that is not the sample's own text ends with its digest."""
    text = written(found)
    shown = one_line(text)[:_MAX_ID]
    raw = text.encode("utf-8", "surrogatepass")
    return shown if shown == text else f"{shown}~{hashlib.blake2b(raw, digest_size=8).hexdigest()}"


# ---- messages ----


def _messages(prompt: Any, mark: str) -> list[ChatMessage]:
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser

    classes = {"system": ChatMessageSystem, "assistant": ChatMessageAssistant}
    if prompt is None:
        return []
    messages: list[ChatMessage] = []
    for at, each in enumerate(prompt if isinstance(prompt, list) else [prompt]):
        turn = each if isinstance(each, dict) else {"content": each}
        kind = classes.get(written(turn.get("role")), ChatMessageUser)
        messages.append(kind(id=f"{mark}-{at}", content=written(shown_content(turn.get("content")))))
    return messages


def _output(row: ResultRow, found: ReadResponse, options: Sequence[str], mark: str) -> ModelOutput:
    """Return the replies; for measured options the one that was chosen, for a search the passages that were found."""
    from inspect_ai.model import ChatCompletionChoice, ChatMessageAssistant, Logprob, Logprobs, ModelOutput

    answer, texts = row.get("answer"), list(found.replies)
    if not texts and type(answer) is int and 0 <= answer < len(options):
        texts = [options[answer]]
    if not texts and found.passages:
        texts = ["\n".join(f"{hit.get('id')}\t{hit.get('score')}" for hit in found.passages)]
    reasons = row.get("stop_reason", "stop")
    choices = []
    for at, text in enumerate(texts):
        reason = reasons[at] if isinstance(reasons, list) and len(reasons) == len(texts) else reasons
        message = ChatMessageAssistant(id=f"{mark}-reply-{at}", content=_content(text, found.reasoning, at, len(texts)))
        tokens = found.reply_tokens[at] if found.replies else None
        content = [Logprob(token=text, logprob=value) for text, value in tokens or ()]
        logprobs = None if tokens is None else Logprobs(content=content)
        ended = _STOP_REASONS.get(str(reason), "unknown")
        choices.append(ChatCompletionChoice(message=message, stop_reason=ended, logprobs=logprobs))
    return ModelOutput(model=written(row.get("model")), choices=choices, completion=texts[0] if texts else "")


def _events(sample: EvalSample, asked: list[ChatMessage], when: datetime) -> list[Any]:
    """Return what the viewer shows as the transcript: the question with its reply, and the first score or the error."""
    from inspect_ai.event import ErrorEvent, ModelEvent, ScoreEvent
    from inspect_ai.model import GenerateConfig

    model = ModelEvent(
        uuid=f"{sample.uuid}-model",
        timestamp=when,
        working_start=0,
        model=sample.output.model,
        input=asked,
        tools=[],
        tool_choice="none",
        config=GenerateConfig(),
        output=sample.output,
    )
    if sample.error is not None:
        return [model, ErrorEvent(uuid=f"{sample.uuid}-error", timestamp=when, working_start=0, error=sample.error)]
    first = next(iter((sample.scores or {}).items()), None)
    if first is None:
        return [model]
    scored = {"score": first[1], "scorer": first[0], "target": sample.target}
    return [model, ScoreEvent(uuid=f"{sample.uuid}-score", timestamp=when, working_start=0, **scored)]


def _content(text: str, reasoning: Sequence[str], at: int, count: int) -> Any:
    """Return a reply with the thoughts before it, if there are some for each reply."""
    from inspect_ai.model import ContentReasoning, ContentText

    if len(reasoning) != count or not reasoning[at]:
        return text
    return [ContentReasoning(reasoning=reasoning[at]), ContentText(text=text)]


# ---- scores ----


def _named(value: Any, *, chooses: bool) -> str:
    """Return an answer or a target; the number of an option as the letter that Inspect shows beside it.

    An answer in which no option was found is no text.
    """
    if not chooses or type(value) is not int:
        return written(value)
    return "" if value == UNANSWERED else option_letter(value) if 0 <= value < _MAX_OPTIONS else str(value)


def _scores(row: ResultRow, forms: Mapping[str, ScoreForm], answer: str | None) -> dict[str, Score]:
    from inspect_ai.scorer import Score

    found = row.get("scores")
    scores = {}
    for name, score in found.items() if isinstance(found, dict) else ():
        if (known := finite(score)) is not None:
            form = forms.get(name, ScoreForm())
            scores[form.label or name] = Score(
                value=form.value(known), answer=answer, explanation=_explanation(row, form.rule)
            )
    return scores


def _explanation(row: ResultRow, ranked_by: str) -> str | None:
    """Say by which rule the answer was read or chosen, and what a judge said."""
    rule, judge = row.get("rule"), row.get("judge")
    parts = [f"The answer was read by the rule {written(rule)}."] if rule else []
    parts += [f"The option was chosen by {ranked_by}."] if ranked_by else []
    if isinstance(judge, list):
        parts += [f"The judge: {written(each.get('response'))}" for each in judge if isinstance(each, dict)]
    return "\n\n".join(parts) or None


# ---- the header ----


_ROUNDING = 1e-9
"""What two ways to compute a mean may differ by."""


def figures_of(record: RunRecord, task: str, model: str) -> list[ResultRow]:
    """Return the figures of a whole task."""
    return [row for row in task_rows(record.results) if (row["task"], row["model"]) == (task, model)]


def log_header(record: RunRecord, spec: Mapping[str, Any], task: str, model: str) -> EvalLog:
    """Return a log without its samples."""
    from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSpec, EvalStats

    figures = figures_of(record, task, model)
    created, ended = (each.isoformat(timespec="seconds") for each in run_times(record, spec))
    limit, identity = record.settings.get("limit"), spec["identity"]
    shots = shots_in_prompts(record, spec, task, model)
    total = max((row["n"] + row["failed"] for row in figures), default=0)
    return EvalLog(
        status="success",
        eval=EvalSpec(
            created=created,
            task=one_line(task),
            task_id=_digest("task", identity, task, model),
            eval_id=_digest("eval", identity, task, model),
            run_id=_digest("run", identity),
            task_args={} if shots is None else {"num_shots": shots},
            dataset=EvalDataset(name=one_line(task), samples=total),
            model=one_line(model),
            config=EvalConfig(limit=limit if type(limit) is int else None),
            packages={"kshot": _version(spec.get("sessions", ()))},
            metadata=well_formed_value(
                {"settings": shareable(record.settings), "totals": _totals(record, task, model)}
            ),
        ),
        results=_results(figures, total, _categories(record, task, model)),
        stats=EvalStats(started_at=created, completed_at=ended, model_usage=_usage(record, model)),
    )


def _results(figures: Sequence[ResultRow], total: int, categories: Sequence[ResultRow]) -> EvalResults:
    from inspect_ai.log import EvalResults

    done, forms = max((row["n"] for row in figures), default=0), forms_of(figures)
    return EvalResults(
        total_samples=total,
        completed_samples=done,
        scores=[_score(row, forms[row["metric"]]) for row in figures],
        metadata=well_formed_value({"categories": list(categories)}) if categories else None,
    )


def _score(row: ResultRow, form: ScoreForm) -> EvalScore:
    """Return a figure with the ends of its interval; ``metadata`` has the row of ``summary.json`` as it is."""
    from inspect_ai.log import EvalMetric, EvalScore

    name = one_line(metric_label(row))
    low, high = row["ci95"] or (None, None)
    found = {"accuracy" if form.right is not None else "value": row["value"], "ci95_low": low, "ci95_high": high}
    metrics: dict[str, EvalMetric] = {
        metric: EvalMetric(name=metric, value=form.share(known))
        for metric, value in found.items()
        if (known := finite(value)) is not None
    }
    return EvalScore(
        name=name,
        scorer=name,
        scored_samples=row["n"],
        unscored_samples=row["failed"],
        metrics=metrics,
        metadata=well_formed_value(row),
    )


class StandardErrors:
    """The standard error of the mean of the scores of each metric, as Inspect defines it, from one sample at a time."""

    def __init__(self, figures: Sequence[ResultRow], forms: Mapping[str, ScoreForm] | None = None) -> None:
        """Take the figures of a task; ``forms`` say their scales, where they are not those of Inspect."""
        means = {row["metric"]: finite(row["value"]) for row in figures if row.get("aggregate") is None}
        self._forms = forms_of(figures) if forms is None else forms
        self._means = {name: self._forms[name].share(mean) for name, mean in means.items() if mean is not None}
        self._sums = dict.fromkeys(self._means, (0, 0.0, 0.0))

    def add(self, scores: Mapping[str, Any]) -> None:
        """Add the scores of a sample, as ``samples.jsonl`` has them."""
        for name in self._sums.keys() & scores.keys():
            if (known := finite(scores[name])) is not None:
                count, mean, squares = self._sums[name]
                value = self._forms[name].number(known)
                off = value - mean
                mean += off / (count + 1)
                self._sums[name] = count + 1, mean, squares + off * (value - mean)

    def errors(self) -> dict[str, float]:
        """Return the standard errors, by metric; that of a single score is 0.

        A figure that is not the mean of the scores, such as BLEU, has none.
        """
        return {
            name: math.sqrt(squares / (count - 1) / count) if count > 1 else 0.0
            for name, (count, mean, squares) in self._sums.items()
            if count and math.isclose(mean, self._means[name], rel_tol=_ROUNDING, abs_tol=_ROUNDING)
        }

    def write_to(self, header: EvalLog) -> None:
        """Put the standard errors beside the figures of a log."""
        from inspect_ai.log import EvalMetric

        known = {name: error for name, error in self.errors().items() if math.isfinite(error)}
        found = {one_line(self._forms[name].label or name): error for name, error in known.items()}
        for score in header.results.scores if header.results else ():
            if score.name in found:
                score.metrics["stderr"] = EvalMetric(name="stderr", value=found[score.name])


def _categories(record: RunRecord, task: str, model: str) -> list[ResultRow]:
    rows = [row for row in record.results if row["model"] == model and "category" in row]
    return [row for row in rows if row["task"] == f"{task}[{row['category']}]"]


def _totals(record: RunRecord, task: str, model: str) -> list[ResultRow]:
    """Return the figures over several tasks, this one among them or left out: they have no samples, and so no log."""
    rows = [row for row in record.results if row["model"] == model and "category" not in row]
    return [row for row in rows if isinstance(row.get("tasks"), list) and task in all_parts(row)]


def _usage(record: RunRecord, model: str) -> dict[str, ModelUsage]:
    """Return the tokens of the model, if it had no other task: ``summary.json`` counts those of all tasks together."""
    from inspect_ai.model import ModelUsage

    if len({row["task"] for row in task_rows(record.results) if row["model"] == model}) != 1:
        return {}
    rows = [row for row in record.usage if row["model"] == model and row["role"] in {"model", PROBE, UNUSED}]
    if not rows:
        return {}
    read, wrote = (sum(row[name] for row in rows) for name in ("prompt_tokens", "completion_tokens"))
    cached = sum(row.get("cached_tokens", 0) for row in rows)
    costs = [cost for row in rows if (cost := finite(row.get("cost_usd"))) is not None]
    used = ModelUsage(
        input_tokens=read - cached,
        input_tokens_cache_read=cached or None,
        output_tokens=wrote,
        total_tokens=read + wrote,
        total_cost=sum(costs) if costs else None,
    )
    return {one_line(model): used}


def run_times(record: RunRecord, spec: Mapping[str, Any]) -> tuple[datetime, datetime]:
    """Return when a run began and ended; if it recorded neither, when its figures were written."""
    sessions = spec.get("sessions") or [{}]
    seconds = 0.0 if record.path is None else (record.path / SUMMARY).stat().st_mtime
    written_at = datetime.fromtimestamp(seconds, timezone.utc)
    return moment(sessions[0].get("started")) or written_at, moment(sessions[-1].get("ended")) or written_at


def _version(sessions: Sequence[Mapping[str, Any]]) -> str:
    versions = sessions[-1].get("versions") if sessions else None
    found = versions.get("kshot") if isinstance(versions, dict) else None
    return one_line(found) if isinstance(found, str) else __version__


def _digest(*parts: Any) -> str:
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=11).hexdigest()


# ---- the files ----


def write_logs(folder: Path, record: RunRecord, spec: Mapping[str, Any]) -> Iterator[Path]:
    """Write the logs of a run to a folder; yield their paths. One sample is in memory at a time."""
    with importing("--to inspect", "inspect-ai"):
        import inspect_ai.log
        import inspect_ai.scorer  # noqa: F401 - the log and its samples are made of both
    for _, rows in checked_by_task(record):  # what cannot be a log is refused before the first one is written
        seen: set[int] = set()
        for row in rows:
            _refuse_twice(row, seen, record)
    names = FileNames()
    for (task, model), rows in by_task(record.iter_samples()):
        figures = figures_of(record, task, model)
        header = log_header(record, spec, task, model)
        started = header.eval.created.replace(":", "-")
        name = names.of(f"{started}_{task.replace('_', '-')}_{model.replace('_', '-')}_{header.eval.task_id}")
        path = path_inside(folder, f"{name}.eval")
        with new_binary_version(path) as file:
            _write_log(file, header, rows, figures)
        yield path


def _write_log(file: IO[bytes], header: EvalLog, rows: Iterator[ResultRow], figures: Sequence[ResultRow]) -> None:
    """Write a file of the log for each sample, the summaries of all, and the header."""
    forms = forms_of(figures)
    ranking_type = next((str(row["ranking_type"]) for row in figures if row.get("ranking_type")), "")
    errors = StandardErrors(figures)
    began = datetime.fromisoformat(header.eval.created)
    with ZipFile(file, "w", ZIP_DEFLATED) as archive, tempfile.TemporaryFile() as summaries:
        for at, row in enumerate(rows):
            if not row.get("failed") and isinstance(row.get("scores"), dict):
                errors.add(row["scores"])
            sample = inspect_sample(row, forms, ranking_type, began)
            archive.writestr(_entry(f"samples/{sample.id}_epoch_1.json"), sample.model_dump_json(exclude_none=True))
            summaries.write((b"," if at else b"[") + sample.summary().model_dump_json(exclude_none=True).encode())
        summaries.write(b"]")
        summaries.seek(0)
        with archive.open(_entry("summaries.json"), "w", force_zip64=True) as member:
            shutil.copyfileobj(summaries, member)
        errors.write_to(header)
        archive.writestr(_entry("header.json"), header.model_dump_json(exclude_none=True))


def _entry(name: str) -> ZipInfo:
    """Return a file of the log without a time, so that the same run gives the same bytes."""
    entry = ZipInfo(name)
    entry.compress_type = ZIP_DEFLATED
    return entry


def _refuse_twice(row: ResultRow, seen: set[int], record: RunRecord) -> None:
    name = sample_id(row.get("id"))
    mark = int.from_bytes(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    if mark in seen:
        raise RunError(f"two samples of a task have the id {name!r}", where=str(record.path))
    seen.add(mark)
