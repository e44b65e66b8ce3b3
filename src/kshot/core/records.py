"""The records that flow through an evaluation: Sample → Prompt → Request → Response → Score.

Every record is immutable. Parts of a message that are not text are in ``core.content``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, Generic, Literal, TypeAlias, TypeVar, get_args

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

_without_ticket: dict[Any, Callable[[Any], tuple[Any, ...]]] = {
    cls: attrgetter(*(each.name for each in fields(cls) if each.name != "ticket")) for cls in get_args(Request)
}
"""Returns the fields of a request, of each type, apart from its ticket."""


def with_ticket(request: Request, ticket: int) -> Request:
    """Return a request with a ticket, as ``replace`` does, in half its time: every request passes here."""
    make: Callable[..., Request] = type(request)
    return make(*_without_ticket[make](request), ticket=ticket)


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
    context window was full before that). ``cut_tokens``: how many were cut from the left of a prompt that was too long.
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


# ---- Answers of methods that are more than a value ----

NO_MATCH = "no match"
"""The rule of a reply in which the user's pattern finds nothing."""


@dataclass(frozen=True, slots=True)
class Explained:
    """An answer with what led to it. A method may return it in place of the bare answer, which is what metrics see.

    ``why`` goes into the sample's row. ``others`` are the answers by other rules, by the name of the rule, which a
    metric with that ``rule`` scores. ``tied`` are the rules by which several options came first; "": the answer's own.
    ``values`` were measured with the answer: a metric with that ``rule`` gets its value in place of an answer.
    """

    answer: Any
    why: Mapping[str, Any] = field(default_factory=dict)
    others: Mapping[str, Any] = field(default_factory=dict)
    tied: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Repeats:
    """The answers of a sample that was asked several times, and the failures of its other repeats."""

    answers: tuple[Any, ...]
    failures: tuple[Failed, ...] = ()

    @property
    def majority(self) -> Any:
        """The most frequent answer; the first one given on a tie."""
        return self._first[0]

    @property
    def tied(self) -> bool:
        """Whether several answers are the most frequent ones."""
        return any(each != self._first[0] for each in self._first)

    @property
    def _first(self) -> list[Any]:
        """The most frequent answers, in the order given. Replies without an answer have no vote beside others."""
        votes = [each for each in self.answers if each != UNANSWERED] or list(self.answers)
        most = max(map(votes.count, votes))
        return [each for each in votes if votes.count(each) == most]


def bare(answer: Any) -> Any:
    """Return an answer, or each of several, without what led to it."""
    if isinstance(answer, Explained):
        return answer.answer
    return replace(answer, answers=tuple(map(bare, answer.answers))) if isinstance(answer, Repeats) else answer


@dataclass(frozen=True, slots=True)
class TextLikelihood:
    """How likely a text is: its negative log-likelihood in nats, and the tokens, words and bytes that it sums over.

    ``greedy``: whether the model would write it; None if that is not known. It unpacks as a pair: ``nll, tokens``.
    """

    nll: float
    tokens: int
    words: int
    bytes: int
    greedy: bool | None = None

    def __iter__(self) -> Iterator[float]:
        """Yield the negative log-likelihood and the number of tokens."""
        return iter((self.nll, self.tokens))


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


def resume(method: RequestGenerator, responses: Sequence[Response]) -> Sequence[Request]:
    """Send a method its responses, or raise their first failure where it asked; return what it asks next."""
    failed = next((response for response in responses if isinstance(response, Failed)), None)
    if failed is None:
        return method.send(responses)
    requests: Sequence[Request] = method.throw(AskFailed(failed, responses))
    return requests


def translated(
    method: RequestGenerator,
    request: Callable[[Request], Request] = lambda asked: asked,
    response: Callable[[Request, Response], Response] = lambda _, given: given,
) -> RequestGenerator:
    """Drive a method, changing each of its requests, and each response to it, on the way."""
    try:
        requests = next(method)
        while True:
            # The engine refuses anything but a list of requests.
            asked = [request(each) for each in requests] if isinstance(requests, (list, tuple)) else requests
            try:
                responses = yield asked
            except AskFailed as exc:
                exc.responses = tuple(map(response, asked, exc.responses))
                requests = method.throw(exc)
            except Exception as exc:  # noqa: BLE001 - whatever the engine raises is for the method
                requests = method.throw(exc)
            else:
                requests = method.send(tuple(map(response, asked, responses)))
    except StopIteration as stop:
        return stop.value
    finally:
        method.close()


def of_evaluated(request: Request) -> bool:
    """Whether a request is for the evaluated model, and not for a judge or another helper."""
    return request.role == "model"
