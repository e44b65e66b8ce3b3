"""Commands as a run records them: no key or password in them, and all else as it was."""

import pytest

from kshot.core.shareable import HIDDEN, without_secrets

SECRET = "Tr0ub4dor-and-3"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--api-key", SECRET],
        [f"--api-key={SECRET}"],
        ["--judge-api-key", SECRET],
        ["--header", f"Authorization: Bearer {SECRET}"],
        [f"--header=X-Api-Key: {SECRET}"],
        ["--password", SECRET],
        ["-m", f"openai:m,api_key={SECRET}"],
        ["-m", f"openai:m,temperature=1,token={SECRET},top_p=1"],
        ["--request-option", f'extra={{"api_key": "{SECRET}"}}'],
        ["--base-url", f"https://user:{SECRET}@host/v1"],
        ["--base-url", f"https://{SECRET}@host/v1"],
        ["--base-url", f"https://host/v1?key={SECRET}&x=1"],
        ["-d", f"my.py:Data,secret={SECRET}"],
        ["-d", f"https://host/{SECRET}.jsonl"],
        [f"--request-option=api_key={SECRET}"],
        ["--request-option", f"extra={{api_key: {SECRET}}}"],
        ["--request-option", f"extra.token={SECRET}"],
        ["-m", f"openai:m@https://host/v1?x=1&access_token={SECRET}"],
        [f"-mopenai:m,password={SECRET}"],
        ["-d", f"my.py:Data,retriever=mine.py:R\\,token={SECRET}"],
        ["--my-token", SECRET],
        ["--verbose", "--password", SECRET],
        ["--password", f"-{SECRET}"],
        ["--note", f"Authorization: Bearer {SECRET}{SECRET}"],
        ["--api-key-env", "OTHER", "--stop", SECRET + "2"],
        ["-m", "openai:m,api_key_env=OTHER", "--stop", SECRET + "2"],
        ["--header=X-Team=env:OTHER", "--stop", SECRET + "2"],
        ["--instruction", f"The password: {SECRET}!"],
    ],
    ids=str,
)
def test_secrets_are_hidden(arguments):
    environment = {"SERVICE_API_KEY": SECRET, "OTHER": SECRET + "2", "HOME": "/root"}
    shown = without_secrets(["run", *arguments], environment)
    assert SECRET not in " ".join(shown)
    assert HIDDEN in " ".join(shown)
    assert len(shown) == 1 + len(arguments)
    alone = without_secrets(["run", *arguments], {})
    if f"/{SECRET}" not in str(arguments) and "OTHER" not in str(arguments) and "--instruction" not in arguments:
        assert SECRET not in " ".join(alone)


@pytest.mark.parametrize("key", ["sk-proj-abcdefghijklmnop1234", "hf_abcdefghijklmnopqrst", "AKIAABCDEFGHIJKLMNOP"])
def test_keys_are_known_by_their_form(key):
    assert key not in " ".join(without_secrets(["run", "-d", key, f"x{'/'}{key}"], {}))


def test_all_else_stays():
    command = [
        *("run", "-m", "hf:models/token-key", "-d", "my.py:Data,num_shots=2", "--max-tokens", "7", "--stop", "\n"),
        *(
            "--api-key-env",
            "MY_KEY",
            "--max-example-tokens=5",
            "--base-url",
            "http://localhost:8000/v1",
            "--judge",
            "openai:m",
        ),
    ]
    assert without_secrets(command, {"PATH": "/usr/bin", "MY_KEY": "long enough", "A_TOKEN": "run"}) == command


@pytest.mark.parametrize(
    "arguments",
    [
        ["--instruction", "The password: {{q}}"],
        ["--instruction=The key: {{q}}, token={{t}}"],
        ["--judge-rubric", "key=value pairs are complete; secret: none"],
        ["--judge-rubric", "key=value"],
        ["--system-prompt", "USER and HOME have names. Bearer of internationalisation."],
        ["--stop", "Password:"],
        ["--max-token", "5"],
        ["--max-token=5"],
        ["-d", "my.py:Data,max_token=5,instruction=The password: {{q}}"],
        ["-d", "my.py:Data,key=3,pass=1"],
        ["-m", "openai:m,header=X-Token=env:MY_VARIABLE"],
        ["-d", "my.py:Data", "--out", "/home/somebody/runs"],
    ],
    ids=str,
)
def test_harmless_text_stays(arguments):
    environment = {"USER": "somebody", "HOME": "/home/somebody"}
    assert without_secrets(["run", *arguments], environment) == ["run", *arguments]
