"""The images, sounds and videos of a message for people: what each is, its name, type, size and digest.

Rows may come from strangers: whatever a part holds, it becomes a text.
"""

from __future__ import annotations

import json
from typing import Any

_DIGEST_LETTERS = 12


def shown_content(content: Any) -> Any:
    """Return the content of a message as one text, if all its parts are such as kshot writes; else as it is."""
    if not isinstance(content, list) or not all(isinstance(each, dict) and "type" in each for each in content):
        return content
    return "\n".join(_shown(each) for each in content)


def _shown(part: dict[str, Any]) -> str:
    if part["type"] == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    digest, size, pictures = part.get("digest"), part.get("bytes"), part.get("pictures")
    told = [
        part.get("name"),
        part.get("url"),
        part.get("mime"),
        f"{pictures:,} pictures" if type(pictures) is int else None,
        f"{size:,} bytes" if type(size) is int else None,
        digest[:_DIGEST_LETTERS] if isinstance(digest, str) else None,
    ]
    words = " · ".join(each for each in told if isinstance(each, str) and each)
    kind = part["type"] if isinstance(part["type"], str) else json.dumps(part["type"])
    return f"[{kind} {words}]" if words else json.dumps(part, ensure_ascii=False)
