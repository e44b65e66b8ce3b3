"""Run in lm-eval's own environment: print how lm-eval reads the files that kshot exported.

python reads_exported.py FOLDER
"""

import json
import sys
from pathlib import Path


def is_mean(row: dict, metric: str, pipeline: str, samples) -> bool:
    """Whether a figure has a standard error, and then is the mean of the samples."""
    if row[f"{metric}_stderr,{pipeline}"] == "N/A":
        return False
    assert abs(sum(samples[metric]) / len(samples) - row[f"{metric},{pipeline}"]) < 1e-9, metric
    return True


def main(folder: Path) -> None:
    from datasets import load_dataset
    from lm_eval.result_schema import EvalResults
    from lm_eval.utils import get_latest_filename, get_results_filenames, get_sample_results_filenames, make_table

    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*.json*")]
    results = json.loads((folder / get_latest_filename(get_results_filenames(names))).read_text(encoding="utf-8"))
    assert results.keys() <= EvalResults.__annotations__.keys(), results.keys() - EvalResults.__annotations__.keys()
    table = make_table(results)
    means = 0
    for task in results["configs"]:
        (name,) = [each for each in get_sample_results_filenames(names) if f"/samples_{task}_" in each]
        samples = load_dataset("json", data_files=str(folder / name), split="train", cache_dir=str(folder / "cache"))
        for key, value in results["results"][task].items():
            metric, _, pipeline = key.partition(",")
            if pipeline and not metric.endswith("_stderr"):
                assert f"{value:.4f}".rstrip("0") in table, table
                means += is_mean(
                    results["results"][task],
                    metric,
                    pipeline,
                    samples.filter(lambda row, name=pipeline: row["filter"] == name),
                )
    assert means, "no figure is a mean"
    assert results["groups"].keys() == results["group_subtasks"].keys()
    print(f"{len(results['configs'])} tasks, {len(names)} files, and prints a table of {len(table.splitlines())} lines")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
