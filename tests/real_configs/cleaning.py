"""kshot's clean-ups beside the homes' own, on many made-up replies."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def compare(line: dict[str, Any], framework: str) -> dict[str, Any]:
    """How many outputs of one clean-up are the home's; the first one that is not."""
    sys.path.insert(0, str(HERE / "home"))
    from made_up_texts import texts

    from kshot.configs.answers import cleaner
    from kshot.configs.scope import Scope

    name = str(line["config"]["type"]).rpartition(".")[2]
    if "error" in line:
        return {"name": name, "not_run": line["error"]}
    if all("error" in one for one in line["outputs"]):
        return {"name": name, "not_run": "the home's own function fails on every text with these options"}
    try:
        clean = cleaner(line["config"], Scope("made up", framework))
    except Exception as exc:  # what kshot does not know is left to the home's code
        return {"name": name, "unknown": str(exc)[:120]}
    same, first = 0, ""
    for text, wanted in zip(texts(len(line["outputs"])), line["outputs"], strict=True):
        ours = _one(clean, text)
        if ours == wanted or ("error" in ours and "error" in wanted):
            same += 1
        elif not first:
            first = f"{text!r:.120} gives {ours!r:.80}, not {wanted!r:.80}"
    return {"name": name, "same": same, "of": len(line["outputs"]), "first": first}


def _one(clean: Any, text: str) -> dict[str, Any]:
    try:
        return {"value": json.loads(json.dumps(clean(text)))}
    except Exception as exc:  # the home's errors are errors here too
        return {"error": type(exc).__name__}
