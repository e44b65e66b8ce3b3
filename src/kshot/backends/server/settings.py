"""The settings of models behind servers: where they are, how they are asked, and what they cost.

Each role has an account of its own (address, key, headers), request options and prices. Those of the judge and the
rewriter are declared from those of the evaluated model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kshot.core.options import Options, flag, option, option_field

_option = partial(option, group="servers (openai:, anthropic:)")
_price = partial(_option, kind=float, least=0, most=1_000_000, identity=False)


@dataclass(frozen=True, kw_only=True)
class ServerSettings(Options):
    """Where a server is, and how it is asked."""

    base_url: tuple[str, ...] | None = _option(
        None,
        "address of the server, such as http://localhost:8000/v1; several serve the model side by side (repeatable)",
        repeat=True,
        metavar="URL",
        first_counts=True,
    )
    api_key_env: str | None = _option(
        None,
        "environment variable that holds the server's key (default: OPENAI_API_KEY and ANTHROPIC_API_KEY, which go to "
        "OpenAI and Anthropic alone)",
        metavar="VARIABLE",
        identity=False,
    )
    header: tuple[str, ...] | None = _option(
        None,
        "HTTP header to send, NAME=VALUE or NAME=env:VARIABLE; it is written nowhere (repeatable)",
        repeat=True,
        metavar="NAME=VALUE",
        identity=False,
        secret=True,
    )
    request_option: tuple[str, ...] | None = _option(
        None,
        "parameter to add to each request, such as reasoning_effort=high or "
        "chat_template_kwargs.enable_thinking=false (repeatable)",
        repeat=True,
        metavar="KEY=JSON",
    )
    max_concurrency: int = _option(
        64, "maximum number of requests at one time, at each server", kind=int, least=1, identity=False
    )
    rpm: int | None = _option(None, "maximum number of requests in any minute", kind=int, least=1, identity=False)
    tpm: int | None = _option(None, "maximum number of tokens in any minute", kind=int, least=1, identity=False)
    timeout: float = _option(600.0, "seconds after which a reply is given up", kind=float, least=0.001, identity=False)
    patience: float = _option(
        300.0, "seconds to keep trying while the server does not answer", kind=float, least=0, identity=False
    )
    batch_api: bool = _option(
        False,  # noqa: FBT003 - the default of the option
        "submit requests to the server's batch API and stop; the same command collects the answers (exit code 5)",
        kind=bool,
        identity=False,
    )
    max_reply: str = _option(
        "64MB", "size above which a reply is a failure: bytes, or with kB, MB or GB", metavar="SIZE", identity=False
    )


@dataclass(frozen=True, kw_only=True)
class PriceSettings(Options):
    """What the tokens of a server cost; no model is opened with these."""

    price_in: float | None = _price(None, "USD per million tokens read, for the cost in the summary")
    price_out: float | None = _price(None, "USD per million tokens written")
    price_cached: float | None = _price(
        None, "USD per million tokens read from the server's cache (default: --price-in)"
    )


@dataclass(frozen=True, kw_only=True)
class BatchSettings(Options):
    """How a run waits for the answers of batch APIs; no model is opened with this."""

    batch_wait: float | None = _option(
        None,
        "with --batch-api: look for answers every so many seconds until all are there, instead of stopping",
        kind=float,
        above=0,
        most=1_000_000,
        metavar="SECONDS",
        identity=False,
    )


def _of_role(role: str, name: str) -> Any:
    """Declare an option of the evaluated model again, for another role."""
    declared = {**ServerSettings.declared(), **PriceSettings.declared()}[name]
    return option_field(replace(declared, help=f"as {flag(name)}, for the {role}", group=f"server of the {role}"))


_of_judge, _of_rewriter = partial(_of_role, "judge"), partial(_of_role, "rewriter")


@dataclass(frozen=True, kw_only=True)
class JudgeServerSettings(Options):
    """The judge's account, request options and prices."""

    judge_base_url: tuple[str, ...] | None = _of_judge("base_url")
    judge_api_key_env: str | None = _of_judge("api_key_env")
    judge_header: tuple[str, ...] | None = _of_judge("header")
    judge_request_option: tuple[str, ...] | None = _of_judge("request_option")
    judge_price_in: float | None = _of_judge("price_in")
    judge_price_out: float | None = _of_judge("price_out")
    judge_price_cached: float | None = _of_judge("price_cached")


@dataclass(frozen=True, kw_only=True)
class RewriterServerSettings(Options):
    """The rewriter's account, request options and prices."""

    rewrite_base_url: tuple[str, ...] | None = _of_rewriter("base_url")
    rewrite_api_key_env: str | None = _of_rewriter("api_key_env")
    rewrite_header: tuple[str, ...] | None = _of_rewriter("header")
    rewrite_request_option: tuple[str, ...] | None = _of_rewriter("request_option")
    rewrite_price_in: float | None = _of_rewriter("price_in")
    rewrite_price_out: float | None = _of_rewriter("price_out")
    rewrite_price_cached: float | None = _of_rewriter("price_cached")


_PREFIXES = {"model": "", "judge": "judge_", "rewriter": "rewrite_"}
_HELPERS: dict[str, type[Options]] = {"judge": JudgeServerSettings, "rewriter": RewriterServerSettings}
_OF_ACCOUNT = frozenset({"base_url", "api_key_env", "header"})


@dataclass(frozen=True, kw_only=True)
class ServersSettings(RewriterServerSettings, JudgeServerSettings, PriceSettings, BatchSettings, ServerSettings):
    """The servers of all roles."""

    def server_options(self, role: str = "model", *, own_address: bool = False) -> dict[str, Any]:
        """Return the options that a model of this role is opened with; ``own_address``: its spec says where it is.

        A key and headers go with an address. A helper that has no address, key or headers of its own shares the account
        of ``--base-url``; without ``--base-url`` it shares nothing. Request options are never shared.
        """
        shared = self.changed(ServerSettings)
        if role not in _HELPERS:
            left_out = _OF_ACCOUNT if own_address and "base_url" in shared else frozenset()
            return {name: value for name, value in shared.items() if name not in left_out}
        given = {name.removeprefix(self.prefix(role)): value for name, value in self.changed_of(role).items()}
        own = {name: value for name, value in given.items() if name in ServerSettings.declared()}
        kept = frozenset() if own_address or "base_url" in own else frozenset({"base_url"})
        if kept and "base_url" in shared and not own.keys() & _OF_ACCOUNT:
            kept = _OF_ACCOUNT
        left_out = (_OF_ACCOUNT - kept) | {"request_option"}
        return {name: value for name, value in shared.items() if name not in left_out} | own

    @staticmethod
    def prefix(role: str) -> str:
        """Return what the names of a role's options begin with."""
        return _PREFIXES.get(role, "")

    def changed_of(self, role: str) -> dict[str, Any]:
        """Return the options that the user has set for a helper alone, by their full names."""
        return self.changed(_HELPERS[role]) if role in _HELPERS else {}

    @staticmethod
    def price_options(*roles: str) -> list[str]:
        """Return the names of the options that are prices: of the tokens of these roles, or of all."""
        prefixes = [_PREFIXES[role] for role in roles or _PREFIXES if role in _PREFIXES]
        return [f"{prefix}{name}" for prefix in prefixes for name in PriceSettings.declared()]

    def prices(self, role: str) -> tuple[float | None, float | None, float | None]:
        """Return what a million tokens cost that a role reads, writes, and reads from a cache; None: not given."""
        values = self.values()
        read, written, cached = map(values.get, self.price_options(role) or ("", "", ""))
        return read, written, cached
