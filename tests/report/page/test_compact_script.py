"""Scripts without the blanks that only people need: what they do stays the same."""

import pytest

from kshot.report.page.compact_script import compact_script, compact_style


@pytest.mark.parametrize(
    ("script", "compact"),
    [
        ("const a = 1; // why\nlet b = a\nf(b)\n", "const a=1;let b=a\nf(b)\n"),
        ("/** Why\n * it is. */\nconst f = (x) => {\n  return x - -1;\n};\n", "const f=(x)=>{return x- -1;};\n"),
        ('f("a  // b", \'it\\\'s  "c"\');', 'f("a  // b",\'it\\\'s  "c"\');\n'),
        ("const p = /[/ ]  \\/ `/g;\nx = a / b / c;", "const p=/[/ ]  \\/ `/g;x=a/b/c;\n"),
        ("s.replace(/\\s+ /, (y) => y)", "s.replace(/\\s+ /,(y)=>y)\n"),
        (
            "const x = `two  words ${ a + `in  ${ b } side` }\n    next ${{ c: 1 }.c}`;",
            "const x=`two  words ${a+`in  ${b} side`}\nnext ${{c:1}.c}`;\n",
        ),
        (
            "html`<p class=${x}\n   title=${y}>\n    <b>a  b</b>\n  </p>`",
            "html`<p class=${x}\ntitle=${y}><b>a  b</b></p>`\n",
        ),
        ("const { a } = b\n[c] = d", "const{a}=b\n[c]=d\n"),
        ("a = b\n++c", "a=b\n++c\n"),
        ("return\nx", "return\nx\n"),
        ("typeof x in y\n\n\n  + +z", "typeof x in y\n+ +z\n"),
    ],
)
def test_blanks_that_nobody_needs_go(script, compact):
    assert compact_script(script) == compact
    assert compact_script(compact) == compact  # nothing is left to take away


def test_styles_lose_comments_and_indents():
    assert compact_style("/* all */\na {\n  color: red; /* why */\n}\n") == "a {\ncolor: red; \n}\n"
