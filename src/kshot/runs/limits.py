"""``--max-requests`` and ``--max-cost`` of a run: its budget, with what the run folder has recorded as spent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from kshot.core.budget import Budget, cost_of
from kshot.core.errors import RunError, UsageError
from kshot.core.options import flag
from kshot.core.records import ResultRow
from kshot.runs.folder import RunFolder
from kshot.runs.headline import finite
from kshot.settings import Settings

_PRICED = ("model", "judge", "rewriter")
"""The roles whose tokens may have a price."""


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
    prices = {role: found for role in _PRICED if (found := _prices(*settings.prices(role))) is not None}
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


def _prices(read: float | None, written: float | None, cached: float | None) -> Sequence[float] | None:
    """Return the prices of a role as ``cost_of`` takes them; None if there is none."""
    if read is written is cached is None:
        return None
    return [read or 0.0, written or 0.0, *([] if cached is None else [cached])]


def check_prices(settings: Settings, roles_of_servers: Iterable[str]) -> None:
    """Refuse ``--max-cost`` where the price of a role that is behind a server is not known."""
    for role in roles_of_servers:
        for name, price in zip(settings.price_options(role)[:2], settings.prices(role), strict=False):
            if price is None:
                raise UsageError(
                    f"--max-cost needs {flag(name)}: the {role} is behind a server, and its price is not known",
                    hint=f"Add {flag(name)} USD (per million tokens).",
                )


def usage_rows(
    answers: Mapping[tuple[str, str], Sequence[int]], budget: Budget, settings: Settings, servers: Collection[str]
) -> list[ResultRow]:
    """Return a row of tokens for each model and role, then rows for probes and for replies that no answer uses."""

    def row(model: str, role: str, named: str, tokens: Sequence[int]) -> ResultRow:
        read, wrote, cached = tokens
        found: ResultRow = {"model": model, "role": named, "prompt_tokens": read, "completion_tokens": wrote}
        if cached:
            found["cached_tokens"] = cached
        if (prices := _prices(*settings.prices(role))) is not None:
            found["cost_usd"] = round(cost_of(read, wrote, cached, prices), 6)
        return found

    rows = [
        row(model, role, role, sums) | ({"server": True} if model in servers else {})
        for (model, role), sums in answers.items()
    ]
    for role, model, kind, aside in budget.beside():
        named = kind if role == "model" else f"{role} {kind}"
        requests = {"requests": aside.requests} if aside.requests else {}
        found = row(model, role, named, (aside.prompt_tokens, aside.completion_tokens, aside.cached_tokens))
        rows.append(found | {"server": True} | requests)
    return rows


def recorded_cost(options: Mapping[str, Any], spent: Any) -> float | None:
    """Return what the tokens cost that a run folder has recorded as spent; None where no price is recorded.

    Both come from a file: what is no number counts as none.
    """
    costs = []
    for role in _PRICED:
        tokens = spent.get(role) if isinstance(spent, Mapping) else None
        read, written, cached = (finite(options.get(name)) for name in Settings.price_options(role))
        prices = _prices(read, written, cached)
        if not isinstance(tokens, Mapping) or prices is None:
            continue
        counts = [finite(tokens.get(name)) or 0.0 for name in ("prompt_tokens", "completion_tokens", "cached_tokens")]
        costs.append(cost_of(counts[0], counts[1], counts[2], prices))
    return sum(costs) if costs else None
