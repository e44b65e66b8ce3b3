"""Scoring on a GPU: kshot end to end against plain transformers batches of the best size, on the same questions.

    python benchmarks/gpu.py              # a random Llama of 8 B shape in bfloat16, on CUDA
    python benchmarks/gpu.py --small      # a small one, anywhere

kshot runs as its users run it: ``kshot.evaluate`` on a dataset class, with tokenising, journal and result files; the
model is made in memory, and loading is not counted for either side. Plain batches are measured on a few questions and
scaled up. TFLOP/s count 2 × weights for each token put through, and attention; the share is of a measured matmul.
Prints a table, and JSON as its last line (``--json FILE`` writes it too).
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

from workloads import SHAPES, Shape, requests, tokenizer  # noqa: E402

MAIN = Shape("1,500-token prefix", 2000, 1500, (60, 60), 4, (8, 8))
TAIL = ("no prefix", "no prefix, one token", "short, all alike", "fifty options", "20 to 4,000 tokens")
DATASET = """
import json
from pathlib import Path
from kshot import MultipleChoiceDataset

class Given(MultipleChoiceDataset):
    instruction = "{{question}}"
    evaluation_set = "test"

    def load_raw_dataset(self, dataset_path, *rest):
        self.evaluation_data = [json.loads(line) for line in Path(dataset_path).read_text().splitlines()]

    def format_instance(self, row):
        return {"question": row["question"], "options": row["options"], "target_idx": 0}
"""


def config(*, small: bool):
    """The configuration of the model: 8 B shape, or a small one."""
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


def made(folder: Path, device: str, *, small: bool):
    """The model in memory, and a folder that names it: its configuration and its tokenizer, with empty weights."""
    import torch
    import transformers
    from safetensors.torch import save_file

    settings = config(small=small)
    kind = torch.float32 if small else torch.bfloat16
    torch.manual_seed(0)
    with torch.device(device):
        before = torch.get_default_dtype()
        torch.set_default_dtype(kind)
        model = transformers.LlamaForCausalLM(settings).eval()
        torch.set_default_dtype(before)
    settings.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    save_file({"made_in_memory": torch.zeros(1)}, folder / "model.safetensors")
    return model


def matmul_rate(device: str, kind) -> float:
    """TFLOP/s of a large matrix product: what the device really gives."""
    import torch

    size = 8192 if device == "cuda" else 1024
    left, right = (torch.randn(size, size, device=device, dtype=kind) for _ in "ab")
    rates = []
    for _ in range(5):
        seconds = clocked(device, lambda: [left @ right for _ in range(5)])
        rates.append(5 * 2 * size**3 / seconds / 1e12)
    return max(rates)


def clocked(device: str, work) -> float:
    """Wall-clock seconds of some work, all of it finished."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def kshot_run(model, folder: Path, asked, device: str) -> dict:
    """kshot.evaluate on the questions; only the loading of weights is replaced, by the model in memory."""
    import kshot
    from kshot.backends.hf import loading as hf_loading
    from kshot.backends.hf import model as transformers

    hf_loading.load_model = lambda *_, **__: model
    done = []
    close = transformers.Transformers.close

    def watched(self):
        done.append(self.work)
        close(self)

    transformers.Transformers.close = watched
    try:
        with tempfile.TemporaryDirectory() as place:
            data = Path(place) / "asked.jsonl"
            data.write_text("".join(json.dumps({"question": q, "options": o}) + "\n" for q, o in asked))
            (Path(place) / "given.py").write_text(DATASET)
            options = {"dataset_path": str(data), "device": device, "ranking_type": "ppl_no_option"}
            # A few questions first, as for the plain batches: libraries load their kernels once.
            kshot.evaluate(f"hf:{folder}", f"{place}/given.py:Given", limit=48, **options)
            seconds = clocked(
                device,
                lambda: kshot.evaluate(f"hf:{folder}", f"{place}/given.py:Given", out=Path(place) / "run", **options),
            )
    finally:
        transformers.Transformers.close = close
    work = done[-1]
    return {"seconds": seconds, "computed": work.computed, "trie": work.distinct, "asked": work.requested}


def plain_run(model, asked, device: str, size: int) -> float:
    """Seconds of plain batches: sorted by length, padded, one-token options of a prompt scored together."""
    import torch

    words = tokenizer()

    def work() -> None:
        wanted: dict[tuple, list] = {}
        for prompt, options in asked:
            head = words.encode(prompt)
            for option in options:
                tail = words.encode(option)
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

    return clocked(device, work)


def read(asked) -> int:
    """Tokens that a plain loop reads for these questions: every different sequence by itself."""
    return sum(
        len({prompt + option.rpartition(" ")[0] for option in options}) * words(prompt) for prompt, options in asked
    )


def words(text: str) -> int:
    """Words, which are tokens here."""
    return text.count(" ") + 1


def some_of(asked, tokens: int, sequences: int):
    """The first questions, up to so many tokens and sequences: at least 8 of them."""
    count = 8
    while count < len(asked) and read(asked[:count]) < tokens and count * len(asked[0][1]) < sequences:
        count += 8
    return asked[:count]


def best_plain(model, asked, device: str, sizes) -> tuple[float, int]:
    """Seconds of plain batches, at the best size that fits; measured on some questions, scaled by their tokens."""
    import torch

    some = some_of(asked, 180_000, 2400)
    found = []
    for size in sizes:
        try:
            plain_run(model, some[: max(size // 16, 2)], device, size)
            found.append((plain_run(model, some, device, size) * read(asked) / read(some), size))
        except torch.OutOfMemoryError:  # noqa: PERF203 - each size for itself
            torch.cuda.empty_cache()
    return min(found)


def flops(model, tokens: int, context: float) -> float:
    """Operations for this many tokens that each look at so many others."""
    settings = model.config
    weights = sum(one.numel() for one in model.model.parameters()) - model.model.embed_tokens.weight.numel()
    return tokens * (2 * weights + 4 * settings.num_hidden_layers * settings.hidden_size * context)


def main() -> None:
    """Measure the main shape and the long tail."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a small model, few questions")
    parser.add_argument("--questions", type=int, help="questions of the main shape")
    parser.add_argument("--tail", type=float, default=1.0, help="share of the long tail's questions; 0 leaves it out")
    parser.add_argument("--shapes", nargs="*", help="these shapes only")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = []
    with tempfile.TemporaryDirectory() as place:
        model = made(Path(place), device, small=given.small)
        rate = matmul_rate(device, model.dtype)
        print(
            f"{device}, {model.dtype}, {model.num_parameters() / 1e9:.2f} B weights, matmul {rate:.3g} TFLOP/s",
            flush=True,
        )
        shapes = [MAIN, *(SHAPES[name] for name in TAIL if given.tail > 0)]
        if given.shapes:
            shapes = [shape for shape in shapes if shape.name in given.shapes]
        for shape in shapes:
            count = shape.questions if shape is not MAIN else given.questions or (12 if given.small else MAIN.questions)
            count = count if shape is MAIN else max(int(count * given.tail * (0.01 if given.small else 4)), 2)
            asked = requests(shape, count=count)
            ours = kshot_run(model, Path(place), asked, device)
            plain, size = best_plain(model, asked, device, (4,) if given.small else (32, 64, 128, 256, 512))
            lengths = [words(prompt) - shape.prefix for prompt, _ in asked]
            context = shape.prefix + sum(length**2 for length in lengths) / sum(lengths) / 2
            reached = flops(model, ours["computed"], context) / ours["seconds"] / 1e12
            row = {"shape": shape.name, "questions": count, **ours, "plain": plain, "plain_size": size}
            row |= {"faster": plain / ours["seconds"], "tflops": reached, "share": reached / rate}
            rows.append(row)
            print(
                f"{shape.name:<22}{count:>6} questions  kshot {ours['seconds']:>8.2f} s  plain {row['plain']:>8.2f} s"
                f" (batches of {size})  {row['faster']:>6.1f} ×  {reached:>7.2f} TFLOP/s = {row['share']:.0%} of matmul"
                f"  {ours['computed']:,} tokens (trie {ours['trie']:,}, asked {ours['asked']:,})",
                flush=True,
            )
        peak = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else None
    body = json.dumps({"device": device, "matmul_tflops": rate, "peak_gib": peak, "rows": rows})
    if given.json:
        given.json.write_text(body + "\n")
    print(body)


if __name__ == "__main__":
    main()
