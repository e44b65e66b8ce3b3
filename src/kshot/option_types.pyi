"""The options of ``evaluate`` and ``preview`` with their types, for editors and type checkers.

``tests/option_types.py`` writes this file from ``Settings``, and a test compares them.
"""

from collections.abc import Sequence
from os import PathLike
from typing import Literal, TypedDict


class EvaluateOptions(TypedDict, total=False):
    """Every option of ``kshot run``, with underscores. None stands for the default."""

    num_shots: int | Sequence[int] | None
    """Number of examples in the prompt, or several, such as 0,1,2,5."""

    retriever: str | list[str] | tuple[str, ...] | None
    """Retriever that chooses the examples, such as bm25,k1=1.2, or several (kshot list retrievers; default: one random
    draw)."""

    retriever_seeds: str | None
    """Repeat the run over these seeds of the retriever, such as 0..9, and report the spread."""

    max_example_tokens: int | None
    """Token budget for the examples; each is kept whole or left out (default: none; 1024 for LLMBox's files)."""

    seed: int | None
    """Seed of every random choice (default: 2023)."""

    limit: int | None
    """Evaluate only the first N samples of each subset."""

    instruction: str | list[str] | tuple[str, ...] | None
    """Prompt template to use instead of the dataset's own (repeatable: each is evaluated)."""

    system_prompt: str | None
    """System message of chat models; for base models the text before all else."""

    model_type: Literal["base", "chat"] | None
    """Whether prompts are text (base) or messages (chat); default: what a config says of its model, else base."""

    examples_as: Literal["turns", "text"] | None
    """How a chat model sees examples: as turns of the conversation, or as text in the one turn of the user (default:
    turns)."""

    chat_template: str | PathLike[str] | None
    """File with a jinja chat template to use instead of the model's own."""

    dtype: str | None
    """Number format of the weights: float32, bfloat16, float16, auto."""

    revision: str | None
    """Branch, tag or commit of a model on the hub."""

    trust_remote_code: bool | None
    """Allow Python code that comes with a model to run."""

    add_bos: bool | None
    """Put the beginning-of-text token first, whatever the tokenizer does."""

    max_length: int | None
    """Tokens of the context window, if not as many as the model has (for hf:)."""

    truncate: Literal["left"] | None
    """Cut prompts that do not fit into the context window from the left (default: they fail)."""

    device: str | None
    """Where the model runs: cpu, cuda, cuda:1."""

    device_map: str | None
    """Split a model that one device cannot hold: auto, balanced, balanced_low_0, sequential, or a JSON file with a
    device for each part (for hf:; extra: split)."""

    batch_size: int | None
    """Sequences computed together (default: 16, on a GPU 128; no effect with vllm:)."""

    deterministic: bool | None
    """Compute each request by itself, so that its numbers are the same bytes at any batch size and after any crash (for
    hf: and embedded; slower)."""

    engine_option: str | list[str] | tuple[str, ...] | None
    """Option of vLLM, such as tensor_parallel_size=2 (for vllm:; repeatable)."""

    dataset_path: str | PathLike[str] | None
    """Local file, local folder, or pattern with {subset} and {split}."""

    evaluation_set: str | None
    """Split to evaluate instead of the dataset's own; slices are allowed."""

    example_set: str | None
    """Split to take examples from instead of the dataset's own."""

    allow_download: bool | None
    """Let the code of a config's home, or of a task file, use the network, to download data."""

    data: str | PathLike[str] | Sequence[str | PathLike[str]] | None
    """Where the data is: FILE for lookup, FOLDER_OR_URL for passages, KEY=FILE_OR_FOLDER for a config or task file
    (repeatable)."""

    max_tokens: int | None
    """Maximum length of a reply, in tokens."""

    temperature: float | Sequence[float] | None
    """0 takes the most likely token; above 0, replies are sampled; or several."""

    top_p: float | None
    """Sample only from the most likely tokens that hold this share of the probability."""

    top_k: int | None
    """Sample only from the N most likely tokens."""

    stop: str | list[str] | tuple[str, ...] | None
    """End the reply before this text (repeatable)."""

    sample_num: int | None
    """Number of replies for each sample; the majority answer counts (default: 1)."""

    pass_at_k: int | list[int] | tuple[int, ...] | None
    """Values of k for pass@k, such as 1,10."""

    metric: str | list[str] | tuple[str, ...] | None
    """Metrics to use instead of the dataset's own, such as em,f1 or file.py:Class (kshot list metrics; repeatable)."""

    cleanup: str | None
    """Clean-up that takes the answer out of each reply, such as first-capital (kshot list cleanups)."""

    answer_pattern: str | None
    """Regular expression that takes the answer out of each reply: its first group, or all that it matches."""

    judge: str | None
    """Model that judges replies (for GPTEval)."""

    judge_rubric: str | PathLike[str] | None
    """What the judge is to look at, or a file that says it."""

    judge_scale: str | None
    """Lowest and highest rating of the judge, such as 1-5 (default: 1-10)."""

    judge_prompt: str | PathLike[str] | None
    """Jinja file that is the judge's prompt; it may use question, answer, reference, rubric, scale."""

    question: str | None
    """Column of the question."""

    options: str | list[str] | tuple[str, ...] | None
    """Columns of the options, such as A,B,C,D, or one column that holds them all."""

    answer: str | None
    """Column that names the right option, by its letter, its index or its text."""

    answer_as: Literal["letter", "index", "number", "text"] | None
    """How --answer names an option: by its letter, its index (from 0), its number (from 1) or its text (default: what
    fits all rows)."""

    target: str | None
    """Column of the right text, for questions without options."""

    ranking_type: (
        Literal["ppl_no_option", "ppl", "prob", "generation", "first_token", "auto"]
        | list[str]
        | tuple[str, ...]
        | None
    )
    """How multiple choice is decided; several with commas; auto takes the best way that the model offers (default:
    ppl_no_option)."""

    accuracy: Literal["acc", "acc_norm", "acc_bytes", "acc_token", "acc_mutual_info"] | None
    """The rule of Accuracy: options are compared by their log-likelihood (acc), by that per character (acc_norm), byte
    or token, or less that after a baseline (default: acc_norm for rows, the dataset's own or acc_token)."""

    letters: Literal["both", "spaced"] | None
    """The spellings of a letter that --ranking-type prob asks for: ' A' and 'A', or ' A' alone (default: both)."""

    description: str | None
    """Text that comes once, before all examples."""

    target_delimiter: str | None
    """Text between a question and its answer (default: a space, where there is no white space)."""

    fewshot_delimiter: str | None
    """Text between examples (default: a blank line)."""

    average: Literal["macro", "weighted"] | None
    """How subsets are averaged: each counts the same (macro), or by its number of samples (weighted) (default: macro,
    or the dataset's own)."""

    rolling: bool | None
    """Measure the target as a document by itself, in windows if it is longer than the model's."""

    rolling_start: Literal["auto", "bos", "eos", "none", "lm-eval"] | None
    """The token before a document: BOS, else EOS (auto); bos; eos; none: its first is not scored; lm-eval: auto, and a
    BOS that the tokenizer adds is scored after it (default: auto)."""

    cot: str | None
    """Reasoning style; it must be one that the dataset supports."""

    home: str | PathLike[str] | None
    """Source of OpenCompass or AISBench: what kshot does not know runs by its code, confined."""

    only: str | list[str] | tuple[str, ...] | None
    """Run only the entries of a config that have this abbr, or match this pattern."""

    keep_thoughts: bool | None
    """Leave the thoughts of a model in its replies for clean-ups and evaluators, as OpenCompass and AISBench do."""

    config_root: str | PathLike[str] | None
    """Older name of --home: the folder in which a config may read and import files."""

    lmeval_root: str | PathLike[str] | None
    """Folder of the task files: a clone of lm-evaluation-harness, or your own (default: the installed lm_eval)."""

    num_fewshot: int | Sequence[int] | None
    """Number of examples instead of the task file's own, 0 included, or several; -k N does the same."""

    length: int | list[int] | tuple[int, ...] | None
    """Lengths of the records, such as 10,20,30."""

    variant: str | list[str] | tuple[str, ...] | None
    """Prompt variant, such as 'sep|small|simple_rule'; 'all' means all 20 (repeatable)."""

    shots: int | Sequence[int] | None
    """Number of examples in the prompt, or several (default: 5)."""

    samples: int | None
    """Number of records for each length (default: 100)."""

    templates: str | PathLike[str] | None
    """File with texts to use instead of kshot's own."""

    reference: bool | None
    """Draw as the published code does; with its texts (--templates) the prompts are the same, byte for byte."""

    chunker: str | list[str] | tuple[str, ...] | None
    """How documents are cut: NAME:SIZE/OVERLAP or file.py:Class (kshot list chunkers; repeatable)."""

    queries: str | PathLike[str] | None
    """File with texts to search for instead of the questions, matched by their numbers."""

    rewrite: str | None
    """Language model that writes the query for each question."""

    within: str | None
    """Where each question searches: chapter (within its own document) or none (all documents; the default, unless the
    benchmark says otherwise)."""

    components: str | list[str] | tuple[str, ...] | None
    """Answer components that count: all, nonempty, explicit, essential."""

    measures: str | list[str] | tuple[str, ...] | None
    """Measures to report, such as AC_MRR@10,AC_Recall@2000t or nDCG@10."""

    method: Literal["search", "rag"] | None
    """Search finds passages; rag answers from them."""

    search: str | None
    """Search engine for --method rag (default: fts5)."""

    read: int | None
    """Number of passages that the model reads with --method rag (default: 5)."""

    workers: str | int | None
    """Run each evaluated model, or build its index, in N worker processes; auto: one for each GPU, or each core."""

    gpus_per_worker: int | None
    """GPUs that each worker sees (default: 1 where there are GPUs)."""

    ray: str | None
    """Run the workers on a Ray cluster: the one at HOST:PORT (of another user of this machine: OWNER@HOST:PORT);
    without an address the one that RAY_ADDRESS names, else a new one for this run alone."""

    base_url: str | list[str] | tuple[str, ...] | None
    """Address of the server, such as http://localhost:8000/v1; several serve the model side by side (repeatable)."""

    api_key_env: str | None
    """Environment variable that holds the server's key (default: OPENAI_API_KEY and ANTHROPIC_API_KEY, which go to
    OpenAI and Anthropic alone)."""

    header: str | list[str] | tuple[str, ...] | None
    """HTTP header to send, NAME=VALUE or NAME=env:VARIABLE; it is written nowhere (repeatable)."""

    request_option: str | list[str] | tuple[str, ...] | None
    """Parameter to add to each request, such as reasoning_effort=high or chat_template_kwargs.enable_thinking=false
    (repeatable)."""

    max_concurrency: int | None
    """Maximum number of requests at one time, at each server (default: 64)."""

    rpm: int | None
    """Maximum number of requests in any minute."""

    tpm: int | None
    """Maximum number of tokens in any minute."""

    timeout: float | None
    """Seconds after which a reply is given up (default: 600.0)."""

    patience: float | None
    """Seconds to keep trying while the server does not answer (default: 300.0)."""

    batch_api: bool | None
    """Submit requests to the server's batch API and stop; the same command collects the answers (exit code 5)."""

    max_reply: str | None
    """Size above which a reply is a failure: bytes, or with kB, MB or GB (default: 64MB)."""

    batch_wait: float | None
    """With --batch-api: look for answers every so many seconds until all are there, instead of stopping."""

    price_in: float | None
    """USD per million tokens read, for the cost in the summary."""

    price_out: float | None
    """USD per million tokens written."""

    price_cached: float | None
    """USD per million tokens read from the server's cache (default: --price-in)."""

    judge_base_url: str | list[str] | tuple[str, ...] | None
    """As --base-url, for the judge."""

    judge_api_key_env: str | None
    """As --api-key-env, for the judge."""

    judge_header: str | list[str] | tuple[str, ...] | None
    """As --header, for the judge."""

    judge_request_option: str | list[str] | tuple[str, ...] | None
    """As --request-option, for the judge."""

    judge_price_in: float | None
    """As --price-in, for the judge."""

    judge_price_out: float | None
    """As --price-out, for the judge."""

    judge_price_cached: float | None
    """As --price-cached, for the judge."""

    rewrite_base_url: str | list[str] | tuple[str, ...] | None
    """As --base-url, for the rewriter."""

    rewrite_api_key_env: str | None
    """As --api-key-env, for the rewriter."""

    rewrite_header: str | list[str] | tuple[str, ...] | None
    """As --header, for the rewriter."""

    rewrite_request_option: str | list[str] | tuple[str, ...] | None
    """As --request-option, for the rewriter."""

    rewrite_price_in: float | None
    """As --price-in, for the rewriter."""

    rewrite_price_out: float | None
    """As --price-out, for the rewriter."""

    rewrite_price_cached: float | None
    """As --price-cached, for the rewriter."""

    max_requests: int | None
    """Stop when so many requests were sent, those of earlier calls for this run folder included (exit code 4)."""

    max_cost: float | None
    """Stop before the answers in this run folder cost more than so many USD; needs the prices (exit code 4)."""

    token_logprobs: bool | None
    """Keep the log-probability of each token of the replies and measured texts, where the model gives it."""

    shard: str | None
    """Ask only the K-th of N parts of the samples, such as 3/40; kshot merge joins the parts."""

    fsync: Literal["always", "group", "never"] | None
    """When the disk stores the answers: after each one (always), within a second (group), or when the system likes
    (never: a power cut may lose more) (default: group)."""

    report: bool | None
    """Write report.html into the run folder when the run ends (default: True)."""

    unsafe_programs: bool | None
    """Run the programs that a model wrote (pass@k) even where the system cannot confine them; never on by itself."""
