import sys, time, tempfile, random, cProfile, pstats
from pathlib import Path
import writing, torch
from workloads import Shape, requests
torch.set_num_threads(1)
rng = random.Random(0)
n=96
shape = Shape("writing", n, 350, (50, 70), 1, (1, 1))
asked = [(p, rng.randint(4, 64)) for p, _ in requests(shape, count=n)]
with tempfile.TemporaryDirectory() as place:
    model = writing.made(Path(place), "cuda", small=False)
    model.generation_config.eos_token_id = None
    print(writing.kshot_writes(model, place, asked[:16], 16, time.perf_counter))
    print("generate", writing.generate_writes(model, asked[:32], 32, time.perf_counter, known=False))
    for size in (32,):
        print(size, writing.kshot_writes(model, place, asked, size, time.perf_counter), flush=True)
    pr = cProfile.Profile(); pr.enable()
    print(writing.kshot_writes(model, place, asked, 32, time.perf_counter)); pr.disable()
    pstats.Stats(pr).sort_stats("cumtime").print_stats(45)
    pstats.Stats(pr).sort_stats("tottime").print_stats(30)
