"""Coverage of processes that were killed while they wrote it down: their files cannot be combined with the others."""

import sqlite3
from contextlib import closing
from pathlib import Path


def drop_broken(base):
    """Delete the files of single processes, ``base`` with more behind it, that are not whole; return their names."""
    base = Path(base)
    broken = [path for path in base.parent.glob(f"{base.name}.*") if path.is_file() and not _is_whole(path)]
    for path in broken:
        path.unlink(missing_ok=True)
    return sorted(path.name for path in broken)


def _is_whole(path):
    try:
        with closing(sqlite3.connect(path)) as database:
            (found,) = database.execute("pragma quick_check").fetchone()
            (written,) = database.execute("select count(*) from meta where key = 'has_arcs'").fetchone()
    except sqlite3.DatabaseError:
        return False
    return found == "ok" and written == 1
