"""Run in lm-eval's own environment: print how lm-eval reads the files that kshot exported.

python reads_exported.py FOLDER
"""

import json
import sys
from pathlib import Path


def main(folder: Path) -> None:
    from datasets import load_dataset
    from lm_eval.result_schema import EvalResults
    from lm_eval.utils import get_latest_filename, get_results_filenames, get_sample_results_filenames, make_table

    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*.json*")]
    results = json.loads((folder / get_latest_filename(get_results_filenames(names))).read_text(encoding="utf-8"))
    assert results.keys() <= EvalResults.__annotations__.keys(), results.keys() - EvalResults.__annotations__.keys()
    table = make_table(results)
    for task, row in results["results"].items():
        (name,) = [each for each in get_sample_results_filenames(names) if f"/samples_{task}_" in each]
        samples = load_dataset("json", data_files=str(folder / name), split="train", cache_dir=str(folder / "cache"))
        figures = [key for key in row if "," in key and "_stderr" not in key]
        for figure in figures:
            assert abs(sum(samples[figure.split(",")[0]]) / len(samples) - row[figure]) < 1e-9, figure
            assert f"{row[figure]:.4f}".rstrip("0") in table, table
    print(f"{len(results['results'])} tasks, {len(names)} files, and prints a table of {len(table.splitlines())} lines")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
