"""The one page of the viewer, and the JSON that every browser reads."""

from __future__ import annotations

import json
import math
from typing import Any, Literal

from markupsafe import Markup

from kshot.report.page.report_page import SCRIPTS, STATIC_SCRIPTS, STYLES
from kshot.viewer.security import PAGE_POLICY

_PAGE = Markup("""<!doctype html>
<html lang="en" data-source="{source}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{policy}<meta name="referrer" content="no-referrer">
<title>kshot</title>
<link rel="icon" href="{icon}">
{styles}
</head>
<body>
<div id="app"><noscript><p>This page needs JavaScript.</p></noscript></div>
{scripts}
</body>
</html>
""")
_POLICY = Markup('<meta http-equiv="Content-Security-Policy" content="{}">\n')
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Ccircle cx='8' cy='8' r='7' "
    "fill='%232563eb'/%3E%3Ccircle cx='8' cy='8' r='2.5' fill='white'/%3E%3C/svg%3E"
)


def web_page(source: Literal["server", "files"]) -> str:
    """Return the page; ``source`` says where its scripts get their data."""
    styles = Markup("\n").join(Markup('<link rel="stylesheet" href="web/{}">').format(name) for name in STYLES)
    names = SCRIPTS if source == "server" else STATIC_SCRIPTS
    scripts = Markup("\n").join(Markup('<script src="web/{}"></script>').format(name) for name in names)
    policy = _POLICY.format(PAGE_POLICY) if source == "files" else ""  # a server says it in a header
    return str(_PAGE.format(source=source, icon=_ICON, policy=policy, styles=styles, scripts=scripts))


def json_bytes(value: Any) -> bytes:
    """Return JSON that every browser reads."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, (list, tuple)) else value
