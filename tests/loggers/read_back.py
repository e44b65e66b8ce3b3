"""Prints as JSON what wandb, MLflow and Trackio have stored in their local folders, read by their own means.

Run as ``python read_back.py WANDB_FOLDER MLFLOW_FOLDER``, with ``TRACKIO_DIR`` set. Each run: name, config, figures, state, …
"""

import json
import os
import struct
import sys
from pathlib import Path

BLOCK, HEADER = 32768, 7


def records(path):
    """Yield the records of a ``.wandb`` file, a log in LevelDB's format; wandb 0.31 itself reads it in Go alone."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, at, whole = path.read_bytes(), HEADER, b""
    assert content.startswith(b":W&B")
    while at + HEADER <= len(content):
        if BLOCK - at % BLOCK < HEADER:
            at += BLOCK - at % BLOCK
        _, length, kind = struct.unpack_from("<IHB", content, at)
        whole += content[at + HEADER : at + HEADER + length]
        at += HEADER + length
        if kind in {1, 4}:  # a full record, or the last piece of one
            record = Record()
            record.ParseFromString(whole)
            yield record
            whole = b""


def of_wandb(folder):
    for path in folder.glob("wandb/offline-run-*/run-*.wandb"):
        run = {"config": {}, "figures": {}, "summary": {}, "files": [], "exit": None, "notes": ""}
        for record in records(path):
            kind = record.WhichOneof("record_type")
            if kind == "run":
                run["started"] = record.run.start_time.ToNanoseconds()
                run |= {"name": record.run.display_name, "project": record.run.project, "tags": list(record.run.tags)}
                run["notes"] = record.run.notes or run["notes"]
                for update in record.run.config.update:
                    run["config"][update.key] = json.loads(update.value_json)
            elif kind == "history":
                for item in record.history.item:
                    run["figures"]["/".join(item.nested_key) or item.key] = json.loads(item.value_json)
            elif kind == "summary":
                for item in record.summary.update:
                    run["summary"]["/".join(item.nested_key) or item.key] = json.loads(item.value_json)
            elif kind == "exit":
                run["exit"] = record.exit.exit_code
        request = [each.request for each in records(path) if each.WhichOneof("record_type") == "request"]
        artifacts = [each.artifact for each in records(path) if each.WhichOneof("record_type") == "artifact"]
        artifacts += [each.log_artifact.artifact for each in request if each.HasField("log_artifact")]
        run["files"] = sorted(entry.path for artifact in artifacts for entry in artifact.manifest.contents)
        tables = list(path.parent.glob("files/media/table/*.json"))
        run["table"] = json.loads(tables[0].read_text()) if tables else None
        yield run


def of_mlflow(folder):
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=folder.as_uri())
    experiment = client.get_experiment_by_name("kshot")
    for run in reversed(client.search_runs([experiment.experiment_id])):
        files = {each.path: Path(run.info.artifact_uri.removeprefix("file://"), each.path).read_text()
                 for each in client.list_artifacts(run.info.run_id)}  # fmt: skip
        yield {"name": run.info.run_name, "config": run.data.params, "figures": run.data.metrics, "files": files,
               "state": run.info.status, "tags": run.data.tags}  # fmt: skip


def of_trackio():
    from trackio import Api
    from trackio.sqlite_storage import SQLiteStorage

    for run in Api().runs("kshot"):
        logs = SQLiteStorage.get_logs("kshot", run.name, run_id=run.id)
        figures = {name: value for entry in logs for name, value in entry.items()}
        files = SQLiteStorage.get_run_artifacts("kshot", run.name, run_id=run.id)
        yield {"name": run.name, "config": run.config, "figures": figures, "files": files}


if __name__ == "__main__":
    found = {
        "wandb": sorted(of_wandb(Path(sys.argv[1])), key=lambda run: run["started"]),  # names have seconds alone
        "mlflow": list(of_mlflow(Path(sys.argv[2]).resolve())),
        "trackio": list(of_trackio()),
    }
    json.dump(found, sys.stdout, default=str)
