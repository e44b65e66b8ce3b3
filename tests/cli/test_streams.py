"""What reaches stdout and stderr while a run goes on."""

import json

from kshot.cli import main

PRINTING = """
import os, subprocess, sys
import kshot

print("imported")

class Printing(kshot.Watcher):
    def __init__(self): print("made")
    def begin(self, *_):
        print("begun")
        os.write(1, b"past Python\\n")
        subprocess.run([sys.executable, "-c", "print('a child')"], check=True)
    def scored(self, row): print("scored")
    def closed(self, *_): print("closed", flush=True)
"""
PRINTED = ["imported", "made", "begun", "past Python", "a child", "scored", "closed"]


def test_what_others_print_while_a_run_goes_on_is_not_on_stdout(tmp_path, capfd, monkeypatch):
    """With --json, stdout is JSON, whatever a logger prints, and however."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(PRINTING)
    run = ("run", "-d", "lookup:UR", "--length", "5", "--samples", "1", "--variant", "sep|small|bare", "--out", "r")
    for command in (run, ("score", "r")):
        assert main([*command, "--log", "mine.py:Printing", "--json"]) == 0
        out, err = capfd.readouterr()
        assert json.loads(out)["results"]
        assert set(PRINTED) - {"imported"} <= set(err.splitlines())
    assert main(["show", "r"]) == 0
    assert "run folder: r" in capfd.readouterr().out  # stdout is back
