"""Files that evaluators read themselves beside the rows: data of the home's users, and replies of a base model."""

import json

SCIENCE = "data/SciReasoner"
MATERIALS = ("bulk_modulus_material", "conditional_generation/composition_material")
LABELS = ("positive", "negative")
ROWS = 4


def files_for(entry):
    """The files of an entry, by their path below the folder in which the command runs."""
    return {**_base_replies(entry), **_science(entry)}


def _base_replies(entry):
    given = entry.get("given_pred") or []
    said = {str(row): {"prediction": f"base reply {row}", "origin_prompt": "made up"} for row in range(ROWS)}
    given = given if isinstance(given, (list, tuple)) else [given]
    return {f"{_below(each['path'])}/{entry.get('abbr')}.json": json.dumps(said) for each in given}


def _science(entry):
    path, task = str(entry.get("path")), entry.get("task")
    if path.endswith("Conditional_generation"):
        rows = [
            {"input": "Na Cl", "output": f"<material> Na Cl <sg> <sg{220 + row}> </material>"} for row in range(ROWS)
        ]
        return {f"{SCIENCE}/Conditional_generation/{name}/test/data.json": json.dumps(rows) for name in MATERIALS}
    if path.endswith("SciReasoner-bio_instruction"):
        rows = [
            {"input": "two proteins", "output": ["yes", "no"][row % 2], "label": LABELS[row % 2], "task": task}
            for row in range(ROWS)
        ]
        told = {"type": "binary classification", "metrics": "MCC", "omics": "Multi-molecule"}
        top = f"{SCIENCE}/bio_instruction"
        return {
            f"{top}/{task}/test/data.json": json.dumps(rows),
            f"{top}/ec_labels.json": json.dumps(["1.1.1.1"]),
            f"{top}/register_tasks.json": json.dumps({"AntibodyAntigen": told, str(task): told}),
        }
    return {}


def _below(path):
    return str(path).removeprefix("./").rstrip("/")
