"""Template languages: from fields to text."""

from kshot.prompts.strings import compile_string, decode_escapes, jinja_environment

__all__ = ["compile_string", "decode_escapes", "jinja_environment"]
