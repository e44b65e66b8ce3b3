"""How two identities of a run differ, in the words of the options."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kshot.settings import Settings


def differences(earlier: Mapping[str, Any], present: Mapping[str, Any]) -> list[str]:
    """Say which settings of a run are not those that it began with."""
    before, now = without_defaults(earlier), without_defaults(present)
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return [f"{name} was {_shown(name, before)}, is {_shown(name, now)}" for name in names]


def without_defaults(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return an identity without default values: earlier folders hold every value, also former defaults."""
    declared = Settings.declared()
    holds_defaults = any(name in declared and value == declared[name].default for name, value in identity.items())
    return {
        name: value
        for name, value in identity.items()
        if not (declared[name].is_unset(value) if name in declared else value is None)
        and not (holds_defaults and name in declared and value is not None and value == declared[name].former_default)
    }


def _shown(name: str, identity: Mapping[str, Any]) -> str:
    """Show a value of an identity for a message, which must stay on one line."""
    if name in identity:
        text = json.dumps(identity[name], ensure_ascii=False)
        return text if len(text) <= 60 else text[:57] + "…"  # noqa: PLR2004 - about half a line
    declared = Settings.declared().get(name)
    default = (
        None if declared is None else declared.default if declared.default is not None else declared.earlier_default
    )
    return "not set" if default is None else f"{json.dumps(default)} (default)"
