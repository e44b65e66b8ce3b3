"""Template languages: format and jinja strings, templates and dialogues of configs, chat templates."""

from kshot.prompts.strings import compile_string, decode_escapes, jinja_environment

__all__ = ["compile_string", "decode_escapes", "jinja_environment"]
