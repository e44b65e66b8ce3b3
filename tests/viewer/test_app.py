"""What the pages of a viewer are answered."""

import json
import math
import os
import shutil

import pytest

from kshot import __version__
from tests.finished_runs import finished, task
from tests.viewer.conftest import app_over, items
from tests.viewer.made_runs import waited

pytestmark = pytest.mark.needs("starlette", "uvicorn")


def test_the_page_names_scripts_and_styles_that_are_there(ask):
    import re

    page = ask("/").body.decode()
    assert 'data-source="server"' in page
    assert "style=" not in page
    names = re.findall(r'(?:src|href)="(web/[^"]+)"', page)
    assert "web/app.js" in names
    for name in names:
        answer = ask(f"/{name}")
        assert answer.status == 200
        kinds = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}
        assert answer.headers["content-type"] == kinds[name.rpartition(".")[2]]


@pytest.mark.parametrize(
    "path",
    [
        "/web/",
        "/web/LICENSES.txt",
        "/web/../app.py",
        "/web/%2e%2e/markup.py",
        "/web/report.js%00",
        "/etc/passwd",
        "/web/x.js",
    ],
)
def test_nothing_else_is_served(ask, path):
    answer = ask(path)
    assert answer.status == 404
    assert answer.body == b"kshot view: there is nothing at this address\n"


def test_the_list_of_runs_has_the_newest_first_and_says_what_is_damaged(ask, runs):
    found = ask("/api/runs").json()
    assert found["version"] == __version__
    assert found["folders"] == [str(runs)]
    lines = {line["key"]: line for line in found["runs"]}
    assert set(lines) == {"first", "second", "deep--other", "damaged"}
    assert lines["damaged"]["state"] == "damaged"
    assert lines["damaged"]["why"] == "summary.json is damaged"
    first = lines["first"]
    assert first["name"] == str(runs / "first")
    assert (first["state"], first["samples"], first["figures"], first["failed"]) == ("done", True, 1, 1)
    assert first["headline"] == {
        "task": "sums",
        "model": "model",
        "metric": "Right",
        "value": 50.0,
        "mark": "†",
        "marked": "1 of 5 samples failed",
        "ci95": first["headline"]["ci95"],
        "n": 4,
        "bounds": [0.0, 100.0],
        "higher_is_better": True,
    }


def test_what_has_not_changed_is_not_sent_again(ask):
    for path in ("/api/runs", "/api/runs/first"):
        first = ask(path)
        again = ask(path, If_None_Match=first.headers["etag"])
        assert (again.status, again.body) == (304, b"")
        assert ask(path, If_None_Match='"other"').status == 200


def test_a_run_has_its_sections_and_settings(ask, runs):
    found = ask("/api/runs/first").json()
    assert found["key"] == "first"
    assert {"settings", "versions", "sessions", "spent", "files"} <= found["details"].keys()
    assert found["latest"] == []
    assert all(set(each) == {"id", "title", "html"} for each in found["sections"])
    assert found["sections"]


def test_a_damaged_run_says_what_is_wrong(ask):
    found = ask("/api/runs/damaged").json()
    assert (found["state"], found["why"]) == ("damaged", "summary.json is damaged")
    assert [each["id"] for each in found["sections"]] == ["unfinished"]


def test_samples_are_listed_filtered_and_shown(ask):
    assert ask.ready("/api/runs/first/facets")["verdicts"] == {
        "right": 2, "partly": 0, "wrong": 2, "failed": 1, "unrated": 0,
    }  # fmt: skip
    found = ask.ready("/api/runs/first/samples?verdict=wrong&limit=1&offset=1")
    assert (found["total"], found["matching"]) == (5, 2)
    assert [row["id"] for row in found["rows"]] == ["q3"]
    shown = ask(f"/api/runs/first/samples/{found['rows'][0]['n']}").json()
    assert shown["sample"]["id"] == "q3"
    assert shown["sample"]["prompt"]["messages"][-1]["content"] == "sums q3 says 0.0"
    assert shown["others"] == []
    assert [row["id"] for row in ask.ready("/api/runs/first/samples?q=q2")["rows"]] == ["q2"]


def test_a_sample_is_shown_beside_the_same_one_of_another_run(ask):
    won = ask.ready("/api/runs/second/samples?other=first&flip=won")
    assert [(row["id"], row["flip"]) for row in won["rows"]] == [("q1", "won")]
    shown = ask(f"/api/runs/second/samples/{won['rows'][0]['n']}?other=first").json()
    assert shown["sample"]["verdict"] == "right"
    assert [(each["id"], each["verdict"]) for each in shown["others"]] == [("q1", "wrong")]


def test_runs_are_compared_and_the_first_is_the_baseline(ask):
    found = ask.ready("/api/compare?a=first&b=second")
    assert found["error"] is None
    assert (found["a"]["key"], found["b"]["key"]) == ("first", "second")
    assert [found[name] for name in ("won", "lost", "both", "neither")] == [1, 1, 1, 1]
    assert found["sections"][0]["html"]


def test_runs_that_cannot_be_compared_say_why(ask):
    found = ask.ready("/api/compare?a=first&b=deep--other")
    assert "the runs have no task in common" in found["error"]
    assert found["sections"] == []
    assert "summary.json is damaged" in ask.ready("/api/compare?a=first&b=damaged")["error"]


KEYS = ["..", "%2e%2e", "first%2f..", "first%00", "nobody", "x" * 5000, "%ff", "a b", "first/../second", "~", "C:", "."]


@pytest.mark.parametrize("key", KEYS)
def test_a_key_that_no_run_has_is_nothing_more(ask, key):
    for path in (
        f"/api/runs/{key}",
        f"/api/runs/{key}/samples",
        f"/api/runs/{key}/samples/0",
        f"/api/runs/{key}/facets",
    ):
        answer = ask(path)
        assert answer.status == 404, path
        assert "error" in answer.json()
        assert len(answer.body) < 400
    for path in (f"/api/compare?a={key}&b=first", f"/api/runs/first/samples?other={key}"):
        assert ask(path).status == 404


BAD = [
    "/api/runs/first/samples?offset=-1",
    "/api/runs/first/samples?offset=1e3",
    "/api/runs/first/samples?limit=x",
    "/api/runs/first/samples?limit=%D9%A3",
    "/api/runs/first/samples?verdict=good",
    "/api/runs/first/samples?sort=size",
    "/api/runs/first/samples?flip=won",
    "/api/runs/first/samples/x",
    "/api/runs/first/samples/-1",
    "/api/runs/first/samples/99999",
    "/api/runs/first/samples?metric=nothing",
    "/api/runs/first/facets?metric=nothing",
    "/api/compare",
    "/api/compare?a=first",
]


@pytest.mark.parametrize("path", BAD)
def test_what_makes_no_sense_is_told_so(ask, path):
    ask.ready("/api/runs/first/facets")
    answer = ask(path)
    assert answer.status == 400
    assert answer.json()["error"]


def test_samples_that_cannot_be_read_say_where(tmp_path):
    finished(tmp_path / "run", task("sums", items([100, 0])))
    with (tmp_path / "run" / "samples.jsonl").open("a") as file:
        file.write("no JSON\n")
    ask, routes = app_over(tmp_path)
    index = routes._indexes.of(routes._catalog.run("run"))
    waited(index)
    answer = ask("/api/runs/run/samples")
    routes.close()
    assert answer.status == 422
    assert answer.json()["error"] == "this line is damaged"
    assert answer.json()["where"].endswith("samples.jsonl:4")
    assert "kshot score" in answer.json()["hint"]


def test_an_error_that_nobody_foresaw_tells_its_kind_alone(runs, monkeypatch):
    told = []
    ask, routes = app_over(runs, tell=told.append)
    monkeypatch.setattr(routes._catalog, "runs", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):  # the server logs it; starlette raises it again when all is answered
        ask("/api/runs")
    routes.close()
    assert told == ["/api/runs: ZeroDivisionError: division by zero"]


def test_what_is_no_number_is_null():
    from kshot.viewer.live import json_bytes

    value = {"a": [math.nan, math.inf, 1.5, (True, None)], "b": "\ud800ü"}
    assert json_bytes(value) == '{"a":[null,null,1.5,[true,null]],"b":"\\ud800ü"}'.encode()
    assert json.loads(json_bytes(value))["b"] == "\ud800ü"


def test_keys_and_unsafe_characters_of_a_run_are_not_sent(tmp_path):
    secret = "sk-" + "a1" * 12
    finished(tmp_path / "run", task("sums", items([100])), model="THE MODEL")
    for name in ("spec.json", "summary.json"):
        path = tmp_path / "run" / name
        written = json.loads(path.read_text().replace("THE MODEL", f"m\\u001b[31m\\u202e,api_key={secret}"))
        if name == "spec.json":
            written["identity"]["base_url"] = f"https://user:pass1234@host/{secret}"
        path.write_text(json.dumps(written))
    ask, routes = app_over(tmp_path)
    for path in ("/api/runs", "/api/runs/run"):
        body = ask(path).body.decode()
        assert secret not in body
        assert "pass1234" not in body
        assert "\x1b" not in body
        assert "\u202e" not in body
    routes.close()


def test_a_run_that_vanishes_is_gone_from_the_list(tmp_path, monkeypatch):
    finished(tmp_path / "run", task("sums", items([100])))
    ask, routes = app_over(tmp_path)
    assert ask("/api/runs/run").status == 200
    shutil.rmtree(tmp_path / "run")
    routes._catalog._next_look = -1.0
    assert ask("/api/runs/run").status == 404
    routes.close()


@pytest.mark.skipif(os.name == "nt", reason="links")
def test_links_out_of_a_run_are_not_followed(tmp_path):
    secret = tmp_path / "secret.jsonl"
    finished(tmp_path / "runs" / "run", task("sums", items([100])))
    samples = tmp_path / "runs" / "run" / "samples.jsonl"
    secret.write_bytes(samples.read_bytes())
    samples.unlink()
    samples.symlink_to(secret)
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "runs" / "run", target_is_directory=True)
    ask, routes = app_over(tmp_path / "runs")
    (line,) = ask("/api/runs").json()["runs"]
    assert line["samples"] is False
    waited(routes._indexes.of(routes._catalog.run("run")))
    answer = ask("/api/runs/run/samples")
    routes.close()
    assert answer.status == 422
    assert "link" in answer.json()["error"]
