"""Function calling as BFCL asks for it: the functions stand in the system message, the reply is the calls as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from kshot.configs.evaluators.bfcl_calls import Scene, call_results, executable, has_functions, is_known, scene_of
from kshot.configs.inference import ConfigMethod, as_prompt
from kshot.configs.rendering import PromptKind
from kshot.core.errors import DataError
from kshot.core.records import Generate, Prompt, RequestGenerator, Row, Sample, ask
from kshot.methods.generation import Extract

Turns: TypeAlias = list[list[dict[str, Any]]]
"""The messages of the user, turn by turn; the first turn begins with the system message."""

FUNCTION_MODE = "functions"
"""The way of ``names.FRAMEWORK_INFERENCERS`` that is asked here."""

_INTRODUCTION = (
    "You can call functions to do what the user asks for. They are listed below as JSON, with their parameters.\n"
    "Reply with nothing but the calls that are needed, in this form:\n"
    "[first_function(parameter=value, other=value), second_function(parameter=value)]\n"
    "If none of the functions can be used, or a parameter that is required is not given, say so in words instead.\n\n"
    "Functions:\n"
)
_RETURNED = "The calls return:\n"
_MAX_STEPS = 20
"""How many replies of one turn may have calls; with one more the conversation ends, and is not right."""
_MORE = "These functions can be called from now on, too:\n"
_ROLES = {"user", "assistant", "system"}


def function_turns(row: Row, where: str) -> Turns:
    """Return the messages of a row: its ``question`` (turns of messages) and its ``function``, both perhaps as JSON.

    ``missed_function`` names functions that are offered at a later turn, by the number of the turn.
    """
    for column in ("question", "function"):
        if column not in row:
            raise DataError(f"the row has no column {column!r}", where=where, hint="BFCL's rows have it.")
    turns = _turns(_decoded(row["question"]), where)
    later = _decoded(row.get("missed_function") or {})
    for number, functions in later.items() if isinstance(later, Mapping) else ():
        if str(number).isdigit() and int(number) < len(turns):
            turns[int(number)] = [{"role": "user", "content": _MORE + _written(functions)}]
    offered = _INTRODUCTION + _written(_decoded(row["function"]))
    first = turns[0]
    if first[0]["role"] == "system":
        turns[0] = [{"role": "system", "content": f"{offered}\n\n{first[0]['content']}"}, *first[1:]]
    else:
        turns[0] = [{"role": "system", "content": offered}, *first]
    return turns


def _decoded(value: Any) -> Any:
    """Return what a JSON text holds; any other text is itself."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _written(functions: Any) -> str:
    """Write functions as JSON. Dots in their names are underscores: BFCL's evaluators want them so in calls."""
    if isinstance(functions, str):
        return functions
    named = [_without_dots(each) for each in functions] if isinstance(functions, list) else functions
    return json.dumps(named, ensure_ascii=False, indent=2)


def _without_dots(function: Any) -> Any:
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        return function
    return {**function, "name": function["name"].replace(".", "_")}


def _turns(question: Any, where: str) -> Turns:
    """Return turns of messages; a text is one turn, and a list of messages too."""
    if isinstance(question, str):
        question = [[{"role": "user", "content": question}]]
    elif isinstance(question, list) and question and all(isinstance(each, Mapping) for each in question):
        question = [question]
    whole = isinstance(question, list) and question and all(isinstance(turn, list) and turn for turn in question)
    if not whole or not all(_is_message(message) for turn in question for message in turn):
        raise DataError(
            f"the question is {question!r:.80}", where=where, hint="It is a list of turns, each a list of messages."
        )
    return [[dict(message) for message in turn] for turn in question]


def _is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get("role") in _ROLES and isinstance(value.get("content"), str)


def function_calls(extract: Extract, options: Mapping[str, Any], kind: PromptKind) -> ConfigMethod:
    """Ask turn after turn. The answer is the reply; of several turns a list with the replies of each.

    The calls of a conversation are executed where the package bfcl_eval has its functions: what they return is told to
    the model, until a reply has no calls, or too many replies in one turn have some, which ends the conversation.
    """

    def method(sample: Sample, shown: tuple[Turns, str | None]) -> RequestGenerator:
        turns, system = shown
        talk = len(turns) > 1 or "multi_turn" in str(sample.fields.get("id"))
        scene = _scene(sample.fields) if talk else None
        said: list[dict[str, Any]] = []
        steps: list[list[str]] = []
        answers: list[list[str]] = []
        for turn in turns:
            said += turn
            answers.append([])
            results: list[str] | None = []
            while results is not None and len(answers[-1]) <= _MAX_STEPS:
                (reply,) = yield from ask(Generate(_prompt(said, system, kind), **options))
                answers[-1].append(reply.text)
                said.append({"role": "assistant", "content": reply.text})
                results = _results(reply.text, steps, scene)
                if results is not None:
                    said.append({"role": "user", "content": _RETURNED + "\n".join(results)})
            if results is not None:
                break
        if not talk:
            return extract(sample, answers[0][0])
        return [[extract(sample, each) for each in replies] for replies in answers]

    return method


def _scene(row: Row) -> Scene | None:
    """Return what the calls of a row work on; None where they cannot be executed."""
    scene = scene_of(row)
    return scene if is_known(scene.classes) and has_functions() else None


def _results(reply: str, steps: list[list[str]], scene: Scene | None) -> list[str] | None:
    """Return what the calls of a reply return, after those of earlier steps; None where there are none to execute."""
    calls = executable(reply) if scene is not None else []
    if scene is None or not calls:
        return None
    steps.append(calls)
    found = call_results(scene, steps)
    return [f"{call}: {result}" for call, result in zip(calls, found, strict=True)]


def _prompt(said: Sequence[Mapping[str, Any]], system: str | None, kind: PromptKind) -> Prompt:
    if kind == "chat":
        return as_prompt(list(said), system)
    return as_prompt("\n\n".join(str(message["content"]) for message in said) + "\n\n", system)
