"""Stand-ins for packages that a home imports and the reference environment has not (torch, vllm, …).

The rendering of prompts, the clean-ups and most evaluators need none of them: they are imported beside. A stand-in can
be imported, subclassed and used as a decorator; whatever else is done with it gives another one.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types


class _Anything(type):
    """The class of stand-in classes: every attribute is another one."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _made(name)

    def __getitem__(cls, item):
        return cls

    def __or__(cls, other):
        return cls

    __ror__ = __or__

    def __iter__(cls):
        return iter(())


def _made(name):
    return _Anything(name, (), {"__init__": _take_all, "__call__": _call, "__getattr__": _attribute, **_CONTEXT})


def _take_all(self, *args, **kwargs):
    pass


def _call(self, *args, **kwargs):
    if len(args) == 1 and callable(args[0]) and not kwargs:
        return args[0]  # as a decorator
    return _made("result")()


def _attribute(self, name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _made(name)()


_CONTEXT = {
    "__enter__": lambda self: self,
    "__exit__": lambda self, *held: False,
    "__bool__": lambda self: False,
    "__index__": lambda self: 0,
    "__len__": lambda self: 0,
    "__iter__": lambda self: iter(()),
}


class _Module(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        found = _made(name)
        setattr(self, name, found)
        return found


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The last finder: whatever the home imports and nobody else finds is a stand-in."""

    def __init__(self, *own):
        self.own, self.given = own, []

    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        if root in self.own or root in sys.stdlib_module_names or root.startswith("_"):
            return None
        if "." in name and not isinstance(sys.modules.get(root), _Module):
            return None  # a part that an installed package lacks
        if not self._asked_by_home(root):
            return None
        self.given.append(name)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def _asked_by_home(self, root):
        """Whether the home itself imports it: an installed package that looks for another one is told the truth."""
        frame = sys._getframe(2)
        while frame is not None and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        asker = "" if frame is None else frame.f_globals.get("__name__", "").partition(".")[0]
        return asker in self.own or (asker == "mmengine" and root == "torch")

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        module.__path__ = []
        module.__version__ = "2.0.0"


def install(*own):
    """Let missing packages be stand-ins, but for those of the home itself."""
    finder = Finder(*own)
    sys.meta_path.append(finder)
    return finder
