"""What tests can do with a program that runs in another process: whatever they could do in the same one, nearly."""

# ruff: noqa: ISC004 - programs and tests, one a line

import pytest

from kshot.core.records import AskFailed
from kshot.sandbox import program as sandbox

RIGHT = {
    "numbers": (
        "def f(x):\n    return x",
        "import math\nfor x in (0, -1, 1 << 80, -(1 << 80), 1.5, -0.0, 1e308, float('inf'), 2 + 3j, True, None):\n"
        "    assert f(x) == x and type(f(x)) is type(x), x\nassert math.isnan(f(float('nan')))",
    ),
    "texts and bytes": (
        "def f(x):\n    return x",
        "for x in ('', 'ü', '\\ud800', 'a\\0b', b'', b'\\xff', bytearray(b'x'), 'x' * 100000):\n"
        "    assert f(x) == x and type(f(x)) is type(x)",
    ),
    "containers": (
        "def f(x):\n    return x",
        "from collections import Counter, OrderedDict, deque\nfor x in ([], [1, [2]], (), (1, (2,)), {}, {1: {2: 3}, (1, 2): [4]}, {1, 2}, "
        "frozenset({1}), {frozenset({1}): 2}, range(3), range(1, 9, 2), slice(1, 2), deque([1]), Counter('aab'), "
        "OrderedDict([(2, 1), (1, 2)]), ..., NotImplemented):\n    assert f(x) == x and type(f(x)) is type(x), x",
    ),
    "library values": (
        "def f(x):\n    return x",
        "from datetime import date, datetime, time, timedelta\nfrom decimal import Decimal\nfrom fractions import Fraction\n"
        "for x in (Fraction(1, 3), Decimal('1.10'), date(2024, 2, 29), datetime(2024, 1, 2, 3, 4, 5, 6), time(1, 2), "
        "timedelta(-1, 5, 7)):\n    assert f(x) == x and type(f(x)) is type(x), x",
    ),
    "views of a dictionary": (
        "def k(d): return d.keys()\ndef v(d): return d.values()\ndef i(d): return d.items()",
        "d = {'a': 1}\nassert k(d) == {'a'} and list(v(d)) == [1] and i(d) == {('a', 1)} and k(d) != ['a']",
    ),
    "types differ": (
        "from collections import deque\ndef f(kind):\n    return {'deque': deque([1]), 'tuple': (1,), 'gen': (n for n in [1])}[kind]",
        "for kind in ('deque', 'tuple', 'gen'):\n    assert f(kind) != [1] and list(f(kind)) == [1]",
    ),
    "changed arguments": (
        "def f(items, table, group, raw):\n    items.sort()\n    table['new'] = items\n    group.discard(1)\n    raw += b'!'\n    return items",
        "a, b, c, d = [3, 1, 2], {}, {1, 2}, bytearray(b'x')\nassert f(a, b, c, d) is a\n"
        "assert a == [1, 2, 3] and b == {'new': a} and b['new'] is a and c == {2} and d == b'x!'",
    ),
    "arguments changed within": (
        "def f(grid):\n    grid[0][0] = 9\n    grid.append([5])",
        "row = [1]\ngrid = [row, row]\nf(grid)\nassert grid == [[9], [9], [5]] and grid[0] is row is grid[1]",
    ),
    "arguments changed before an exception": (
        "def f(x):\n    x.append(1)\n    raise KeyError('k')",
        "x = []\ntry:\n    f(x)\nexcept KeyError as error:\n    assert error.args == ('k',)\nassert x == [1]",
    ),
    "values that hold themselves": (
        "def f(x):\n    x.append((x, 1))\n    return x",
        "x = f([])\nassert x[0][0] is x",
    ),
    "deep values": (
        "def f(n):\n    x = []\n    for _ in range(n):\n        x = [x]\n    return x",
        "x, n = f(5000), 0\nwhile x:\n    x, n = x[0], n + 1\nassert n == 5000",
    ),
    "exceptions": (
        "class Mine(ValueError):\n    def __init__(self, code):\n        super().__init__('say ' + str(code))\n        self.code = code\n"
        "def f(kind):\n    if kind == 'mine':\n        raise Mine(7)\n    return {}[kind]",
        "try:\n    f('mine')\n    assert False\nexcept Mine as error:\n    assert str(error) == 'say 7' and error.code == 7\n"
        "try:\n    f('mine')\nexcept ValueError as error:\n    assert type(error).__name__ == 'Mine'\n"
        "try:\n    f('x')\n    assert False\nexcept KeyError as error:\n    assert error.args == ('x',)\n"
        "import unittest\nunittest.TestCase().assertRaises(ValueError, f, 'mine')",
    ),
    "exceptions that descend from each other": (
        "class A(ValueError): pass\nclass B(A): pass\nclass C(B, KeyError): pass\ndef f(kind): raise globals()[kind](kind)",
        "for kind in 'ABC':\n    try:\n        f(kind)\n        assert False\n    except A as error:\n        assert str(error).strip(\"'\") == kind\n"
        "try:\n    f('C')\nexcept B:\n    pass\ntry:\n    f('A')\nexcept B:\n    assert False\nexcept A:\n    pass\nassert issubclass(C, A) and not issubclass(A, B)",
    ),
    "another name of an exception": (
        "Mine = Exception\nOthers = (KeyError, Exception)\ndef f(): raise Mine('x')\ndef g(e): raise e",
        "try:\n    f()\n    assert False\nexcept Mine as error:\n    assert str(error) == 'x' and error.args == ('x',)\ntry:\n    f()\nexcept Others:\n    pass\n"
        "try:\n    g(Exception)\nexcept Exception:\n    pass",
    ),
    "exceptions of the library in the tests' functions": (
        "def f(g):\n    try:\n        g()\n    except ArithmeticError as error:\n        return type(error).__name__\n    except LookupError:\n        return 'mine'",
        "import decimal\nclass Mine(KeyError): pass\ndef g(): raise Mine\nassert f(lambda: decimal.Decimal(1) / 0) == 'ZeroDivisionError' and f(g) == 'mine'",
    ),
    "an exception that comes back": (
        "class Mine(Exception): pass\ndef f(): raise Mine('x')\ndef g(h):\n    try:\n        h()\n    except Mine as error:\n        return str(error)",
        "assert g(f) == 'x' == g(lambda: f())",
    ),
    "encoding errors": (
        "def f(x):\n    return x.decode('ascii')",
        "try:\n    f(b'\\xff')\n    assert False\nexcept UnicodeDecodeError as error:\n    assert error.start == 0",
    ),
    "generators": (
        "def f():\n    n = 0\n    while True:\n        yield n\n        n += 1",
        "import itertools, types\nassert isinstance(f(), types.GeneratorType)\nassert list(itertools.islice(f(), 4)) == [0, 1, 2, 3]\n"
        "g = f()\nassert next(g) == 0 and next(g) == 1",
    ),
    "iterators": ("def f(x):\n    return map(str, x)", "assert list(f([1, 2])) == ['1', '2'] and ','.join(f([3])) == '3'"),
    "objects": (
        "class Node:\n    kind = 'node'\n    def __init__(self, value, next=None):\n        self.value, self.next = value, next\n"
        "    def __len__(self): return 2\n    def __getitem__(self, i): return i * 2\n    def __repr__(self): return f'Node({self.value})'\n"
        "    def __enter__(self): return self.value\n    def __exit__(self, *a): self.value = 0\n"
        "    def __eq__(self, other): return isinstance(other, Node) and self.value == other.value\n    def __lt__(self, other): return self.value < other.value\n"
        "def total(node):\n    return node.value + total(node.next) if node else 0",
        "a = Node(1, Node(2))\nassert isinstance(a, Node) and not isinstance(3, Node) and a.value == 1 and a.next.value == 2\n"
        "a.next.value = 5\nassert total(a) == 6 and len(a) == 2 and a[4] == 8 and repr(a) == 'Node(1)' and Node.kind == 'node'\n"
        "assert a == Node(1) and a != Node(3) and a != 1 and sorted([Node(3), Node(2)])[0].value == 2\n"
        "with a as value:\n    assert value == 1\nassert a.value == 0",
    ),
    "contexts that are left by an exception": (
        "class Saved:\n    seen = None\n    def __enter__(self): return self\n    def __exit__(self, kind, error, _):\n"
        "        self.seen = kind and (kind.__name__, str(error))\n        return kind is ValueError",
        "s = Saved()\nwith s:\n    raise ValueError('x')\nassert s.seen == ('ValueError', 'x')\n"
        "class Mine(KeyError): pass\ntry:\n    with s:\n        raise Mine('y')\n    assert False\nexcept Mine:\n    assert s.seen == ('KeyError', \"'y'\")\n"
        "with s:\n    pass\nassert s.seen is None",
    ),
    "StopIteration": (
        "class Count:\n    n = 0\n    def __iter__(self): return self\n    def __next__(self):\n        self.n += 1\n"
        "        if self.n > 2: raise StopIteration\n        return self.n\ndef f(): raise StopIteration",
        "assert list(Count()) == [1, 2] and list(map(str, Count())) == ['1', '2'] and next(iter(Count())) == 1\n"
        "c = Count()\nc.n = 2\ntry:\n    next(c)\n    assert False\nexcept StopIteration:\n    pass\ntry:\n    f()\n    assert False\nexcept StopIteration:\n    pass",
    ),
    "the end of an iterator": (
        "def f(xs):\n    return iter(xs)\ndef g(xs):\n    yield from xs", "assert list(zip(f([1, 2]), g([3, 4]))) == [(1, 3), (2, 4)] and sum(map(int, f('12'))) == 3",
    ),
    "operators": (
        "class V:\n    def __init__(self, x): self.x = x\n    def __mul__(self, o): return V(self.x * (o.x if isinstance(o, V) else o))\n"
        "    __rmul__ = __mul__\n    def __add__(self, o): return V(self.x + (o.x if isinstance(o, V) else o))\n    __radd__ = __add__\n"
        "    def __iadd__(self, o):\n        self.x += o\n        return self\n    def __sub__(self, o): return V(self.x - o.x)\n"
        "    def __neg__(self): return V(-self.x)\n    def __abs__(self): return abs(self.x)\n    def __invert__(self): return V(~self.x)\n"
        "    def __truediv__(self, o): return V(self.x / o)\n    def __pow__(self, o): return V(self.x ** o)\n    def __matmul__(self, o): return self.x * o.x\n"
        "    def __eq__(self, o): return isinstance(o, V) and self.x == o.x\n    def __lt__(self, o): return self.x < o.x\n"
        "    def __float__(self): return float(self.x)\n    def __int__(self): return int(self.x)\n    def __round__(self, n=0): return round(self.x, n)\n    def __repr__(self): return f'V({self.x})'",
        "assert V(2) * 3 == V(6) == 3 * V(2) and V(2) * V(3) == V(6) and -V(2) == V(-2) and ~V(1) == V(-2) and abs(V(-2)) == 2\n"
        "assert sum([V(1), V(2)]) == V(3) and V(4) / 2 == V(2.0) and V(2) ** 3 == V(8) and V(2) @ V(3) == 6 and (V(2) * 3).x == 6\n"
        "assert str(V(2) * 3) == 'V(6)' and V(3) - V(1) == V(2) and -(V(2) * 3) == V(-6) and V(2) * 3 < V(7) and isinstance(V(2) * 3, V)\n"
        "v = V(1)\nv += 4\nassert v.x == 5 and float(V(5)) == 5.0 and int(V(5)) == 5 and round(V(2.345), 1) == 2.3 and V(2) * 3 != 6 and V(2) != 2",
    ),
    "membership": (
        "class Bag:\n    def __init__(self, *xs): self.xs = xs\n    def __iter__(self): return iter(self.xs)\n    def __contains__(self, x): return x in self.xs\n"
        "class Item: pass\nitem = Item()\nbag = Bag(item, 1)",
        "assert 1 in Bag(1, 2) and 3 not in Bag(1, 2) and item in bag and Item() not in bag",
    ),
    "named tuples": (
        "from collections import namedtuple\nfrom typing import NamedTuple\nP = namedtuple('P', 'x y')\nclass Q(NamedTuple):\n    a: int\n    b: list = []\n"
        "    def total(self): return self.a\ndef f(): return P(1, 2)\ndef g(p): return p.x + p.y, isinstance(p, P)\ndef h(): return {'q': Q(1, [P(3, 4)])}",
        "p = f()\nassert p.x == 1 and p == (1, 2) and p == P(1, 2) and p._replace(x=3).x == 3 and str(p) == 'P(x=1, y=2)' and isinstance(p, tuple) and isinstance(p, P)\n"
        "assert g(p) == (3, True) and h()['q'].b[0].y == 4 and p._asdict() == {'x': 1, 'y': 2} and P(x=1, y=5).y == 5 and not isinstance((1, 2), P)\n"
        "from collections import namedtuple\nT = namedtuple('T', 'x y')\nassert g(T(5, 6)) == (11, False)",
    ),
    "identity": (
        "class A: pass\none = A()\ndef f(): return one\ndef g(): return A()\ndef gen():\n    yield 1\nrunning = gen()\ndef h(): return running",
        "assert f() is f() is one and g() is not g() and f is f and A is A and h() is h() and type(f()) is type(g())",
    ),
    "variables of the program": (
        "LIMIT = 3\nSEEN = []\ndef f(x): return x < LIMIT\ndef g(): return helper()\ndef helper(): return 1",
        "import program\nassert not f(4)\nprogram.LIMIT = 9\nassert f(4) and program.LIMIT == 9\nprogram.helper = lambda: 7\nassert g() == 7\n"
        "program.NEW = 2\nassert program.NEW == 2\ndel program.NEW\nassert not hasattr(program, 'NEW')\n"
        "from unittest import mock\nwith mock.patch('program.LIMIT', 1):\n    assert not f(2)\nassert f(2)",
    ),
    "objects of the tests": (
        "def total(node):\n    node.seen = True\n    return node.value + (total(node.next) if node.next else 0) + node.extra(1)",
        "class Node:\n    def __init__(self, value, next=None):\n        self.value, self.next = value, next\n    def extra(self, n):\n        return n\n"
        "a = Node(1, Node(2))\nassert total(a) == 5 and a.seen and a.next.seen",
    ),
    "functions of the tests": (
        "def apply(f, xs):\n    return [f(x) for x in xs]\ndef twice(f):\n    return lambda x: f(f(x))",
        "assert apply(lambda x: x + 1, [1, 2]) == [2, 3]\nassert apply(len, ['ab']) == [2] and apply(str, [1]) == ['1']\n"
        "assert twice(lambda x: x * 3)(2) == 18\nassert apply(twice(lambda x: x + 1), [1]) == [3]",
    ),
    "exceptions of the tests' functions": (
        "def f(g):\n    try:\n        g()\n    except ZeroDivisionError:\n        return 'caught'",
        "assert f(lambda: 1 / 0) == 'caught'",
    ),
    "iterators of the tests": ("def f(x):\n    return sum(x)", "assert f(iter([1, 2])) == 3 and f(n for n in range(4)) == 6"),
    "keywords and defaults": ("def f(a, *b, c=3, **d):\n    return a, b, c, d", "assert f(1, 2, c=4, e=5) == (1, (2,), 4, {'e': 5})"),
    "coroutines": ("async def f(x):\n    return x + 1", "import asyncio\nassert asyncio.run(f(1)) == 2"),
    "output": (
        "def f():\n    print('hello', 3)",
        "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as out:\n    f()\nassert out.getvalue() == 'hello 3\\n'",
    ),
    "input": (
        "def f():\n    return int(input()) + int(input())",
        "import io, sys\nsys.stdin = io.StringIO('3\\n4\\n')\nassert f() == 7",
    ),
    "state between calls": ("seen = []\ndef f(x):\n    seen.append(x)\n    return len(seen)", "f(1)\nassert f(2) == 2 and seen == [1, 2]"),
    "a function with a built-in name": ("def sum(a, b):\n    return a * b", "assert sum(3, 4) == 12"),
    "a function with a built-in name, checked": ("def sum(a, b):\n    return a * b", "assert abs(sum(3, 4) - 12) < 1e-6 and sorted([sum(3, 4)]) == [12]"),
    "a built-in name that is passed on": ("def max(xs):\n    return len(xs)", "def check(candidate):\n    assert candidate([7, 8, 9]) == 3\ncheck(max)"),
    "a built-in name that is imported": ("def sum(a):\n    return 7\ndef f():\n    return 1", "from program import sum\nimport program\nassert sum([]) == 7 == program.sum([]) and f() == 1"),
    "a function with a module's name": ("def copy(a):\n    return a * 2\ndef f():\n    return [1]", "assert copy(f()) == sorted([1, 1])"),
    "names of the program": ("import math\nLIMIT = 3\ndef f():\n    return 1", "assert math.floor(1.5) == 1 and LIMIT == 3 and f.__name__ == 'f'"),
    "an import of the program": ("def f():\n    return 1", "from program import f as g\nimport program\nassert g() == 1 == program.f()"),
    "globals of the tests": ("def f():\n    return 1", "assert globals()['f']() == 1 and 'f' in globals() and 'g' not in globals()"),
    "a demonstration": ("def f():\n    return 1\nif __name__ == '__main__':\n    raise SystemExit", "assert f() == 1"),
    "a check of HumanEval": ("def f(x):\n    return x", "METADATA = {}\n\n\ndef check(candidate):\n    assert candidate(1) == 1\n\ncheck(f)"),
}  # fmt: skip

WRONG = {
    "a wrong value": ("def f():\n    return 2", "assert f() == 1", "AssertionError"),
    "no such function": ("def g():\n    return 1", "assert f() == 1", "NameError: name 'f' is not defined"),
    "an exception": ("def f():\n    return 1 / 0", "assert f() == 1", "ZeroDivisionError: division by zero"),
    "an exception of its own": ("class E(Exception):\n    pass\ndef f():\n    raise E('x')", "f()", "E: x"),
    "too many arguments": ("def f():\n    return 1", "f(1)", "TypeError: f() takes 0 positional"),
    "a number of another type": ("def f():\n    return '1'", "assert f() == 1", "AssertionError"),
    "its own equality": ("class A:\n    def __eq__(s, o): return True\ndef f():\n    return A()", "assert f() == 1", "AssertionError"),
    "its own difference": ("class A:\n    def __sub__(s, o): return 0\n    __rsub__ = __sub__\ndef f():\n    return A()", "assert abs(f() - 1) < 1e-6", "TypeError"),
    "its own sum": ("class A:\n    def __add__(s, o): return 0\n    __radd__ = __add__\ndef f():\n    return A()", "assert abs(f() + -1) < 1e-6", "TypeError"),
    "its own sum of sums": (
        "class A:\n    def __add__(s, o): return s\n    __radd__ = __add__\n    def __abs__(s): return 0\n    def __bool__(s): return False\n    def __len__(s): return 0\none = A()\ndef f():\n    return one",
        "hits = []\nfor check in (lambda: abs(f() + -1) < 1e-6, lambda: not f() + -1, lambda: len(f() + [1]) == 0, lambda: abs((f() + -1) + f()) < 1, lambda: abs(-(f() + -1)) < 1,\n"
        "    lambda: list(f() + [1]) == [], lambda: abs(sum([f(), -1])) < 1):\n    try:\n        hits.append(check())\n    except Exception:\n        pass\nassert any(hits)", "AssertionError",
    ),
    "its own product": ("class A:\n    def __mul__(s, o): return o\n    __rmul__ = __truediv__ = __mul__\ndef f():\n    return A()", "assert f() * 6 == 6", "TypeError"),
    "its own membership": ("class A:\n    def __contains__(s, o): return True\ndef f():\n    return A()", "assert 1 in f()", "TypeError"),
    "names of a tuple that hide its methods": ("from collections import namedtuple\nT = namedtuple('T', 'count x')\ndef f():\n    return T(lambda n: 2, 1)", "assert f().count(5) == 2", "AssertionError"),
    "a caught end": ("import os\ndef f():\n    os._exit(0)", "try:\n    f()\nexcept:\n    pass", "the program ended"),
    "an end after the last call": (
        "import os, threading, time\ndef f():\n    threading.Timer(0.2, os._exit, (0,)).start()\n    return 1",
        "import time\nassert f() == 1\ntime.sleep(3)", "the program ended",
    ),
    "a helper of the prompt": ("def poly(xs, x):\n    return 0\ndef f(xs):\n    return 7", "def poly(xs, x):\n    return xs[0] + x\nassert poly([1], f([1])) == 0", "AssertionError"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def long_grace(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(sandbox, "_GRACE_SECONDS", 60.0)


def judged(program, tests):
    return sandbox.run(program, tests, 60.0)


@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_pass(name):
    assert judged(*RIGHT[name]) == sandbox.ProgramOutcome(passed=True, reason="")


@pytest.mark.parametrize("name", WRONG)
def test_wrong_programs_fail(name):
    program, tests, reason = WRONG[name]
    outcome = judged(program, tests)
    assert not outcome.passed
    assert outcome.reason.startswith(reason)


def test_arrays():
    pytest.importorskip("numpy")
    program = (
        "import numpy as np\ndef f(x):\n    return np.asarray(x) * 2\ndef g(x):\n    return np.float32(x), np.int64(x)"
    )
    tests = (
        "import numpy\na = f([[1, 2]])\nassert a.shape == (1, 2) and a.tolist() == [[2, 4]] and np.allclose(f(a), [[4, 8]])\n"
        "assert g(2) == (2, 2) and g(2)[1] == 2 and isinstance(g(2)[0], numpy.float32)"
    )
    assert judged(program, tests) == sandbox.ProgramOutcome(passed=True, reason="")


def test_tests_that_are_no_code_fail_their_sample():
    with pytest.raises(AskFailed, match="tests of a program are not Python code: SyntaxError"):
        judged("def f():\n    return 1", "assert f(")


def test_the_program_has_no_part_of_the_tests():
    """Neither the source, nor what is expected, nor the judge's module is anywhere in the memory of the program."""
    program = """
import ctypes, gc, sys
def f(x):
    found = [o for o in gc.get_objects() if type(o) in (str, bytes, list, dict, tuple) and ''.join(('qzk', 'wanted')) in repr(o)]
    return [len(found), [n for n in sys.modules if n.startswith('kshot')]]
"""
    assert judged(program, "found = f(1)\nqzkwanted = 3\nassert found == [0, []], found").reason == ""
