"""Modules of installed packages of others, without what these import and do not use for their numbers.

A package of a detector or of metric learning imports torchvision, whose wheels fit one build of torch alone, and much
else. Its evaluation is in a few files, which are imported here without the `__init__` of their parents.
"""

import importlib
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest


@contextmanager
def modules_of(package: str, absent: Sequence[str] = ()) -> Iterator[Callable[[str], Any]]:
    """Skip the test unless a package is installed; give a function that imports a module of it by its full name.

    Every name of the packages `absent` is an empty class, and so is every attribute of one. All modules are forgotten
    at the end. The package is one that is installed: other tests put folders of examples on the path, and one of them
    has the name of a package.
    """
    spec = PathFinder.find_spec(package, [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed")
    root = Path(spec.origin).parent

    def import_module(name: str) -> Any:
        parents = name.split(".")[:-1]
        for depth in range(1, len(parents) + 1):
            parent = ModuleType(".".join(parents[:depth]))
            parent.__path__ = [str(root.joinpath(*parents[1:depth]))]
            sys.modules.setdefault(parent.__name__, parent)
        return importlib.import_module(name)

    with mock.patch.dict(sys.modules), mock.patch.object(sys, "meta_path", [*sys.meta_path, _Absent(absent)]):
        for name in [name for name in sys.modules if name.partition(".")[0] == package]:
            del sys.modules[name]
        yield import_module


class _Absent(MetaPathFinder, Loader):
    """Finds packages that are not installed."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = packages

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in self.packages else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _EmptyClasses(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is executed."""


class _EmptyClasses(ModuleType):
    def __getattr__(self, name: str) -> type:
        return _empty_class(name)


class _EmptyClass(type):
    def __getattr__(cls, name: str) -> type:
        return _empty_class(name)


def _empty_class(name: str) -> type:
    if name.startswith("__"):
        raise AttributeError(name)
    return _EmptyClass(name, (), {"__init__": lambda *_, **__: None})
