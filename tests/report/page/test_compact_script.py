"""Scripts without the blanks that only people need: what they do stays the same."""

import pytest

from kshot.report.page.compact_script import compact_script, compact_style


@pytest.mark.parametrize(
    ("script", "compact"),
    [
        ("const a = 1; // why\nlet b = a\nf(b)\n", "const a=1;let b=a\nf(b)\n"),
        ("/** Why\n * it is. */\nconst f = (x) => {\n  return x - -1;\n};\n", "const f=x=>{return x- -1};\n"),
        ('f("a  // b", \'it\\\'s  "c"\');', 'f("a  // b",\'it\\\'s  "c"\');\n'),
        ("const p = /[/ ]  \\/ `/g;\nx = a / b / c;", "const p=/[/ ]  \\/ `/g;x=a/b/c;\n"),
        ("s.replace(/\\s+ /, (y) => y)", "s.replace(/\\s+ /,y=>y)\n"),
        (
            "const x = `two  words ${ a + `in  ${ b } side` }\n    next ${{ c: 1 }.c}`;",
            "const x=`two  words ${a+`in  ${b} side`}\nnext ${{c:1}.c}`;\n",
        ),
        (
            "html`<p class=${x}\n   title=${y}>\n    <b>a  b</b>\n  </p>`",
            "html`<p class=${x}\ntitle=${y}><b>a  b</></>`\n",
        ),
        (
            'html`<p class="a-b" title="two words"><i id="x" /> a="b"<${Y} z=${1} /></p> <b class="${c}">`',
            'html`<p class=a-b title="two words"><i id=x/> a="b"<${Y} z=${1}/></> <b class="${c}">`\n',
        ),
        ("const { a } = b\n[c] = d", "const{a}=b\n[c]=d\n"),
        ("a = b\n++c", "a=b\n++c\n"),
        ("return\nx", "return\nx\n"),
        (
            "const a = 1;\nconst b = () => {\n  const c = 2;\n  const [d] = c;\n};\nconst { e } = b;\nlet f;",
            "const a=1,b=()=>{const c=2,[d]=c},{e}=b;let f;\n",
        ),
        ("const a = 1\nf();\nconst b = 2;", "const a=1\nf();const b=2;\n"),
        (
            "g();\nconst a = `${ x }`;\nfor (const b of c) d();\nconst e = 1;",
            "g();const a=`${x}`;for(const b of c)d();const e=1;\n",
        ),
        (
            "const a = 1;\nif (a) {\n  b();\n}\nconst c = 2;\nconst d = 3;",
            "const a=1;if(a){b()}\nconst c=2;const d=3;\n",
        ),
        ("f = [a, [, b, ], {c, }, ];", "f=[a,[,b],{c}];\n"),
        (
            "g = [(a) => a, async (b) => b, () => 1, (c, d) => c, ({ e }) => e, (h = 1) => h];",
            "g=[a=>a,async(b)=>b,()=>1,(c,d)=>c,({e})=>e,(h=1)=>h];\n",
        ),
        ("if (a) { b(); }\nelse { c() }", "if(a){b()}\nelse{c()}\n"),
        ("typeof x in y\n\n\n  + +z", "typeof x in y\n+ +z\n"),
    ],
)
def test_blanks_that_nobody_needs_go(script, compact):
    assert compact_script(script) == compact
    assert compact_script(compact) == compact  # nothing is left to take away


def test_styles_lose_comments_and_indents():
    assert compact_style("/* all */\na {\n  color: red; /* why */\n}\n") == "a {\ncolor: red; \n}\n"
