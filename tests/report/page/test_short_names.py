"""Short names in scripts: what another script may know keeps its name."""

import subprocess
from shutil import which

import pytest

from kshot.report.page.compact_script import compact_script
from kshot.report.page.short_names import with_short_names


@pytest.mark.parametrize(
    ("script", "short"),
    [
        ("{ const total = 1; f(total, `${total} total`); }", "{ const a = 1; f(a, `${a} total`); }"),
        ("{ const many = (each) => each + 1; }", "{ const b = (a) => a + 1; }"),
        ("{ const many = each => each + 1; }", "{ const b = a => a + 1; }"),
        ("{ let timer; timer = [timer, timer]; }", "{ let a; a = [a, a]; }"),
        ("{ const shown = x ? [...shown] : {}; }", "{ const a = x ? [...a] : {}; }"),
        ("{ const told = x ? told : told; }", "{ const a = x ? a : a; }"),
        ("{ const [left, right] = f((one, two = 1) => one); }", "{ const [c, b] = f((a, d = 1) => a); }"),
        ("{ const aa = 1; const bb = a + b; }", "{ const c = 1; const d = a + b; }"),
    ],
)
def test_own_names_become_letters(script, short):
    assert with_short_names(script) == short


@pytest.mark.parametrize(
    "script",
    [
        "const total = 1;",  # other scripts see it
        "{ const total = 1; f(x.total, x?.total); }",
        "{ const total = 1; f({ total }); }",
        "{ const total = 1; f({ total: 2 }); }",
        "{ const total = ({ total = 3 }) => 1; }",
        "{ const total = 1; f({ async total() {} }); }",
        "{ const total = 1; f({ x, total() {} }); }",
        "{ const f = ({ total, more }) => 1; const total = 2; const more = 3; }",
        "{ f('total', /total/, `total`); }",
        "f(total);",
        "f(total, [more]);",
    ],
)
def test_names_that_others_may_know_stay(script):
    assert with_short_names(script) == script


SCRIPT = """
const out = [];
{
  const first = 2, second = 3;
  const add = (left, right = second) => left + right;
  const told = { first, add, second: add(first) };
  const { first: again, ...others } = told;
  for (const name of Object.keys(others)) out.push(name, `${name}=${typeof others[name]}`);
  let text = "";
  text += /first/.test("first") ? again : second;
  out.push(text, told.add(first), [first, second].map((each) => each * first));
}
console.log(JSON.stringify(out));
"""


@pytest.mark.skipif(which("node") is None, reason="node is not installed")
def test_a_script_does_the_same(tmp_path):
    def said(script):
        (tmp_path / "script.js").write_text(script, encoding="utf-8")
        return subprocess.run(["node", tmp_path / "script.js"], capture_output=True, check=True).stdout

    assert len(compact_script(SCRIPT)) < len(SCRIPT) * 0.8
    assert said(compact_script(SCRIPT)) == said(SCRIPT)
