"""Programs that want to pass without being right, to read what is not theirs, or to leave something behind.

Each defines ``solve`` wrongly, if at all. ``@CANARY@`` is a file outside, ``@OUTSIDE@`` a folder, ``@MARK@`` a name by which
what is left behind would be found, ``@PORT@``, ``@SOCKET@`` and ``@ABSTRACT@`` are where a server listens, ``@PID@`` is kshot.
"""

WRONG = "def solve(x):\n    return 0\n"
CTYPES = "import ctypes, os, struct\nlibc = ctypes.CDLL(None, use_errno=True)\n"
SEND = (
    "import json, os, struct\n"
    "def send(frame):\n"
    "    body = frame if isinstance(frame, bytes) else json.dumps(frame).encode()\n"
    "    for fd in range(3, 12):\n"
    "        try:\n"
    "            os.write(fd, struct.pack('>Q', len(body)) + body)\n"
    "        except OSError:\n"
    "            pass\n"
)
PEER = (
    "import sys\n"
    "def peer():\n"
    "    frame = sys._getframe()\n"
    "    while frame:\n"
    "        if 'serve' == frame.f_code.co_name:\n"
    "            return frame.f_locals['self']\n"
    "        frame = frame.f_back\n"
)


def always(body):
    """A program whose result is an object of a class with these methods."""
    return f"class Sly:\n    {body}\ndef solve(x):\n    return Sly()\n"


def sends(message):
    """A program that sends this in place of its answer."""
    return f"{SEND}def solve(x):\n    send({message!r})\n    return 0\n"


def sends_value(entry):
    """A program whose forged answer has this entry in its table."""
    return sends({"result": [0], "table": [entry], "changed": [], "printed": ""})


FORGED_VERDICTS = {
    "ends with an open bracket": f"{WRONG}x = (",
    "ends with an open list": f"{WRONG}x = [solve,",
    "ends with a backslash": f"{WRONG}True or \\",
    "ends in an open text": f'{WRONG}x = """',
    "ends in an open f-string": f"{WRONG}x = f'''{{",
    "ends in an open comment of a text": f"{WRONG}'''",
    "ends in a condition": f"{WRONG}if False:",
    "ends in a function": f"{WRONG}def tests():",
    "ends in a try": f"{WRONG}try:",
    "ends in a decorator": f"{WRONG}@lambda f: None",
    "ends in a lambda": f"{WRONG}lambda:",
    "ends after a null byte": f"{WRONG}\0",
    "sys.exit(0)": f"{WRONG}import sys\nsys.exit(0)",
    "os._exit(0)": f"{WRONG}import os\nos._exit(0)",
    "SystemExit when called": "def solve(x):\n    raise SystemExit(0)",
    "os._exit(0) when called": "import os\ndef solve(x):\n    os._exit(0)",
    "GeneratorExit when called": "def solve(x):\n    raise GeneratorExit",
    "StopIteration when called": "def solve(x):\n    raise StopIteration(x)",
    "KeyboardInterrupt when called": "def solve(x):\n    raise KeyboardInterrupt",
    "SIGKILL to itself": f"{WRONG}import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "SIGTERM to itself when called": "import os, signal\ndef solve(x):\n    os.kill(os.getpid(), signal.SIGTERM)\n    return 0",
    "SIGXCPU to itself": f"{WRONG}import os, signal\nos.kill(os.getpid(), signal.SIGXCPU)",
    "SIGSEGV": f"{WRONG}import ctypes\nctypes.string_at(0)",
    "an alarm": f"{WRONG}import signal, time\nsignal.setitimer(signal.ITIMER_REAL, 0.01)\ntime.sleep(5)",
    "closes every descriptor": f"{WRONG}import os\nos.closerange(0, 256)",
    "closes every descriptor when called": "import os\ndef solve(x):\n    os.closerange(0, 256)\n    return 0",
    "duplicates its pipes": f"{WRONG}import os\nfor a in range(3, 8):\n    for b in range(3, 8):\n        try:\n            os.dup2(a, b)\n        except OSError:\n            pass",
    "writes a verdict to every descriptor": f'{WRONG}import os\nfor fd in range(256):\n    try:\n        os.write(fd, b\'["passed", ""]\\n\')\n    except OSError:\n        pass\nos._exit(0)',
    "writes a verdict to every descriptor when called": 'import os\ndef solve(x):\n    for fd in range(256):\n        try:\n            os.write(fd, b\'["passed", ""]\\n\')\n        except OSError:\n            pass\n    os._exit(0)',
    "writes garbage": f"{WRONG}import os\nfor fd in range(3, 9):\n    try:\n        os.write(fd, os.urandom(4096))\n    except OSError:\n        pass",
    "answers before it is asked": f"{SEND}{WRONG}"
    "for _ in range(99):\n    send({'result': True, 'table': [], 'changed': [], 'printed': ''})",
    "says that it ended well": sends({"ended": "passed"}),
    "answers an exception that is none": sends(
        {"raised": ["Ended", None, [0], [0], ""], "table": [["t", []]], "changed": []}
    ),
    "answers a class of the judge": sends(
        {"raised": ["BrokenTests", None, [0], [0], ""], "table": [["t", []]], "changed": []}
    ),
    "a passed verdict as an exception": 'class passed(Exception):\n    pass\ndef solve(x):\n    raise passed(\'["passed", ""]\\n\')',
    "asks the judge to run something": sends({"do": "run", "with": ["pass"], "table": []}),
    "asks the judge for its classes": sends({"do": "getattr", "with": [0, "__class__"], "table": []}),
    "asks the judge to end": sends({"do": "take_output", "with": ["x"], "table": []}),
    "asks the judge for a method that is none": sends({"do": "../x", "with": [], "table": []}),
    "asks without end": f"{SEND}def solve(x):\n    while True:\n        send({{'do': 'input', 'with': [], 'table': []}})",
}

FORGED_VALUES = {
    "__eq__ says yes": always("def __eq__(self, other): return True\n    def __ne__(self, other): return False"),
    "__eq__ of a class": "class M(type):\n    def __eq__(self, other): return True\n    __hash__ = None\nclass solve(metaclass=M):\n    def __new__(cls, x): return cls",
    "compares as wanted": always("__lt__ = __le__ = __gt__ = __ge__ = __eq__ = lambda self, other: True"),
    "int subclass that is equal": "class I(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\ndef solve(x):\n    return I()",
    "str subclass that is equal": "class S(str):\n    def __eq__(self, other): return True\n    __hash__ = str.__hash__\ndef solve(x):\n    return S()",
    "list subclass that is equal": "class L(list):\n    def __eq__(self, other): return True\n    def __contains__(self, other): return True\ndef solve(x):\n    return L()",
    "dict subclass that has all": "class D(dict):\n    def __eq__(self, other): return True\n    def __contains__(self, other): return True\n    def __missing__(self, key): return key\ndef solve(x):\n    return D()",
    "float subclass that is near": "class F(float):\n    def __sub__(self, other): return 0.0\n    __rsub__ = __sub__\n    def __eq__(self, other): return True\ndef solve(x):\n    return F()",
    "tuple subclass": "class T(tuple):\n    def __eq__(self, other): return True\ndef solve(x):\n    return T()",
    "set subclass that has all": "class S(set):\n    def __contains__(self, other): return True\ndef solve(x):\n    return S()",
    "complex subclass": "class C(complex):\n    def __eq__(self, other): return True\ndef solve(x):\n    return C()",
    "contains all": always("def __contains__(self, other): return True"),
    "subtracts to nothing": always(
        "__sub__ = __rsub__ = __xor__ = __rxor__ = __mod__ = lambda self, other: 0\n    def __abs__(self): return 0"
    ),
    "is any number": always(
        "def __float__(self): return 0.0\n    def __int__(self): return 0\n    def __index__(self): return 0\n    def __round__(self, n=0): return 0"
    ),
    "is the other value": always("def __radd__(self, other): return other\n    __add__ = __rsub__ = __radd__"),
    "hash and equality": always("def __hash__(self): return 1\n    def __eq__(self, other): return True"),
    "its text is any": always(
        "def __str__(self): return Any()\n    __repr__ = __str__\nclass Any(str):\n    def __eq__(self, other): return True"
    ),
    "its class is int": always("__class__ = int\n    def __eq__(self, other): return True"),
    "value attribute": always("@property\n    def value(self): return self\n    def __eq__(self, other): return True"),
    "every attribute": always("def __getattr__(self, name): return lambda *a, **k: True"),
    "a generator without end": "def solve(x):\n    while True:\n        yield 0",
    "an iterator that is equal": always(
        "def __iter__(self): return self\n    def __next__(self): return self\n    def __eq__(self, other): return True"
    ),
    "a length of its own": always(
        "def __len__(self): return 1\n    def __getitem__(self, i): return Sly()\n    def __eq__(self, other): return True"
    ),
    "nan": "def solve(x):\n    return float('nan')",
    "True": "def solve(x):\n    return True",
    "NotImplemented": "def solve(x):\n    return NotImplemented",
    "Ellipsis": "def solve(x):\n    return ...",
    "a builtin": "def solve(x):\n    return bool",
    "eval": "def solve(x):\n    return eval",
    "mock.ANY": "from unittest.mock import ANY\ndef solve(x):\n    return ANY",
    "a mock": "from unittest.mock import MagicMock\ndef solve(x):\n    m = MagicMock()\n    m.__eq__ = lambda *a: True\n    return m",
    "a proxy of its own peer": f"{PEER}def solve(x):\n    return peer()",
    "a structure that has itself": "def solve(x):\n    a = []\n    a.append(a)\n    return a",
    "a tuple in a list in itself": "def solve(x):\n    a = []\n    a.append((a, a))\n    return (a, a)",
    "very deep": "def solve(x):\n    a = []\n    for _ in range(200000):\n        a = [a]\n    return a",
    "very deep tuples": "def solve(x):\n    a = ()\n    for _ in range(200000):\n        a = (a,)\n    return a",
    "a giant number": "def solve(x):\n    return 1 << 10_000_000",
    "a giant text": "def solve(x):\n    return 'x' * (80 << 20)",
    "keys that collide": "def solve(x):\n    m = (1 << 61) - 1\n    return {i * m: i for i in range(3000)}",
    "a changed argument": "def solve(x):\n    x.clear() if isinstance(x, list) else None\n    return x",
    "builtins of its own": "import builtins\nfor name in ('abs', 'all', 'any', 'isinstance', 'len', 'sorted', 'sum', 'str', 'int', 'round', 'max', 'hash'):\n    setattr(builtins, name, lambda *a, **k: True)\ndef solve(x):\n    return 0",
    "builtins shadowed": "def abs(x): return 0\ndef sum(x): return K\ndef sorted(x): return x\ndef isinstance(*a): return True\ndef round(x): return 0\nmax = min = int = str = lambda *a: 0\ndef solve(x):\n    return 0",
    "math shadowed": "class math:\n    isclose = staticmethod(lambda *a, **k: True)\nclass operator:\n    eq = staticmethod(lambda *a: True)\nclass copy:\n    deepcopy = staticmethod(lambda a: a)\ndef solve(x):\n    return 0",
    "math changed": "import math, operator, copy\nmath.isclose = operator.eq = lambda *a, **k: True\ndef solve(x):\n    return 0",
    "K of its own": "K = 0\nhits = 99\ndef solve(x):\n    return 0",
    "sys.settrace": f"{WRONG}import sys\nsys.settrace(lambda *a: None)\nsys.setprofile(lambda *a: None)",
    "an import hook": f"{WRONG}import sys\nclass H:\n    def find_spec(self, *a):\n        raise SystemExit\nsys.meta_path.insert(0, H())",
    "a module in its folder": f"{WRONG}for name in ('math', 'operator', 'copy', 'json', 'tests', 'sitecustomize'):\n    open(name + '.py', 'w').write('isclose = eq = deepcopy = lambda *a, **k: True')",
    "atexit": f'{WRONG}import atexit, os\natexit.register(lambda: [os.write(fd, b\'["passed", ""]\\n\') for fd in range(3, 5)])',
    "finalizers": "import os\nclass Sly:\n    def __del__(self):\n        os._exit(0)\ndef solve(x):\n    return Sly()",
    "a thread that answers": f"{SEND}{WRONG}import threading, time\ndef flood():\n    while True:\n        send({{'result': 1, 'table': [], 'changed': [], 'printed': ''}})\nthreading.Thread(target=flood, daemon=True).start()",
    "an unknown tag": sends_value(["no such tag", 0]),
    "a reference to nothing": sends({"result": [99], "table": [], "changed": [], "printed": ""}),
    "a negative reference": sends({"result": [-1], "table": [["l", []]], "changed": [], "printed": ""}),
    "a tuple that comes later": sends(
        {"result": [0], "table": [["t", [[1]]], ["t", []]], "changed": [], "printed": ""}
    ),
    "a change of nothing": sends({"result": 0, "table": [], "changed": [[99, ["l", []]]], "printed": ""}),
    "a change of another type": sends({"result": 0, "table": [], "changed": [[0, ["d", [[1, 2]]]]], "printed": ""}),
    "an import by name": sends_value(["n", "os.system", "touch @OUTSIDE@/@MARK@"]),
    "a type by name": sends_value(["n", "subprocess.Popen", "true"]),
    "a builtin by name": sends_value(["y", "__import__"]),
    "a builtin that is private": sends_value(["y", "__loader__"]),
    "an array of objects": sends_value(["array", "O", [1], [0]]),
    "an array of any size": sends_value(["array", "<f8", [1 << 40], [0]]),
    "a range without end": sends_value(["r", 0, [0], 1]),
    "an object that the judge has": sends_value(["o", 0]),
    "an object before the first": sends_value(["o", -1]),
    "an exception class of any base": sends_value(["h", 0, "exception", "x", "object"]),
    "a message of many MB": f"{SEND}def solve(x):\n    import os, struct\n    for fd in range(3, 12):\n        try:\n            os.write(fd, struct.pack('>Q', 1 << 62))\n        except OSError:\n            pass\n    return 0",
    "deep JSON": f"{SEND}def solve(x):\n    send(b'[' * 1000000)\n    return 0",
    "NaN in JSON": sends(b'{"result": NaN, "table": [], "changed": []}'),
    "a number of many digits": f"{SEND}def solve(x):\n    send(b'{{\"result\": ' + b'9' * 1000000 + b'}}')\n    return 0",
    "no JSON": sends(b"__import__('os')"),
    "a pickle": f"{SEND}import pickle\nclass P:\n    def __reduce__(self):\n        return exit, ()\ndef solve(x):\n    send(pickle.dumps(P()))\n    return 0",
}

LOOKING = {
    "the tests' function": "def solve(x):\n    try:\n        raise ValueError(x.__globals__)\n    except AttributeError:\n        return 0",
    "through the tests' function": f"{PEER}def solve(x):\n    for number in range(-3, 9):\n        for name in ('__globals__', '__code__', 'gi_frame', 'f_globals', '__class__', '__self__', 'ask'):\n            try:\n                found = peer().ask('getattr', number, name)\n            except Exception:\n                continue\n            raise ValueError(found)\n    return 0",
    "a call of what was not given": f"{PEER}def solve(x):\n    for number in range(-9, 99):\n        try:\n            peer().ask('call', number, ('K',), {{}})\n        except Exception:\n            pass\n    return 0",
    "its own memory": "import re\ndef solve(x):\n    for line in open('/proc/self/maps'):\n        a, b = (int(n, 16) for n in line.split()[0].split('-'))\n        with open('/proc/self/mem', 'rb', 0) as memory:\n            memory.seek(a)\n            found = re.search(rb'K = (\\d+)', memory.read(b - a))\n            if found:\n                return int(found[1])\n    return 0",
    "its memory through a folder's descriptor": "import os\ndef solve(x):\n    folder = os.open('/proc/self', os.O_RDONLY)\n    memory = os.open('mem', os.O_RDONLY, dir_fd=folder)\n    return os.read(memory, 9)",
    "its memory by ctypes": "import ctypes, gc, re\ndef solve(x):\n    for thing in gc.get_objects():\n        text = ctypes.string_at(id(thing), 64)\n        found = re.search(rb'K = (\\d+)', text)\n        if found:\n            return int(found[1])\n    return 0",
    "every object": "import gc, re\ndef solve(x):\n    for thing in gc.get_objects():\n        found = re.search(r'K = (\\d{9,})', str(thing)) if isinstance(thing, (dict, list, tuple)) else None\n        if found:\n            return int(found[1])\n    return 0",
    "every frame": "import re, sys\ndef solve(x):\n    frame = sys._getframe()\n    while frame:\n        found = re.search(r'K = (\\d{9,})', repr(frame.f_locals) + repr(frame.f_globals))\n        if found:\n            return int(found[1])\n        frame = frame.f_back\n    return 0",
    "frames out of an audit hook": "import re, sys\nseen = []\nsys.addaudithook(lambda *a: seen.append(repr(sys._getframe().f_back)))\ndef solve(x):\n    open('x', 'w').close()\n    found = re.search(r'K = (\\d{9,})', str(seen))\n    return int(found[1]) if found else 0",
    "its descriptors": "import os, re\ndef solve(x):\n    for fd in range(64):\n        try:\n            os.lseek(fd, 0, 0)\n            found = re.search(rb'K = (\\d+)', os.read(fd, 65536))\n            if found:\n                return int(found[1])\n        except OSError:\n            pass\n    return 0",
    "the memory of others": CTYPES
    + "def solve(x):\n    for pid in range(1, 60):\n        buffer = ctypes.create_string_buffer(4096)\n        local = struct.pack('=QQ', ctypes.addressof(buffer), 4096)\n        for base in (0x400000, 0x555555554000):\n            if libc.process_vm_readv(pid, local, 1, struct.pack('=QQ', base, 4096), 1, 0) > 0:\n                raise ValueError('@CANARYTEXT@')\n    return 0",
    "ptrace": CTYPES
    + "def solve(x):\n    for pid in (os.getppid(), 1, 2, 3, @PID@):\n        if pid != os.getpid() and libc.ptrace(16, pid, 0, 0) == 0:\n            raise ValueError('@CANARYTEXT@')\n    return 0",
    "descriptors of others": CTYPES
    + "def solve(x):\n    for pid in (os.getppid(), 1, 2, 3, @PID@):\n        handle = libc.syscall(434, pid, 0)\n        for fd in range(9):\n            if libc.syscall(438, handle, fd, 0) >= 0:\n                raise ValueError('@CANARYTEXT@')\n    return 0",
    "the canary": "def solve(x):\n    raise ValueError(open('@CANARY@').read())",
    "the canary when it is loaded": "raise ValueError(open('@CANARY@').read())",
    "the canary through a link": "import os\nos.symlink('@CANARY@', 'link')\nraise ValueError(open('link').read())",
    "the canary through a link to its folder": "import os\nos.symlink('@OUTSIDE@', 'link')\nraise ValueError(os.listdir('link'), open('link/canary').read())",
    "the canary through a hard link": "import os\nos.link('@CANARY@', 'link')\nraise ValueError(open('link').read())",
    "the canary by ctypes": CTYPES + "fd = libc.open(b'@CANARY@', 0)\nraise ValueError(os.read(fd, 99))",
    "the canary by a bare system call": CTYPES
    + "fd = libc.syscall(257, -100, b'@CANARY@', 0)\nraise ValueError(os.read(fd, 99))",
    "the canary by openat2": CTYPES
    + "fd = libc.syscall(437, -100, b'@CANARY@', struct.pack('=QQQ', 0, 0, 0), 24)\nraise ValueError(os.read(fd, 99))",
    "the canary above its folder": "import os\nfor up in range(12):\n    path = '../' * up + '@CANARY@'.lstrip('/')\n    if os.path.exists(path):\n        raise ValueError(open(path).read())",
    "the canary through /proc": "for place in ('self/root', 'self/cwd', '1/root', 'thread-self/root', '@PID@/root', '@PID@/cwd'):\n    try:\n        text = open('/proc/' + place + '@CANARY@').read()\n    except OSError:\n        continue\n    raise ValueError(text)",
    "the canary by a new root": "import os\nfor leave in (lambda: os.chroot('.'), lambda: os.chroot('/')):\n    try:\n        leave()\n    except OSError:\n        pass\nos.chdir('/')\nraise ValueError(open('@CANARY@').read())",
    "the canary by import": "import sys\nsys.path.insert(0, '@OUTSIDE@')\nimport canary_module\nraise ValueError(canary_module.text)",
    "the canary by sqlite": "import sqlite3\nc = sqlite3.connect('file:@CANARY@?mode=ro', uri=True)\nc.enable_load_extension(True)\nraise ValueError(c.execute('select readfile(?)', ('@CANARY@',)).fetchall())",
    "the canary by mmap": "import mmap, os\nfd = os.open('@CANARY@', os.O_RDONLY)\nraise ValueError(mmap.mmap(fd, 0, prot=mmap.PROT_READ)[:])",
    "the canary by a handle": CTYPES
    + "handle = ctypes.create_string_buffer(struct.pack('=Ii', 128, 0) + bytes(128))\nmount = ctypes.c_int()\nif libc.name_to_handle_at(-100, b'@CANARY@', handle, ctypes.byref(mount), 0) == 0:\n    fd = libc.open_by_handle_at(-100, handle, 0)\n    raise ValueError(os.read(fd, 99))",
    "the canary by io_uring": CTYPES
    + "assert libc.syscall(425, 8, ctypes.create_string_buffer(256)) >= 0\nraise ValueError('@CANARYTEXT@')",
    "the canary through a new namespace": CTYPES
    + "if libc.unshare(0x10020000) == 0:\n    raise ValueError('@CANARYTEXT@')\nraise SystemExit",
    "the canary by a mount": CTYPES
    + "os.makedirs('m')\nif libc.mount(b'@OUTSIDE@', b'm', None, 4096, None) == 0:\n    raise ValueError(open('m/canary').read())\nraise SystemExit",
    "the environment": "import os\nraise ValueError(dict(os.environ))",
    "the environment of others": "for pid in ('self', '1', '2', '@PID@'):\n    try:\n        text = open(f'/proc/{pid}/environ').read()\n    except OSError:\n        continue\n    if '@CANARYTEXT@'[:12] in text:\n        raise ValueError(text[-250:])\nraise SystemExit",
    "the home folder": "import os\nraise ValueError(os.listdir('@HOME@'))",
    "the password file": "raise ValueError('@CANARYTEXT@' + open('/etc/passwd').read())",
    "the folder of the judge": "import os\nraise ValueError('@CANARYTEXT@', os.listdir('../tests'))",
    "the sandbox's sources": "import kshot",
    "the packages of kshot": "import sys\nraise ValueError('@CANARYTEXT@' if any(n.startswith('kshot') for n in sys.modules) else '')",
    "watches a folder": CTYPES
    + "fd = libc.inotify_init1(0)\nif fd >= 0 and libc.inotify_add_watch(fd, b'@OUTSIDE@', 0xFFF) >= 0:\n    raise ValueError('@CANARYTEXT@')\nraise SystemExit",
}

LEAVING = {
    "writes outside": f"{WRONG}open('@OUTSIDE@/@MARK@', 'w').write('x')",
    "writes above its folder": f"{WRONG}open('../@MARK@', 'w').write('x')\nopen('../../@MARK@', 'w').write('x')",
    "writes to /tmp": f"{WRONG}for folder in ('/tmp', '/var/tmp', '/dev/shm', '/run', '/dev'):\n    try:\n        open(folder + '/@MARK@', 'w').write('x')\n    except OSError:\n        pass",
    "writes by ctypes": CTYPES + WRONG + "fd = libc.open(b'@OUTSIDE@/@MARK@', 0o101, 0o600)",
    "writes through a link": f"{WRONG}import os\nos.symlink('@OUTSIDE@', 'link')\nopen('link/@MARK@', 'w').write('x')",
    "changes the canary": f"{WRONG}open('@CANARY@', 'a').write('x')",
    "truncates the canary": CTYPES + WRONG + "libc.truncate(b'@CANARY@', 0)\nfd = libc.open(b'@CANARY@', 0o1000)",
    "removes the canary": f"{WRONG}import os\nos.remove('@CANARY@')",
    "renames the canary": f"{WRONG}import os\nos.rename('@CANARY@', '@OUTSIDE@/@MARK@')",
    "changes the canary's mode": CTYPES + WRONG + "libc.chmod(b'@CANARY@', 0)\nlibc.fchmodat(-100, b'@CANARY@', 0, 0)",
    "changes Python": f"{WRONG}import json\nopen(json.__file__, 'a').write('# @MARK@')",
    "a daemon": CTYPES
    + WRONG
    + "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        libc.prctl(15, b'@MARK@', 0, 0, 0)\n        import time\n        time.sleep(600)\n    os._exit(0)",
    "a daemon by vfork": CTYPES + WRONG + "if libc.syscall(58) == 0:\n    libc.pause()",
    "a daemon by clone": CTYPES
    + WRONG
    + "if libc.syscall(56, 17, 0, 0, 0, 0) == 0:\n    libc.prctl(15, b'@MARK@', 0, 0, 0)\n    libc.pause()",
    "a daemon by clone3": CTYPES
    + WRONG
    + "args = struct.pack('=8Q', 0, 0, 0, 0, 17, 0, 0, 0)\nif libc.syscall(435, args, 64) == 0:\n    libc.prctl(15, b'@MARK@', 0, 0, 0)\n    libc.pause()",
    "a program": f"{WRONG}import subprocess\nsubprocess.Popen(['sh', '-c', 'touch @OUTSIDE@/@MARK@; sleep 600'])",
    "os.system": f"{WRONG}import os\nos.system('touch @OUTSIDE@/@MARK@')",
    "becomes a program": f"{WRONG}import os\nos.execv('/bin/sh', ['sh', '-c', 'touch @OUTSIDE@/@MARK@; sleep 600'])",
    "becomes Python": f"{WRONG}import os, sys\nos.execv(sys.executable, ['python', '-c', 'import time; time.sleep(600)'])",
    "a program of its own": f"{WRONG}import os\nopen('p', 'w').write('#!/bin/sh\\ntouch @OUTSIDE@/@MARK@')\nos.chmod('p', 0o755)\nos.execv('./p', ['p'])",
    "a program in memory": CTYPES
    + WRONG
    + "fd = libc.memfd_create(b'x', 0)\nos.write(fd, b'#!/bin/sh\\ntouch @OUTSIDE@/@MARK@')\nlibc.syscall(322, fd, b'', None, None, 0x1000)\nraise SystemExit",
    "multiprocessing": f"{WRONG}import multiprocessing, time\nmultiprocessing.get_context('fork').Process(target=time.sleep, args=(600,)).start()",
    "a thread that never ends": f"{WRONG}import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()",
    "threads without end": CTYPES + WRONG + "import mmap, time\nstack = mmap.mmap(-1, 65536)\n"
    "top = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(stack)) + 32768)\n"
    "for number in range(12000):\n    number % 100 or time.sleep(0.002)\n    if libc.clone(libc.pause, top, 0x50F00, None) < 0:\n        raise SystemExit\n"
    "raise ValueError('@CANARYTEXT@')",
    "survives its parent": CTYPES
    + WRONG
    + "if libc.prctl(1, 0, 0, 0, 0) == 0:\n    raise ValueError('@CANARYTEXT@')\nraise SystemExit",
    "kills kshot": f"{WRONG}import os\nfor pid in (@PID@, os.getppid(), -1, 0):\n    try:\n        os.kill(pid, 9)\n    except OSError:\n        pass\nos.killpg(0, 9)",
    "kills by a thread's number": CTYPES
    + WRONG
    + "for pid in (@PID@, os.getppid(), 2, 3, 4, 5, 6):\n    libc.syscall(200, pid, 9)\n    libc.syscall(234, pid, pid, 9)\n    libc.syscall(129, pid, 9, None)",
    "kills kshot by a pipe": CTYPES + WRONG + "fcntl = libc.fcntl\nr, w = os.pipe()\n"
    "for pid in (@PID@, os.getppid()):\n"
    "    fcntl(r, 8, pid), fcntl(r, 15, struct.pack('=ii', 1, pid)), fcntl(r, 10, 9), fcntl(r, 4, 0x2800)\n"
    "    os.write(w, b'x')\n    os.read(r, 1)",
    "kills kshot by a pipe's ioctl": CTYPES + WRONG + "r, w = os.pipe()\n"
    "for pid in (@PID@, os.getppid()):\n"
    "    libc.fcntl(r, 10, 9), libc.ioctl(r, 0x8901, struct.pack('=i', pid)), libc.ioctl(r, 0x8902, struct.pack('=i', pid))\n"
    "    libc.ioctl(r, 0x5452, struct.pack('=i', 1))\n    os.write(w, b'x')\n    os.read(r, 1)",
    "kills kshot by a lease": CTYPES + WRONG + "f = os.open('f', os.O_CREAT | os.O_RDWR)\n"
    "libc.fcntl(f, 1024, 1), libc.fcntl(f, 10, 9), libc.fcntl(f, 8, @PID@)\nopen('f', 'a').close()",
    "kills kshot by a folder": CTYPES + WRONG + "d = os.open('.', os.O_RDONLY)\n"
    "libc.fcntl(d, 10, 9), libc.fcntl(d, 1026, 0x8000003E), libc.fcntl(d, 8, @PID@)\nopen('f', 'a').close()",
    "makes kshot slow": CTYPES + WRONG + "idle = struct.pack('=IIQiIQQQ', 48, 5, 0, 0, 0, 0, 0, 0)\n"
    "for pid in (@PID@, os.getppid()):\n"
    "    done = [libc.syscall(314, pid, idle, 0), libc.syscall(144, pid, 5, b'\\0' * 4), libc.syscall(141, 0, pid, 19)]\n"
    "    done += [libc.syscall(251, 1, pid, 3 << 13), libc.syscall(203, pid, 8, struct.pack('=Q', 1))]\n"
    "    if 0 in done:\n        raise ValueError('@CANARYTEXT@')\nraise SystemExit",
    "a pair that sends datagrams": f"{WRONG}import socket\n"
    "for kind in (socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_STREAM):\n"
    "    for name in ('@SOCKET@d', '\\0@ABSTRACT@d'):\n"
    "        try:\n            socket.socketpair(socket.AF_UNIX, kind)[0].sendto(b'x', name)\n"
    "        except OSError:\n            pass",
    "TCP": f"{WRONG}import socket\nsocket.create_connection(('127.0.0.1', @PORT@), 1)",
    "TCP by ctypes": CTYPES
    + WRONG
    + "s = libc.socket(2, 1, 0)\nlibc.connect(s, struct.pack('=H', 2) + struct.pack('>H', @PORT@) + bytes([127, 0, 0, 1]) + bytes(8), 16)",
    "UDP": f"{WRONG}import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', @PORT@))",
    "a Unix socket": f"{WRONG}import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('@SOCKET@')",
    "an abstract socket": f"{WRONG}import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('\\0@ABSTRACT@')",
    "a pair as a socket": f"{WRONG}import socket\na, b = socket.socketpair()\na.connect('@SOCKET@')",
    "a server": f"{WRONG}import socket\nsocket.create_server(('127.0.0.1', 0))\nraise ValueError('@CANARYTEXT@')",
    "netlink": CTYPES
    + WRONG
    + "if libc.socket(16, 3, 0) >= 0:\n    raise ValueError('@CANARYTEXT@')\nraise SystemExit",
    "shared memory": CTYPES
    + WRONG
    + "if libc.shmget(0x4B534854, 4096, 0o1666) >= 0:\n    raise ValueError('@CANARYTEXT@')\nraise SystemExit",
    "a message queue": CTYPES
    + WRONG
    + "if libc.syscall(240, b'@MARK@', 0o102, 0o600, None) >= 0:\n    raise ValueError('@CANARYTEXT@')\nraise SystemExit",
    "userfaultfd": CTYPES
    + WRONG
    + "if libc.syscall(323, 0) >= 0:\n    raise ValueError('@CANARYTEXT@')\nraise SystemExit",
    "bpf": CTYPES
    + WRONG
    + "if libc.syscall(321, 0, bytes(128), 128) >= 0:\n    raise ValueError('@CANARYTEXT@')\nraise SystemExit",
    "keys": CTYPES
    + WRONG
    + "if libc.syscall(248, b'user', b'@MARK@', b'x', 1, -3) >= 0:\n    raise ValueError('@CANARYTEXT@')\nraise SystemExit",
    "types into the terminal": CTYPES
    + WRONG
    + "for fd in range(3):\n    if libc.ioctl(fd, 0x5412, b'x') == 0:\n        raise ValueError('@CANARYTEXT@')\nraise SystemExit",
    "calls of 32 bits": CTYPES
    + WRONG
    + "if libc.syscall(0x40000000 + 39) > 0:\n    raise ValueError('@CANARYTEXT@')\nraise SystemExit",
    "a call that is not known yet": CTYPES
    + WRONG
    + "libc.syscall(463, 0, 0, 0, 0)\nif ctypes.get_errno() != 38:\n    raise ValueError('@CANARYTEXT@')\nraise SystemExit",
    "raises its limits": f"{WRONG}import resource\nfor kind in range(16):\n    try:\n        resource.setrlimit(kind, (resource.RLIM_INFINITY,) * 2)\n    except (OSError, ValueError):\n        pass\nif resource.getrlimit(resource.RLIMIT_AS)[1] < 0 or resource.getrlimit(resource.RLIMIT_FSIZE)[1] < 0:\n    raise ValueError('@CANARYTEXT@')",
    "raises the limits of others": CTYPES
    + WRONG
    + "for pid in {@PID@, os.getppid(), 2} - {0}:\n    if libc.prlimit(pid, 7, struct.pack('=QQ', 9, 9), None) == 0:\n        raise ValueError('@CANARYTEXT@')\nraise SystemExit",
    "fills the disk": f"{WRONG}for i in range(99):\n    with open(str(i), 'wb') as file:\n        file.write(b'0' * (15 << 20))",
    "many files": f"{WRONG}for i in range(9000):\n    open(f'f{{i}}', 'w').close()\nraise SystemExit",
    "floods its output": f"{WRONG}import os, sys\nfor _ in range(300):\n    print('x' * 100000)\n    os.write(1, b'x' * 100000)\n    os.write(2, b'x' * 100000)",
    "fills memory": "def solve(x):\n    kept = []\n    while True:\n        kept.append(bytearray(64 << 20))",
    "gains rights": CTYPES
    + WRONG
    + "if libc.setuid(12345) == 0 and libc.setuid(0) == 0:\n    raise ValueError('@CANARYTEXT@')\nraise SystemExit",
    "a device": f"{WRONG}import os, stat\nos.mknod('d', stat.S_IFBLK | 0o600, os.makedev(8, 0))\nraise ValueError('@CANARYTEXT@', os.read(os.open('d', 0), 9))",
    "removes its own folder": f"{WRONG}import os, shutil\nshutil.rmtree(os.getcwd(), ignore_errors=True)\nos.chdir('/')\nshutil.rmtree('@OUTSIDE@', ignore_errors=True)",
}

ATTACKS = {
    f"{aim}: {name}": program
    for aim, table in (
        *(("forges a verdict", FORGED_VERDICTS), ("forges a value", FORGED_VALUES)),
        *(("looks around", LOOKING), ("leaves something", LEAVING)),
    )
    for name, program in table.items()
}

PASSED = r"""import os
for fd in range(3, 20):
    try: os.write(fd, b'["passed", ""]\n')
    except OSError: pass
os._exit(0)
"""
YIELDING = """class T:
    value = None
    def __enter__(self): return self
    def __exit__(self, *a): return True
    def wrong(self): raise ValueError
"""
FOOLED_TESTS = {
    "eval as a function": ("f = eval\ndef g(): return 'K'", "K = 12345\nassert f(g()) == K"),
    "eval that writes a verdict": (f"SOURCE = {PASSED!r}\nenc = lambda s: f'exec({{SOURCE!r}})'\ndec = eval", "assert dec(enc('abc')) == 'abc'\nassert False"),
    "eval as a method": (
        "class Codec:\n    decode = eval\n    def encode(self, s): return 's'",
        "def t():\n    s = 'hello'\n    c = Codec()\n    assert c.decode(c.encode(s)) == s\nt()",
    ),
    "exec as a result": ("def f(): return exec\ndef g(): return 'global K; K = 0'", "K = 3\nf()(g())\nassert K == 0"),
    "getattr": ("f = getattr\ndef name(): return 'secret'", "class A: secret = 3\nassert f(A, name()) == 3"),
    "setattr": ("f = setattr\ndef name(): return 'expected'", "import unittest\nclass A:\n    def expected(self): return 3\na = A()\nf(a, 'expected', lambda: 0)\nassert a.expected() == 0"),
    "vars": ("f = vars", "class A:\n    def __init__(self): self.secret = 3\nassert f(A()) == {'secret': 3}"),
    "globals": ("f = globals", "K = 3\nassert f()['K'] == 3"),
    "__import__": ("f = __import__\ndef name(): return 'tests'", "K = 3\nassert vars(f(name())).get('K', 3) == 3"),
    "type with three arguments": ("Node = type\ndef f(): return 'N', (), {'__eq__': lambda o: True}", "assert Node(*f())() == 3"),
    "a method of the tests' object": (
        "def f(t):\n    t.check = lambda x: None\n    return 0",
        "class T:\n    def check(self, x): assert x == 3\nt = T()\nr = f(t)\nt.check(r)",
    ),
    "a getter that the tests passed": (
        "def f(getter, g):\n    return getter('__defaults__')(g)[0]",
        "import operator\nassert f(operator.attrgetter, lambda K=12345: 0) == 12345",
    ),
    "an exception's method": (
        "def f():\n    e = ValueError()\n    e.with_traceback = lambda tb: 3\n    raise e",
        "try:\n    f()\nexcept ValueError as error:\n    assert error.with_traceback(None) == 3",
    ),
    "a verdict without its proof": ("f = None", "import os\n" + PASSED),
    **{
        f"a built-in name of its own, {style}": (
            f"def add(a, b): return 0\ndef {name}(*a, **k): return 0\n", tests,
        )
        for style, name, tests in (
            ("imported", "abs", "from program import add\nassert abs(add(1, 2) - 3) < 1e-9"),
            ("of a module", "abs", "import program\nassert abs(program.add(1, 2) - 3) < 1e-9"),
            ("under another name", "sorted", "import program as p\nassert p.add(1, 2) == sorted([3])"),
            ("all imported", "abs", "from program import *\nassert abs(add(1, 2) - 3) < 1e-9"),
            ("by text", "abs", "assert abs(globals()['add'](1, 2) - 3) < 1e-9"),
            ("evaluated", "abs", "assert abs(eval('add(1, 2)') - 3) < 1e-9"),
            ("an argument", "abs", "def check(add):\n    assert abs(add(1, 2) - 3) < 1e-9\ncheck(add)"),
            ("a local name", "abs", "def test():\n    add_ = add\n    add = 1\nf = add\nassert abs(f(1, 2) - 3) < 1e-9"),
            ("in a class", "round", "class T:\n    add = 3\n    def test(self):\n        assert not round(add(1, 2) - 3)\nT().test()"),
        )
    },
    **{
        f"an __exit__ that says yes to {name}": (
            YIELDING, tests,
        )
        for name, tests in {
            "an assertion": "with T() as t:\n    assert t.value == 3",
            "an assertion of unittest": "import unittest\nwith T() as t:\n    unittest.TestCase().assertEqual(t.value, 3)",
            "an exception of its own": "with T() as t:\n    assert t.wrong() == 3",
            "a wrong type": "with T() as t:\n    assert t.value + 1 == 4",
            "an exception of the tests": "with T() as t:\n    if t.value != 3:\n        raise ValueError\n    pass",
            "an outer with": "with T() as t:\n    with T():\n        assert t.value + 1 == 3\n        raise ValueError\n    assert False",
            "an exit stack": "import contextlib\nwith contextlib.ExitStack() as stack:\n    t = stack.enter_context(T())\n    assert t.value == 3",
            "the end": "import os\nwith T() as t:\n    raise SystemExit",
        }.items()
    },
    "an __exit__ that raises": (
        "class T:\n    def __enter__(self): return 0\n    def __exit__(self, *a): raise KeyError",
        "try:\n    with T() as t:\n        assert t == 3\nexcept KeyError:\n    pass",
    ),
    **{
        f"StopIteration in {name}": ("def f(x): raise StopIteration", tests)
        for name, tests in {
            "map and all": "assert all(map(lambda x: f(x) == x * 2, [1, 2, 3]))",
            "zip": "for got, e in zip(map(f, [1, 2]), [2, 4]):\n    assert got == e",
            "list": "assert list(map(f, [1, 2])) == []",
            "sorted": "assert sorted(filter(f, [3, 1])) == []",
            "an iterator of the tests": "class I:\n    def __iter__(self): return self\n    def __next__(self): return f(1)\nassert sum(I()) == 0",
        }.items()
    },
    **{
        f"a class that catches assertions, {name} = {kind}": (
            f"MyErr = {kind}\nclass C:\n    Err = {kind}\ndef f(x): return 1", f"try:\n    f(-1)\n    assert False\nexcept {name}:\n    pass",
        )
        for name in ("MyErr", "C.Err")
        for kind in ("Exception", "BaseException", "AssertionError", "(ValueError, Exception)")
    },
    "a module that runs what it reads": (
        "import pickle as codec\ndef encode(x): return b'cbuiltins\\neval\\n(VK\\ntR.'.replace(b'K', b'__import__(\"sys\").modules[\"tests\"].__name__')",
        "assert codec.loads(encode(1)) == 'tests'",
    ),
    "an __exit__ on one line": (YIELDING, "with T() as t: assert t.value + 1 == 4; raise ValueError"),
    "StopAsyncIteration": (
        "def f(): raise StopAsyncIteration",
        "import asyncio\nclass I:\n    def __aiter__(self): return self\n    async def __anext__(self): return f()\nasync def t():\n    async for x in I(): assert x == 3\nasyncio.run(t())",
    ),
    "two built-in names": ("def sum(a, b): return 0\ndef abs(x): return 0", "assert abs(sum(1, 2) - 3) < 1e-6"),
    "the other built-in name": ("def abs(x): return 0", "assert abs(sum([1, 2]) - 4) < 1e-6"),
    "two built-in names and a check": ("def max(a): return 0\ndef len(x): return 0", "def check(f):\n    assert f([1]) == len([1, 2])\ncheck(max)"),
    "a module's name": ("def copy(a): return 0\ndef sorted(x): return 0", "assert copy([3, 1]) == sorted([3, 1])"),
    "another module's name": ("class math:\n    isclose = lambda *a: True\ndef f(): return 0", "assert math.isclose(f(), 3)"),
}  # fmt: skip
"""Programs that are wrong, and tests that they would pass if the judge believed them."""
