"""Train the embedded model: ``python training/embedded/train.py --out DIR`` on one CUDA GPU (6 minutes on an H200).

It writes DIR/model.safetensors (fp16), config.json, tokenizer.json, tokenizer_config.json, and training.json (settings,
log, accuracy). ``--minutes M`` trains for a fixed time instead: learning rate and lengths then follow the clock.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "src")]

import evaluate  # noqa: E402 - found through the lines above
import model as models  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402, N812 - its usual name
import vocabulary  # noqa: E402
from batches import MAX_LENGTH, PromptRenderer  # noqa: E402

# rows, tokens per row, share of the steps, whether examples are as long as the query
BUCKETS = ((384, 193, 0.50, False), (224, 321, 0.33, False), (112, 641, 0.17, True))


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=17_000)
    parser.add_argument("--minutes", type=float, default=0.0, help="train this long instead, compilation included")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--scale", type=float, default=1.0, help="multiply the rows of a batch (small on a CPU)")
    parser.add_argument("--samples", type=int, default=200, help="records per cell of the final table")
    parser.add_argument("--lengths", default=",".join(map(str, evaluate.LENGTHS)))
    return parser.parse_args()


def optimizer(model: torch.nn.Module, rate: float, device: str) -> torch.optim.Optimizer:
    """Return AdamW with weight decay on matrices only."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.05}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), eps=1e-8, fused=device == "cuda")


def train(
    args: argparse.Namespace, model: models.Llama, renderer: PromptRenderer, device: str
) -> list[dict[str, float]]:
    """Run the schedule: warm-up, then cosine; query lengths grow from 16 to MAX_LENGTH over the first third."""
    opt = optimizer(model, args.lr, device)
    rng = random.Random(args.seed)

    def loss_of(tokens: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device, dtype=torch.bfloat16):
            logits = model(tokens[:, :-1])
        each = F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
        scale = weight[:, :-1].flatten()
        return (each * scale).sum() / scale.sum().clamp(min=1)

    compiled = torch.compile(loss_of, dynamic=False) if device == "cuda" else loss_of
    start, log, step, done = time.monotonic(), [], 0, 0.0
    while done < 1.0:
        rows, width, _, same = rng.choices(BUCKETS, [bucket[2] for bucket in BUCKETS])[0]
        longest = 16 + round((MAX_LENGTH - 16) * min(1.0, done / 0.33))
        tokens, weight = renderer.batch(max(2, int(rows * args.scale)), width, longest, same=same)
        loss = compiled(tokens, weight)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        rate = args.lr * min(1.0, (step + 1) / 500) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))
        for group in opt.param_groups:
            group["lr"] = rate
        opt.step()
        opt.zero_grad(set_to_none=True)
        step += 1
        done = (time.monotonic() - start) / (60 * args.minutes) if args.minutes else step / args.steps
        if step % 500 == 0 or step in (1, 10, 100):
            seconds = time.monotonic() - start
            log.append({"step": step, "loss": round(loss.item(), 4), "longest": longest, "seconds": round(seconds, 1)})
            print(log[-1], f"lr {rate:.2e} width {width}", flush=True)
    log.append({"step": step, "loss": round(loss.item(), 4), "seconds": round(time.monotonic() - start, 1)})
    return log


def main() -> None:
    """Train, round to fp16, save, evaluate what was saved."""
    args = arguments()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(args.seed)
    torch.backends.cuda.matmul.allow_tf32 = False
    tokenizer = vocabulary.build()
    model = models.Llama(models.Shape()).to(device)
    weights = sum(p.numel() for p in model.parameters())
    print(f"{weights:,} weights, {tokenizer.get_vocab_size()} tokens, {device}, torch {torch.__version__}", flush=True)
    log = train(args, model, PromptRenderer(tokenizer, device), device)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half().float())
    models.save(model, args.out)
    vocabulary.save(tokenizer, args.out)
    lengths = [int(n) for n in args.lengths.split(",")]
    results = evaluate.table(model, tokenizer, device, args.samples, lengths)
    print(evaluate.show(results, lengths), flush=True)
    settings = {name: str(value) for name, value in vars(args).items() if name != "out"}
    facts = {"settings": settings, "weights": weights, "log": log, "lengths": lengths, "accuracy": results}
    (args.out / "training.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
