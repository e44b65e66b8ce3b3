"""``kshot view [DIR…]``: runs in the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from kshot.viewer.serving import Viewer

_PACKAGES = ("starlette", "uvicorn")


def add(command: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    command.description = (
        "Show runs in the browser: figures, samples with filters and search, any two runs side by side. "
        "The pages are served to this machine only, behind a link with a token; running runs update. Ctrl-C ends it."
    )
    command.add_argument("folder", nargs="*", metavar="DIR", help="folders with runs, or run folders (default: runs)")
    command.add_argument("--port", type=int, metavar="N", help="port to listen at (default: the first free from 8765)")
    command.add_argument("--no-browser", action="store_true", help="print the link, and open no browser")
    command.add_argument(
        "--static", metavar="OUT", help="write the pages as files for any web server into this folder, and end"
    )


def execute(parsed: argparse.Namespace) -> int:
    """Serve the pages, or write them."""
    from kshot.core.errors import UsageError
    from kshot.core.extras import import_package, require

    folders = _folders(parsed.folder)
    if parsed.static is not None:
        if parsed.port is not None or parsed.no_browser:
            raise UsageError("--static serves nothing", hint="Leave --port and --no-browser out.")
        return _write(folders, parsed.static)
    require("kshot view", *_PACKAGES)
    for package in _PACKAGES:
        import_package("kshot view", package)
    from kshot.cli.streams import say
    from kshot.viewer.serving import Viewer, checked_port

    viewer = Viewer(folders, checked_port(parsed.port), say)
    try:
        _tell(viewer, folders, browser=not parsed.no_browser)
    except BaseException:
        viewer.close()
        raise
    viewer.serve()
    return 0


def _folders(given: list[str]) -> list[Path]:
    from pathlib import Path

    from kshot.core.errors import UsageError
    from kshot.runs.listing import USUAL_FOLDER

    try:
        folders = [Path(each).expanduser() for each in given or [USUAL_FOLDER]]
    except RuntimeError as exc:  # ~nobody
        raise UsageError(f"there is no such folder: {exc}", hint="Name a folder with runs, or one run.") from exc
    for name, folder in zip(given, folders, strict=False):
        if not name:
            raise UsageError("the name of the folder is empty", hint="Name a folder, or leave it out.")
        if not folder.is_dir():
            raise UsageError("there is no such folder", where=str(folder), hint="Name a folder with runs, or one run.")
    return folders


def _tell(viewer: Viewer, folders: list[Path], *, browser: bool) -> None:
    from kshot.cli.streams import flushed, say, show
    from kshot.core.visible import one_line
    from kshot.viewer.serving import open_browser, why_no_browser

    runs = len(viewer.catalog.runs())
    places = ", ".join(one_line(folder) for folder in folders)
    counted = f"{runs:,} run{'' if runs == 1 else 's'} in {places}" if runs else f"no runs in {places} yet"
    with flushed():  # who reads it waits for it
        show(f"{viewer.link}  ({counted}; Ctrl-C ends it)")
    if not browser:
        return
    why = why_no_browser()
    if why is None and not open_browser(viewer.browser_link()):
        why = "none was found"
    if why is not None:
        say(
            f"no browser was opened ({why}): open the link; from another machine, through ssh -L "
            f"{viewer.port}:127.0.0.1:{viewer.port}"
        )


def _write(folders: list[Path], out: str) -> int:
    from kshot.cli.streams import say, show
    from kshot.core.visible import one_line
    from kshot.viewer.static_site import write_site

    written = write_site(folders, out, say)
    for note in written.notes:
        say(note)
    show(one_line(f"{written.path}: {written.files:,} files, {written.size / 1e6:,.1f} MB"))
    return 0
