"""``--cleanup``: a clean-up takes the answer out of each reply."""

from __future__ import annotations

from typing import Any

from kshot.cleanups import make_cleanup
from kshot.core.errors import DataError, KshotError, UsageError
from kshot.core.extras import missing_package
from kshot.core.records import Sample
from kshot.datasets.compiler import DatasetCompiler
from kshot.methods.generation import Extract, raw


def reply_extractor(compiler: DatasetCompiler) -> Extract:
    """Return what cleans a reply, or every reply of a conversation; without ``--cleanup`` replies stay as they are."""
    spec = compiler.dataset.args.cleanup
    if spec is None:
        return raw
    cleanup = make_cleanup(spec)

    def extract(sample: Sample, reply: Any) -> Any:
        try:
            return tuple(map(cleanup, reply)) if isinstance(reply, tuple) else cleanup(reply)
        except KshotError:
            raise
        except Exception as exc:
            where = f"{compiler.where}, sample {sample.id}"
            missing = missing_package(exc, f"the clean-up {spec}")
            raise missing or DataError(f"the clean-up {spec} fails: {type(exc).__name__}: {exc}", where=where) from exc

    return extract


def refuse_cleanup(compiler: DatasetCompiler, method: str, hint: str = "") -> None:
    """Refuse ``--cleanup`` for a method that gets no replies."""
    if compiler.dataset.args.cleanup is not None:
        raise UsageError(
            f"--cleanup takes answers out of replies, and {method} asks for none",
            where=compiler.where,
            hint=f"{hint}To use it for another dataset only, write -d NAME,cleanup=….",
        )
