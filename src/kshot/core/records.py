"""The records that flow through an evaluation: Sample → Prompt → Request → Response → Score.

Every record is immutable. Parts of a message that are not text are in ``core.content``.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from kshot.core.content import Content, MediaPart, content_text, glue, media_in

T = TypeVar("T")

Role: TypeAlias = Literal["system", "user", "assistant"]
Row: TypeAlias = Mapping[str, Any]
"""One row of a dataset, as its file has it."""

ResultRow: TypeAlias = dict[str, Any]
"""One figure of ``summary.json``, or one line of ``samples.jsonl``."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation: a text, or parts (text, images, sound, video) in the order of reading."""

    role: Role
    content: Content

    @property
    def text(self) -> str:
        """What it says as text; parts that are none are shown in words."""
        return content_text(self.content)


def plain(messages: Sequence[Message]) -> str:
    """Write a conversation as a base model reads it: each answer follows its question, a blank line ends each round."""
    text = ""
    for index, message in enumerate(messages):
        if index and message.role == "assistant":
            text = glue(text, message.text)
        else:
            text += ("\n\n" if index else "") + message.text
    return text.strip()


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model reads: text, or messages for a chat model (then ``text`` is the conversation as plain text)."""

    text: str = ""
    messages: tuple[Message, ...] = ()
    opened: bool = False
    """Whether the last message, which is the assistant's, begins the reply: the model goes on after it."""
    rules: Literal["kshot", "lm-eval"] = "kshot"
    """Whose rules turn it, and a text scored after it, into tokens: see docs/lmeval.md."""

    def __post_init__(self) -> None:
        """Fill in the plain text of a conversation."""
        if self.messages and not self.text:
            object.__setattr__(self, "text", plain(self.messages))

    @property
    def media(self) -> list[MediaPart]:
        """The images, sounds and videos of its messages."""
        return media_in(message.content for message in self.messages)


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer whose likelihood is computed after a prompt, and after a baseline prompt if there is one.

    ``option`` is the answer without the delimiter before it: its length counts. None: the text without white space.
    ``spaced``: white space at the end of the prompt is measured with the text.
    """

    prompt: Prompt
    text: str
    baseline: Prompt | None = None
    option: str | None = None
    spaced: bool = False


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A conversation with a model: the prompt up to the first question, then the user's later turns."""

    prompt: Prompt
    turns: tuple[str, ...] = ()


# ---- What counts as right: one class for each kind of reference ----


@dataclass(frozen=True, slots=True)
class Answers:
    """Any one of these texts is right."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Option:
    """This index into ``Sample.choices`` is right."""

    index: int


@dataclass(frozen=True, slots=True)
class AnyOption:
    """Any one of these indices into ``Sample.choices`` is right."""

    indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Graded:
    """Document id → relevance grade, as in TREC qrels."""

    grades: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Quotes, grouped by the component of the answer that they support."""

    parts: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Gold:
    """Any other reference value, for a metric that can use it."""

    value: Any


Target: TypeAlias = Answers | Option | AnyOption | Graded | Evidence | Gold


UNANSWERED = -1
"""The answer where no option is chosen: none can be read from the reply, or several are equally likely."""


def reference(target: Target) -> Any:
    """Return the reference that a metric compares with: an index, a list of texts, or a value of the dataset."""
    match target:
        case Option(index):
            return index
        case AnyOption(indices):
            return list(indices)
        case Answers(texts):
            return list(texts)
        case Gold(value):
            return value
        case Graded(grades):
            return grades
        case Evidence(parts):
            return parts


@dataclass(frozen=True, slots=True)
class Sample:
    """One item of a dataset, before it becomes a prompt; ``position`` is the number of its row.

    ``row`` is what the sample was made from, before anyone formatted it: runs are compared on the same rows, however
    they are put into words. Without it, fields, target and choices are the question.
    """

    id: str
    fields: Mapping[str, Any]
    target: Target | None = None
    choices: tuple[str, ...] = ()
    category: str | None = None
    position: int = 0
    row: Mapping[str, Any] | None = None


# ---- Requests ----


def _ticket() -> int:
    """Declare the ticket of a request: the engine numbers what it queues, and finds the request of an answer by it.

    It is no part of what is asked, and survives pickling, so an answer from another process still fits.
    """
    return field(default=0, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Generate:
    """Continue the prompt. Equal requests are asked once; repeats differ by ``replica``.

    ``seed`` matters only if ``temperature`` is above 0. Fields that are ``None`` are left to the model. ``role`` says
    which model answers: the evaluated one (``model``), ``judge`` or ``rewriter``. An empty text in ``stop`` is left
    out: it would end every reply before it begins. ``token_logprobs``: those of the reply are wanted too, if possible.
    """

    prompt: Prompt
    max_tokens: int = 256
    temperature: float = 0.0
    stop: tuple[str, ...] = ()
    top_p: float | None = None
    top_k: int | None = None
    repetition_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    seed: int | None = None
    replica: int = 0
    role: str = "model"
    token_logprobs: bool = False
    ticket: int = _ticket()

    def __post_init__(self) -> None:
        """Leave empty stop texts out."""
        if "" in self.stop:
            object.__setattr__(self, "stop", tuple(text for text in self.stop if text))


RollingStart: TypeAlias = Literal["auto", "bos", "eos", "none", "lm-eval"]
"""What predicts the first token of a document: BOS or else EOS, BOS, EOS, or nothing (the token is not scored).

``lm-eval`` is ``auto`` before the document as the tokenizer itself encodes it: a BOS that it adds is scored, after BOS.
"""


@dataclass(frozen=True, slots=True)
class Loglik:
    """Compute the log-probability of each continuation after the prompt (an empty prompt: of the text itself).

    ``listed``: each continuation is one token, and a bound is enough for one that is not among the likeliest.
    ``rolling``: each continuation is a document, which may be longer than the model's window, and the prompt is empty.
    It says what stands before the first token: see ``RollingStart``.
    ``spaced``: white space at the end of the prompt is scored with each continuation. ``token_logprobs``: as above.
    """

    prompt: Prompt
    continuations: tuple[str, ...]
    role: str = "model"
    listed: bool = False
    rolling: RollingStart | None = None
    spaced: bool = False
    token_logprobs: bool = False
    ticket: int = _ticket()


@dataclass(frozen=True, slots=True)
class Search:
    """Find the ``k`` best passages for the query, among those that match ``where``.

    ``topic`` is the question's id: recorded runs are found by it.
    """

    query: str
    k: int
    where: tuple[tuple[str, str], ...] = ()
    topic: str = ""
    role: str = "corpus"
    ticket: int = _ticket()


Request: TypeAlias = Generate | Loglik | Search


# ---- Responses ----

MOST_TOKENS = 2**53
"""No count of tokens is larger: beyond this, neither JSON nor a sum of floats is exact."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens read and written for one response; ``cached_tokens`` of those read came from the server's cache."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = field(default=0, compare=False)


TokenLogprobs: TypeAlias = tuple[tuple[str, float], ...]
"""The tokens of a text, each with the natural log-probability that the model itself gives it (at temperature 1).

The texts of the tokens add up to the text where possible; tokens that are parts of one character stand as one.
"""


@dataclass(frozen=True, slots=True)
class Generated:
    """Text that a model wrote, its stop reason, and its reasoning, kept apart.

    Stop reasons: ``stop`` (it came to its end), ``length`` (it has all tokens that were asked for), ``window`` (the
    context window was full before that). ``cut_tokens``: so many were cut from the left of a prompt that was too long.
    ``token_logprobs``: those of ``text``, if asked for and given. ``whole``: the reply before thoughts were taken out.
    """

    text: str
    stop_reason: str = "stop"
    usage: Usage | None = None
    reasoning: str = ""
    cut_tokens: int = 0
    token_logprobs: TokenLogprobs | None = None
    whole: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Likelihood:
    """The summed natural log-probability of one continuation, and the number of its tokens.

    ``greedy``: whether each token is the likeliest after those before it. What the model does not say is None.
    """

    logprob: float
    tokens: int
    greedy: bool | None = None
    token_logprobs: TokenLogprobs | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """One likelihood for each continuation, in order; at most ``cut_tokens`` were cut from the left of the prompt."""

    likelihoods: tuple[Likelihood, ...]
    usage: Usage | None = None
    cut_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Hit:
    """One passage that was found."""

    id: str
    score: float
    text: str = ""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Passages, best first."""

    hits: tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """No answer. A failure is counted, shown, and asked again in the next run; it is never scored as 0."""

    kind: str
    message: str
    retryable: bool = False


Response: TypeAlias = Generated | Scored | Ranking | Failed


@dataclass(frozen=True, slots=True)
class Absent:
    """What a metric gives for a name that a sample does not tell; the figure of the task is then left out."""

    why: str


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """The outcome of one sample: its answer (or ``Failed``), and every request with its response."""

    item: T
    answer: Any
    exchanges: tuple[tuple[Request, Response], ...]
    recalled: bool = field(default=False, compare=False)  # every response was stored before

    @property
    def failed(self) -> bool:
        """Whether there is no answer."""
        return isinstance(self.answer, Failed)


# ---- Methods: generators of requests ----

RequestGenerator: TypeAlias = Generator[Sequence[Request], Sequence[Any], Any]
"""What a method returns: a generator that yields requests, receives their responses, and returns the answer."""


class AskFailed(Exception):  # noqa: N818 - it carries a Failed, and is named after it
    """Raised inside a method at the ``yield`` whose request got no answer; a method may catch it.

    ``responses`` are those to all requests of that ``yield``, in order, so that those that did not fail can be used.
    """

    def __init__(self, failed: Failed, responses: Sequence[Response] = ()) -> None:
        """Carry the first failure, and the responses that came with it."""
        super().__init__(failed.message)
        self.failed = failed
        self.responses = tuple(responses) or (failed,)


def ask(*requests: Request) -> Generator[Sequence[Request], Sequence[Any], tuple[Any, ...]]:
    """Yield requests to the engine; their responses come back in the same order."""
    replies = yield requests
    return tuple(replies)
