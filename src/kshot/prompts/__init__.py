"""Template languages: format and jinja strings, templates and dialogues of configs, chat templates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshot.core.lazy import lazy_names

if TYPE_CHECKING:
    from kshot.prompts.strings import compile_string, decode_escapes, jinja_environment
else:
    __getattr__, __dir__ = lazy_names(
        __name__, {"kshot.prompts.strings": ("compile_string", "decode_escapes", "jinja_environment")}
    )

__all__ = ["compile_string", "decode_escapes", "jinja_environment"]
