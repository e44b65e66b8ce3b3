"""The settings of a model behind a server."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from kshot.core.options import Options, option

_option = partial(option, group="servers (openai:, anthropic:)")


@dataclass(frozen=True, kw_only=True)
class ServerSettings(Options):
    """Where a server is, and how it is asked."""

    base_url: str | None = _option(None, "address of the server, such as http://localhost:8000/v1", metavar="URL")
    max_concurrency: int = _option(64, "maximum number of requests at one time", kind=int, least=1, identity=False)
    rpm: int | None = _option(None, "maximum number of requests in any minute", kind=int, least=1, identity=False)
    tpm: int | None = _option(None, "maximum number of tokens in any minute", kind=int, least=1, identity=False)
    timeout: float = _option(600.0, "seconds after which a reply is given up", kind=float, least=0.001, identity=False)
    patience: float = _option(
        300.0, "seconds to keep trying while the server does not answer", kind=float, least=0, identity=False
    )


@dataclass(frozen=True, kw_only=True)
class PriceSettings(Options):
    """What the tokens of a server cost; no model is opened with these."""

    price_in: float | None = _option(
        None, "USD per million tokens read, for the cost in the summary", kind=float, least=0, identity=False
    )
    price_out: float | None = _option(None, "USD per million tokens written", kind=float, least=0, identity=False)
    judge_price_in: float | None = _option(
        None, "USD per million tokens that the judge reads", kind=float, least=0, identity=False
    )
    judge_price_out: float | None = _option(
        None, "USD per million tokens that the judge writes", kind=float, least=0, identity=False
    )
