"""Limits on what this process may use. Runs inside the confined process."""

from __future__ import annotations


def set_limits(table: dict[str, int], *, processes: int | None) -> None:
    """Set limits by their names in ``resource``; a limit that this system does not have is left out.

    ``processes`` counts all processes of the user; None: the system call filter forbids new ones already.
    """
    try:
        import resource
    except ImportError:  # Windows
        return
    limits = table if processes is None else {**table, "RLIMIT_NPROC": processes}
    for name, most in limits.items():
        kind = getattr(resource, name, None)  # which of them there are depends on the system
        if kind is None:
            continue
        hard = resource.getrlimit(kind)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(kind, (value, value))
        except (ValueError, OSError):  # macOS has no limit on address space
            continue
