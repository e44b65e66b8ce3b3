"""The packages that some clean-ups need, and the extras that install them.

Clean-ups also run in confined processes, with the standard library alone. kshot's own process names the extra.
"""

from __future__ import annotations

from kshot.core.errors import MissingExtra

_EXTRAS = {"jieba": "chinese"}


def missing_extra(error: Exception, purpose: str) -> MissingExtra | None:
    """Return the error that names the extra, if the given error is about a package that an extra installs."""
    package = error.name if isinstance(error, ImportError) else None
    return MissingExtra(package, _EXTRAS[package], purpose) if package in _EXTRAS else None
