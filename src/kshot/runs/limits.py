"""``--max-requests`` and ``--max-cost`` of a run: its budget, with what the run folder has recorded as spent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from kshot.core.budget import Budget
from kshot.core.errors import RunError, UsageError
from kshot.core.options import flag
from kshot.core.records import ResultRow
from kshot.runs.folder import RunFolder
from kshot.runs.headline import finite
from kshot.settings import Settings

_PRICES = {
    "model": ("price_in", "price_out"),
    "judge": ("judge_price_in", "judge_price_out"),
    "rewriter": ("rewrite_price_in", "rewrite_price_out"),
}
"""The options that say what the tokens of a role cost."""


def budget_of(
    settings: Settings,
    folder: RunFolder | None,
    record: Callable[[dict[str, Any]], None],
    *,
    scores_again: bool = False,
) -> Budget:
    """Return the budget of a run; what earlier calls have spent in the folder counts. ``record`` adds to it.

    Scoring again asks nothing, so nothing limits it.
    """
    given = {role: settings.prices(role) for role in _PRICES}
    prices = {
        role: (read or 0.0, written or 0.0) for role, (read, written) in given.items() if (read, written) != _NONE
    }
    limits = settings.max_requests, settings.max_cost
    if folder is None:
        return Budget(*limits, prices, kept=False)
    earlier = folder.spec.get("spent")
    try:
        if scores_again:
            return Budget(earlier=earlier)
        return Budget(*limits, prices, earlier=earlier, record=record)
    except RunError as exc:
        exc.where = str(folder.path)
        raise


_NONE = (None, None)


def check_prices(settings: Settings, roles_of_servers: Iterable[str]) -> None:
    """Refuse ``--max-cost`` where the price of a role that is behind a server is not known."""
    if settings.max_cost is None:
        return
    for role in roles_of_servers:
        for name, price in zip(_PRICES.get(role, ()), settings.prices(role), strict=False):
            if price is None:
                raise UsageError(
                    f"--max-cost needs {flag(name)}: the {role} is behind a server, and its price is not known",
                    hint=f"Add {flag(name)} USD (per million tokens).",
                )


def usage_rows(
    answers: Mapping[tuple[str, str], Sequence[int]], budget: Budget, settings: Settings, servers: Collection[str]
) -> list[ResultRow]:
    """Return the tokens of the answers, by model and role, and then those of probes and of replies in no answer."""

    def row(model: str, role: str, named: str, read: int, wrote: int) -> ResultRow:
        found: ResultRow = {"model": model, "role": named, "prompt_tokens": read, "completion_tokens": wrote}
        prices = settings.prices(role)
        if any(price is not None for price in prices):
            found["cost_usd"] = round((read * (prices[0] or 0) + wrote * (prices[1] or 0)) / 1e6, 6)
        return found

    rows = [
        row(model, role, role, *sums) | ({"server": True} if model in servers else {})
        for (model, role), sums in answers.items()
    ]
    for role, model, kind, aside in budget.beside():
        named = kind if role == "model" else f"{role} {kind}"
        requests = {"requests": aside.requests} if aside.requests else {}
        found = row(model, role, named, aside.prompt_tokens, aside.completion_tokens)
        rows.append(found | {"server": True} | requests)
    return rows


def recorded_cost(options: Mapping[str, Any], spent: Any) -> float | None:
    """Return what the tokens cost that a run folder has recorded as spent; None where no price is recorded.

    Both come from a file: what is no number counts as none.
    """
    costs = []
    for role, names in _PRICES.items():
        tokens = spent.get(role) if isinstance(spent, Mapping) else None
        prices = [options.get(name) for name in names]
        if not isinstance(tokens, Mapping) or not any(finite(price) is not None for price in prices):
            continue
        counts = [tokens.get(name) for name in ("prompt_tokens", "completion_tokens")]
        pairs = zip(map(finite, counts), map(finite, prices), strict=True)
        costs.append(sum((count or 0.0) * (price or 0.0) for count, price in pairs) / 1e6)
    return sum(costs) if costs else None
