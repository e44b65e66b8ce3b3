"""Which browser the tests of pages take, and what happens without one: here they are skipped, in CI they fail."""

import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.browser.chromium import chromium

CI = Path(__file__).parents[2] / ".ci" / "run"
NONE = SimpleNamespace(chromium=SimpleNamespace(executable_path="/nonexistent/chrome"))


@pytest.fixture
def no_browser(monkeypatch, tmp_path):
    """A machine without any."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("KSHOT_CHROMIUM", raising=False)
    monkeypatch.delenv("KSHOT_BROWSER", raising=False)


def test_tests_are_skipped_without_a_browser_and_the_reason_says_how_to_install_one(no_browser):
    with pytest.raises(pytest.skip.Exception, match=r"apt-get install chromium.*playwright install chromium"):
        chromium(NONE)


def test_tests_fail_without_a_browser_where_it_is_required(no_browser, monkeypatch):
    monkeypatch.setenv("KSHOT_BROWSER", "required")
    with pytest.raises(pytest.fail.Exception, match="there is no Chromium"):
        chromium(NONE)


def test_a_browser_that_is_named_is_taken_and_must_be_there(no_browser, monkeypatch, tmp_path):
    own = tmp_path / "my chrome"
    monkeypatch.setenv("KSHOT_CHROMIUM", str(own))
    with pytest.raises(pytest.fail.Exception, match="my chrome, which is no file"):
        chromium(NONE)
    own.touch()
    assert chromium(NONE) == str(own)
    monkeypatch.setenv("KSHOT_CHROMIUM", "")
    with pytest.raises(pytest.skip.Exception):
        chromium(NONE)


def test_the_browser_of_playwright_is_the_last_resort(no_browser, tmp_path):
    own = tmp_path / "chrome"
    own.touch()
    assert chromium(SimpleNamespace(chromium=SimpleNamespace(executable_path=str(own)))) == str(own)


@pytest.fixture
def machine(tmp_path):
    """Run CI's script on a machine that has these commands alone, and return what it printed and its exit code."""
    if not CI.is_file():
        pytest.skip("this is not a checkout")
    folder = tmp_path / "bin"
    folder.mkdir()
    logs = tmp_path / "logs"
    logs.mkdir()
    for name in ("bash", "cat", "dirname", "env", "id", "mktemp", "rm", "touch", "chmod"):
        (folder / name).symlink_to(shutil.which(name))

    def run(environment=(), **commands):
        for name, script in commands.items():
            path = folder / name.replace("_", "-")
            path.write_text(f"#!{shutil.which('bash')}\n{script}\n")
            path.chmod(0o755)
        done = subprocess.run(
            [CI],
            env={"PATH": str(folder), "BIN": str(folder), "TMPDIR": str(logs), "PLAYWRIGHT_BROWSERS_PATH": str(folder)}
            | dict(environment),
            capture_output=True,
            text=True,
            check=False,
        )
        assert list(logs.iterdir()) == []
        return done.returncode, done.stdout, done.stderr

    return run


SUDO = 'test "$1" = -n && shift && exec "$@"'
MAKE = 'echo "make $* KSHOT_BROWSER=$KSHOT_BROWSER"'


def test_ci_installs_a_browser_where_none_is_and_then_requires_it(machine):
    apt = 'case "$*" in *install*chromium) touch "$BIN/chromium"; chmod 755 "$BIN/chromium" ;; esac; echo noise'
    said = "Installed Chromium, for the tests of pages.\nmake test KSHOT_BROWSER=required\n"
    assert machine(make=MAKE, apt_get=apt, sudo=SUDO) == (0, said, "")


def test_ci_takes_the_browser_that_is_named_and_it_must_be_there(machine, tmp_path):
    own = tmp_path / "bin" / "own"
    code, out, err = machine({"KSHOT_CHROMIUM": str(own)}, make=MAKE, apt_get="exit 9")
    assert (code, out, err) == (1, "", f"KSHOT_CHROMIUM names {own}, which is no program.\n")
    done = machine({"KSHOT_CHROMIUM": str(own)}, make=MAKE, apt_get="exit 9", own="true")
    assert done == (0, "make test KSHOT_BROWSER=required\n", "")


def test_ci_installs_nothing_where_a_browser_is(machine):
    assert machine(make=MAKE, chromium="true", apt_get="exit 9") == (0, "make test KSHOT_BROWSER=required\n", "")


@pytest.mark.parametrize("apt", ["echo no network; exit 100", "true"], ids=["fails", "installs none"])
def test_ci_fails_where_no_browser_can_be_installed(machine, apt):
    code, out, err = machine(make=MAKE, apt_get=apt, sudo=SUDO)
    assert (code, out) == (1, "")
    assert "No Chromium could be installed" in err
