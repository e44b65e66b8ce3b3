"""The settings that every front end reads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

from kshot.core.errors import UsageError
from kshot.core.options import Options, option


@dataclass(frozen=True, kw_only=True)
class RunSettings(Options):
    """Which samples a run takes, and the seed of its random choices."""

    seed: int = option(2023, "seed of every random choice", kind=int, least=0, most=2**32 - 1)
    limit: int | None = option(None, "evaluate only the first N samples of each subset", kind=int, least=1)


@dataclass(frozen=True, kw_only=True)
class LimitSettings(Options):
    """How much a run may spend: counted over all models and roles, and over all calls that continue the run."""

    max_requests: int | None = option(
        None,
        "stop when so many requests were sent, those of earlier calls for this run folder included (exit code 4)",
        kind=int,
        least=1,
        identity=False,
    )
    max_cost: float | None = option(
        None,
        "stop before the answers in this run folder cost more than so many USD; needs the prices (exit code 4)",
        kind=float,
        least=0,
        metavar="USD",
        identity=False,
    )


@dataclass(frozen=True, kw_only=True)
class ShardSettings(Options):
    """Which part of a run this one is, where several machines share the work and know nothing of each other."""

    shard: str | None = option(
        None,
        "ask only the K-th of N parts of the samples, such as 3/40; kshot merge joins the parts",
        metavar="K/N",
    )

    def __post_init__(self) -> None:
        """Check every value."""
        super().__post_init__()
        if self.shard is not None:
            Shard.parse(self.shard)


@dataclass(frozen=True, slots=True)
class Shard:
    """One of ``of`` parts of a run; ``number`` counts from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str, name: str = "--shard") -> Shard:
        """Read ``3/40``; messages call the text ``name``."""
        number, slash, of = text.partition("/")
        if slash and all(part.isascii() and part.isdecimal() for part in (number, of)):
            if len(of) > _DIGITS:
                what = f"{name} is {text!r:.60}; a run has at most {10**_DIGITS - 1:,} shards"
                raise UsageError(what, hint="Give each shard more samples.")
            if len(number) <= _DIGITS and 1 <= int(number) <= int(of):
                return cls(int(number), int(of))
        hint = "The first of 40 parts is 1/40, the last one 40/40."
        raise UsageError(f"{name} is {text!r:.60}; it must be K/N, with K from 1 to N", hint=hint)

    def __str__(self) -> str:
        """Return it as the user writes it."""
        return f"{self.number}/{self.of}"


_DIGITS = 6
"""A run has fewer than a million shards."""


@dataclass(frozen=True, kw_only=True)
class ProgramSettings(Options):
    """Whether programs that a model wrote may run where the system cannot confine them."""

    unsafe_programs: bool = option(
        False,  # noqa: FBT003 - the default of the option
        "run the programs that a model wrote (pass@k) even where the system cannot confine them; never on by itself",
        kind=bool,
        identity=False,
    )


@dataclass(frozen=True, kw_only=True)
class ResponseSettings(Options):
    """What is kept of the responses of the evaluated models."""

    token_logprobs: bool = option(
        False,  # noqa: FBT003 - the default of the option
        "keep the log-probability of each token of the replies and measured texts, where the model gives it",
        kind=bool,
        identity=False,
    )


FsyncMode: TypeAlias = Literal["always", "group", "never"]
"""When what was written goes to the disk: after each answer, within a second, or when the system likes."""


@dataclass(frozen=True, kw_only=True)
class FolderSettings(Options):
    """How a run folder is written."""

    fsync: FsyncMode = option(  # noqa: RUF009 - a field, as the other options are
        "group",
        "when the disk stores the answers: after each one (always), within a second (group), or when the system likes "
        "(never: a power cut may lose more)",
        choices=get_args(FsyncMode),
        identity=False,
    )
    report: bool = option(
        True,  # noqa: FBT003 - the default of the option
        "write report.html into the run folder when the run ends",
        kind=bool,
        identity=False,
    )


_option = partial(option, group="generation")


@dataclass(frozen=True, kw_only=True)
class GenerationSettings(Options):
    """How a model writes its replies."""

    max_tokens: int | None = _option(None, "maximum length of a reply, in tokens", kind=int, least=1)
    temperature: float | None = _option(
        None,
        "0 takes the most likely token; above 0, replies are sampled; or several",
        kind=float,
        least=0,
        sweeps=True,
    )
    top_p: float | None = _option(
        None,
        "sample only from the most likely tokens that hold this share of the probability",
        kind=float,
        above=0,
        most=1,
    )
    top_k: int | None = _option(None, "sample only from the N most likely tokens", kind=int, least=1)
    stop: tuple[str, ...] | None = _option(None, "end the reply before this text (repeatable)", repeat=True)
    sample_num: int = _option(
        1, "number of replies for each sample; the majority answer counts", kind=int, least=1, most=100_000
    )

    def sampling(self) -> dict[str, Any]:
        """Return the fields of ``Generate`` that the user has set, by name."""
        fields = {
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "stop": self.stop,
            "top_p": self.top_p,
            "top_k": self.top_k,
        }
        return {name: value for name, value in fields.items() if value is not None}
