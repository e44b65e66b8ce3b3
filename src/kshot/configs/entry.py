"""One entry of a config's datasets: its dict, its rows, its prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from kshot import retrievers
from kshot.configs.names import INFERENCERS, Own, short, unknown
from kshot.configs.rendering import Rendered, render
from kshot.configs.rows import Rows, read_rows
from kshot.core.errors import DataError, KshotError
from kshot.retrievers.base import Retriever

Splits = Mapping[str, Sequence[Mapping[str, Any]]]


class Entry:
    """A dataset as a config writes it: ``reader_cfg``, ``infer_cfg``, ``eval_cfg``, ``abbr``, ``type``, ``path``."""

    def __init__(
        self,
        body: dict[str, Any],
        *,
        strict: bool = True,
        where: str = "",
        registered: Mapping[str, Any] | None = None,
        home: str = "",
    ) -> None:
        """Keep the dict; ``registered``: functions of the config that are named by text; ``home``: whose it is."""
        self.body, self.strict, self.where, self.home = body, strict, where, home
        self.registered = registered or {}

    @property
    def origin(self) -> dict[str, Any]:
        """Where it comes from: what another entry of the same config would be made with."""
        return {"strict": self.strict, "where": self.where, "registered": self.registered, "home": self.home}

    def __getitem__(self, key: str) -> Any:
        """One of the dict's values."""
        return self.body[key]

    def __contains__(self, key: str) -> bool:
        """Whether the dict has it."""
        return key in self.body

    def get(self, key: str, default: Any = None) -> Any:
        """One of the dict's values, or a default."""
        return self.body.get(key, default)

    def __repr__(self) -> str:
        """Show what it is called."""
        return f"<config entry {self.abbr}>"

    @property
    def abbr(self) -> str:
        """What tables call it."""
        named = self.body.get("abbr")
        if named is not None:
            return str(named)
        path = str(self.body.get("path") or short(self.body.get("type", "entry"))).strip("/")
        name = self.body.get("name")
        return "_".join(str(part).replace("/", "_") for part in (path, name) if part)

    @property
    def place(self) -> str:
        """Where it stands, for messages."""
        return f"{self.where}, {self.abbr}" if self.where else self.abbr

    def _part(self, name: str) -> dict[str, Any]:
        value = self.body.get(name)
        if value is None:
            value = {}
        if not isinstance(value, Mapping):
            raise DataError(f"{name} is {value!r:.80}, not a dict", where=self.place)
        return dict(value)

    @property
    def reader_cfg(self) -> dict[str, Any]:
        """Which columns and splits."""
        return self._part("reader_cfg")

    @property
    def infer_cfg(self) -> dict[str, Any]:
        """Template, retriever, inferencer."""
        return self._part("infer_cfg")

    @property
    def eval_cfg(self) -> dict[str, Any]:
        """Evaluator and clean-up."""
        return self._part("eval_cfg")

    @property
    def repeats(self) -> int:
        """How often each row is asked."""
        n = self.body.get("n") or 1
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise DataError(f"n is {n!r}; it must be a whole number from 1 up", where=self.place)
        return n

    @property
    def inferencer(self) -> dict[str, Any]:
        """The inferencer's dict."""
        held = self.infer_cfg.get("inferencer")
        if not isinstance(held, Mapping) or "type" not in held:
            raise DataError(
                "infer_cfg has no inferencer", where=self.place, hint="Write inferencer=dict(type=GenInferencer)."
            )
        return dict(held)

    @property
    def mode(self) -> str:
        """How it is asked: gen, ppl, clp or multiturn."""
        kind = self.inferencer["type"]
        found = INFERENCERS.get(short(kind), "")
        if not found:
            unknown("inferencer", kind, self.place, lambda: [name for name, mode in INFERENCERS.items() if mode])
        return found

    # ---- prompts ----

    def prompts(
        self,
        rows: Splits,
        kind: Literal["text", "chat"] = "text",
        meta: Mapping[str, Any] | None = None,
        replies: Sequence[Any] | None = None,
    ) -> list[Any]:
        """One rendered prompt per test row: text, or messages; for perplexity a list of them, one per label."""
        return list(self.render(rows).prompts(kind, meta, replies))

    def render(self, splits: Splits, *, n: int | None = None, retriever: Mapping[str, Any] | None = None) -> Rendered:
        """Choose the examples and check the templates; each prompt is made when it is asked for."""
        return self.prepare(splits, n=n, retriever=retriever)[0]

    def prepare(
        self,
        splits: Splits,
        *,
        n: int | None = None,
        retriever: Mapping[str, Any] | None = None,
        count: Callable[[str], int] | None = None,
    ) -> tuple[Rendered, Retriever]:
        """Render, and give the retriever too; ``retriever`` replaces the config's, ``count`` counts a text's tokens."""
        infer_cfg = self.infer_cfg if retriever is None else {**self.infer_cfg, "retriever": dict(retriever)}
        asks = short(self.inferencer["type"])
        only_shown = not self.strict and not INFERENCERS.get(asks)  # running it is refused, where ``mode`` is needed
        if only_shown or self.mode == "clp":  # one prompt, as for generation; clp weighs the options after it
            shown_as = "ChatInferencer" if asks == "AgentInferencer" else "GenInferencer"
            infer_cfg["inferencer"] = {**self.inferencer, "type": shown_as}
        try:
            times = self.repeats if n is None else n
            rows = read_rows(self.reader_cfg, splits, strict=self.strict, abbr=self.abbr, n=times)
            chooses = self._retriever(rows, infer_cfg, count)
            return render(self.reader_cfg, infer_cfg, rows, chooses.retrieve(), strict=self.strict), chooses
        except KshotError as exc:
            exc.where = exc.where or self.place
            raise

    def _retriever(self, rows: Rows, infer_cfg: Mapping[str, Any], count: Callable[[str], int] | None) -> Retriever:
        held = infer_cfg.get("retriever")
        if not isinstance(held, Mapping) or "type" not in held:
            raise DataError(
                "infer_cfg has no retriever", where=self.place, hint="Write retriever=dict(type=ZeroRetriever)."
            )
        kind = held["type"]
        found = kind if isinstance(kind, type) else getattr(retrievers, short(kind), None)
        if isinstance(kind, Own) or not (isinstance(found, type) and issubclass(found, Retriever)):
            unknown("retriever", kind, self.place, lambda: [n for n in dir(retrievers) if n.endswith("Retriever")])
        options = {name: value for name, value in held.items() if name != "type"}
        if "max_tokens" in options and count is not None:
            options.setdefault("count", count)
        try:
            return found(rows, strict=self.strict, **options)
        except TypeError as exc:
            raise DataError(f"{short(kind)} cannot be made: {exc}", where=self.place) from exc
