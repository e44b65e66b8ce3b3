"""Scoring on a GPU: kshot end to end against plain transformers batches of the best size, on the same questions.

    python benchmarks/gpu.py              # a random Llama of 8 B shape in bfloat16, on CUDA
    python benchmarks/gpu.py --small      # a small one, anywhere
    python benchmarks/gpu.py --shapes "MMLU, letters" "MMLU, option texts"        # all of MMLU's shape: minutes
    python benchmarks/gpu.py --small --questions 114 --shapes "MMLU, letters"     # two questions a subject
    python benchmarks/gpu.py --compile --shapes "1,500-token prefix"              # also with compile=yes

kshot runs as its users run it: ``kshot.evaluate`` on a dataset class, with tokenising, journal and result files. The
model is made in memory, and loading counts for neither side. Plain batches are measured on a few questions and scaled
up. TFLOP/s count 2 × weights for each computed token, and attention; the share is that of a measured matmul. With
``--compile`` kshot runs once more, with compiled parts. What compiling takes is ``first_seconds``, the time of a first
run of 48 questions, which does not count. It prints a table, and JSON as its last line (``--json FILE`` also writes it,
after each shape). `gpu_lines.py` runs this and more, and compares with what is wanted.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from workloads import MMLU, SHAPES, Shape, requests, subject_of, tokenizer  # noqa: E402

MAIN = Shape("1,500-token prefix", 2000, 1500, (60, 60), 4, (8, 8))
TAIL = ("no prefix", "no prefix, one token", "short, all alike", "fifty options", "20 to 4,000 tokens")
DATASET = """
import json
from pathlib import Path
from kshot import MultipleChoiceDataset

class Given(MultipleChoiceDataset):
    instruction = "{{question}}"
    evaluation_set = "test"

    def load_raw_dataset(self, dataset_path, subset_name, *rest):
        file = Path(dataset_path) / f"{subset_name}.jsonl"
        self.evaluation_data = [json.loads(line) for line in file.read_text().splitlines()]

    def format_instance(self, row):
        return {"question": row["question"], "options": row["options"], "target_idx": 0}
"""


def llama_config(*, small: bool):
    """Return the configuration of the model: 8 B shape, or a small one."""
    import transformers

    sizes = (256, 704, 4, 4, 4) if small else (4096, 14336, 32, 32, 8)
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
    return transformers.LlamaConfig(
        **dict(zip(names, sizes, strict=True)),
        vocab_size=len(tokenizer()) if small else 128256,
        max_position_embeddings=8192,
        bos_token_id=0,
        eos_token_id=1,
        dtype="float32" if small else "bfloat16",
    )


def random_model(device: str, *, small: bool):
    """Make the model in memory."""
    import torch
    import transformers

    torch.manual_seed(0)
    with torch.device(device):
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32 if small else torch.bfloat16)
        model = transformers.LlamaForCausalLM(llama_config(small=small)).eval()
        torch.set_default_dtype(before)
    return model


def write_folder(folder: Path, *, small: bool) -> None:
    """Write a folder for the model: its configuration and its tokenizer, with empty weights."""
    import torch
    from safetensors.torch import save_file

    llama_config(small=small).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    save_file({"made_in_memory": torch.zeros(1)}, folder / "model.safetensors")


def matmul_rate(device: str, dtype) -> float:
    """Return the TFLOP/s of a large matrix product: what the device really gives."""
    import torch

    size = 8192 if device == "cuda" else 1024
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    rates = []
    for _ in range(5):
        seconds = time_of(device, lambda: [left @ right for _ in range(5)])
        rates.append(5 * 2 * size**3 / seconds / 1e12)
    return max(rates)


def time_of(device: str, work) -> float:
    """Return the wall-clock seconds of some work, until the device has finished it."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def write_subjects(shape: Shape, questions, place: Path) -> list[str]:
    """Write the dataset class and the questions, a file for each subject; return the names of the datasets."""
    (place / "given.py").write_text(DATASET)
    rows: dict[str, list[str]] = {}
    for index, (question, options) in enumerate(questions):
        subject = f"s{subject_of(shape, index, len(questions))}"
        rows.setdefault(subject, []).append(json.dumps({"question": question, "options": options}) + "\n")
    for subject, lines in rows.items():
        (place / f"{subject}.jsonl").write_text("".join(lines))
    return [f"{place}/given.py:Given:{subject}" for subject in rows]


def kshot_run(
    model, folder: Path, shape: Shape, questions, device: str, *, deterministic: bool = False, compiled: bool = False
) -> dict:
    """Run kshot.evaluate on the questions; only the loading of weights is replaced, by the model in memory."""
    import kshot
    from kshot.backends.hf import loading
    from kshot.backends.hf.model import Transformers

    loading.load_model = lambda *_, **__: model
    counts, notes = [], []
    close = Transformers.close
    spec = f"hf:{folder}" + (",compile=yes" if compiled else "")

    def count_and_close(self):
        counts.append(self.token_counts)
        notes.append(self.notes)
        close(self)

    Transformers.close = count_and_close
    try:
        with tempfile.TemporaryDirectory() as place:
            datasets = write_subjects(shape, questions, Path(place))
            options = {"dataset_path": place, "device": device, "ranking_type": "ppl_no_option"}
            options |= {"deterministic": True} if deterministic else {}
            # A few questions first, as for the plain batches: libraries load their kernels once.
            first = time_of(device, lambda: kshot.evaluate(spec, datasets[0], limit=48, **options))
            kernels = compiled_graphs()
            seconds = time_of(device, lambda: kshot.evaluate(spec, datasets, out=Path(place) / "run", **options))
            later = compiled_graphs() - kernels
            scored = len((Path(place) / "run" / "samples.jsonl").read_text().splitlines())
            if scored != len(questions):
                raise SystemExit(f"{scored} of {len(questions)} questions have a score")
    finally:
        Transformers.close = close
    last = counts[-1]
    row = {"seconds": seconds, "computed": last.computed, "asked": last.requested}
    if compiled:
        row |= {"first_seconds": first, "graphs": kernels, "graphs_in_run": later, "notes": list(notes[-1])}
    return row


def compiled_graphs() -> int:
    """Return how many graphs torch has compiled in this process."""
    from torch._dynamo.utils import counters

    return counters["stats"]["unique_graphs"]


def plain_run(model, questions, device: str, size: int) -> float:
    """Return the seconds of plain batches: sorted by length, padded, the one-token options of a prompt together."""
    import torch

    encode = tokenizer().encode

    def work() -> None:
        wanted: dict[tuple, list] = {}
        for prompt, options in questions:
            head = encode(prompt)
            for option in options:
                tail = encode(option)
                wanted.setdefault((*head, *tail[:-1]), []).append((len(head), tail))
        keys = sorted(wanted, key=len, reverse=True)
        for at in range(0, len(keys), size):
            batch = keys[at : at + size]
            width = len(batch[0])
            ids = torch.tensor([[*key, *[0] * (width - len(key))] for key in batch]).to(device)
            mask = torch.tensor([[1] * len(key) + [0] * (width - len(key)) for key in batch]).to(device)
            first = min(head for key in batch for head, _ in wanted[key]) - 1
            keep = torch.arange(first, width, device=device)
            with torch.inference_mode():
                logits = model(input_ids=ids, attention_mask=mask, use_cache=False, logits_to_keep=keep).logits
                sums = []
                for row, key in zip(logits, batch, strict=True):
                    for head, tail in wanted[key]:
                        some = row[head - 1 - first : head - 1 - first + len(tail)].float().log_softmax(-1)
                        sums.append(some.gather(1, torch.tensor(tail, device=device)[:, None]).sum())
                torch.stack(sums).tolist()

    return time_of(device, work)


def plain_tokens(questions) -> int:
    """Return how many tokens plain batches read for these questions: every distinct sequence by itself."""
    return sum(
        len({prompt + option.rpartition(" ")[0] for option in options}) * word_count(prompt)
        for prompt, options in questions
    )


def word_count(text: str) -> int:
    """Return the number of words, which are tokens here."""
    return text.count(" ") + 1


def first_questions(questions, tokens: int, sequences: int):
    """Return the first questions, up to this many tokens and sequences, but at least 8."""
    count = 8
    while (
        count < len(questions) and plain_tokens(questions[:count]) < tokens and count * len(questions[0][1]) < sequences
    ):
        count += 8
    return questions[:count]


def best_plain(model, questions, device: str, sizes) -> tuple[float, int]:
    """Return the seconds of plain batches and their best size; measured on a few questions, scaled by their tokens."""
    import torch

    some = first_questions(questions, 180_000, 2400)
    scale = plain_tokens(questions) / plain_tokens(some)
    found = []
    for size in sizes:
        try:
            plain_run(model, some[: max(size // 16, 2)], device, size)
            found.append((plain_run(model, some, device, size) * scale, size))
        except torch.OutOfMemoryError:  # noqa: PERF203 - each size may fail by itself
            torch.cuda.empty_cache()
    return min(found)


def flops(model, tokens: int, context: float) -> float:
    """Return the operations for this many tokens that attend to ``context`` others each."""
    config = model.config
    weights = sum(parameter.numel() for parameter in model.model.parameters()) - model.model.embed_tokens.weight.numel()
    return tokens * (2 * weights + 4 * config.num_hidden_layers * config.hidden_size * context)


def question_count(shape: Shape, given: argparse.Namespace) -> int:
    """Return how many questions of a shape are asked."""
    if shape in MMLU:
        return given.questions or (2 * shape.subjects if given.small else shape.questions)
    if shape is MAIN:
        return given.questions or (12 if given.small else MAIN.questions)
    return max(int(shape.questions * given.tail * (0.01 if given.small else 4)), 2)


def measure(shape: Shape, model, folder: Path, given: argparse.Namespace, rate: float) -> dict:
    """Measure one shape on both sides, and print its line of the table."""
    device = model.device.type
    questions = requests(shape, count=question_count(shape, given))
    prefix = (shape.prefix + (shape.longest_prefix or shape.prefix)) / 2
    lengths = [max(word_count(prompt) - prefix, 1) for prompt, _ in questions]
    context = prefix + sum(length**2 for length in lengths) / sum(lengths) / 2
    ours = kshot_run(model, folder, shape, questions, device, deterministic=given.deterministic)
    ways = [ours, *([kshot_run(model, folder, shape, questions, device, compiled=True)] if given.compile else ())]
    plain, size = best_plain(model, questions, device, (4,) if given.small else (32, 64, 128, 256, 512))
    for way in ways:
        way["tflops"] = flops(model, way["computed"], context) / way["seconds"] / 1e12
        way |= {"faster": plain / way["seconds"], "share": way["tflops"] / rate}
        print(
            f"{shape.name:<22}{len(questions):>6} questions  kshot {way['seconds']:>8.2f} s  plain {plain:>8.2f} s"
            f" (batches of {size})  {way['faster']:>6.1f} ×  {way['tflops']:>7.2f} TFLOP/s = {way['share']:.0%} of"
            f" matmul  {way['computed']:,} tokens (requested {way['asked']:,})"
            + (f"  compiled: {way['first_seconds']:.1f} s first, notes {way['notes']}" if way is not ours else ""),
            flush=True,
        )
    row = {"shape": shape.name, "questions": len(questions), **ours, "plain": plain, "plain_size": size}
    return row | ({"compiled": ways[1]} if given.compile else {})


def main() -> None:
    """Measure the main shape, the long tail, and all of MMLU's shape."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a small model, few questions")
    parser.add_argument("--questions", type=int, help="questions of the main shape and of MMLU's")
    parser.add_argument(
        "--tail", type=float, default=1.0, help="share of the long tail's questions; 0 leaves it and MMLU out"
    )
    parser.add_argument("--shapes", nargs="*", help="these shapes only")
    parser.add_argument("--deterministic", action="store_true", help="kshot computes each request by itself")
    parser.add_argument("--compile", action="store_true", help="kshot runs once more with compile=yes")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as place:
        model = random_model(device, small=given.small)
        write_folder(Path(place), small=given.small)
        rate = matmul_rate(device, model.dtype)
        print(
            f"{device}, {model.dtype}, {model.num_parameters() / 1e9:.2f} B weights, matmul {rate:.3g} TFLOP/s",
            flush=True,
        )
        shapes = [MAIN, *(SHAPES[name] for name in TAIL if given.tail > 0), *(MMLU if given.tail > 0 else ())]
        if given.shapes:
            shapes = [shape for shape in shapes if shape.name in given.shapes]
        rows = []
        for shape in shapes:
            rows.append(measure(shape, model, Path(place), given, rate))
            peak = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else None
            found = {
                "device": device,
                "torch": torch.__version__,
                "matmul_tflops": rate,
                "peak_gib": peak,
                "rows": rows,
            }
            body = json.dumps(found)
            if given.json:
                given.json.write_text(body + "\n")
    print(body)


if __name__ == "__main__":
    main()
