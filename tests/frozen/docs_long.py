"""The pages of the docs that start workers, or the tools to which runs are logged."""

from tests.documented import RUNNING
from tests.frozen.cases import Cases
from tests.frozen.docs import LONG, add_pages


def make(cases: Cases) -> None:
    """Add the cases."""
    add_pages(cases, [page for page in RUNNING if page.name in LONG])
