"""Replacement of pycocotools in `sys.modules` by the classes of this package, for code that imports it."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from types import ModuleType

from . import data_set, evaluation

_before: dict[str, ModuleType | None] = {}


def install() -> None:
    """Put `COCO` and `COCOeval` in the place of pycocotools: what imports it from now on gets them.

    Call it before the code that imports pycocotools is imported. `pycocotools.mask` remains that of pycocotools, and
    is missing where pycocotools is not installed. `uninstall` undoes it.
    """
    if _before:
        return
    # With a spec, so that `find_spec` tells that it is there.
    package = module_from_spec(find_spec("pycocotools") or ModuleSpec("pycocotools", None, is_package=True))
    vars(package).update(coco=data_set, cocoeval=evaluation)
    for module in (data_set, evaluation):
        vars(module)["__getattr__"] = _masks
    # All three at once: a module that is imported already is never looked for in its package.
    modules = {"pycocotools": package, "pycocotools.coco": data_set, "pycocotools.cocoeval": evaluation}
    _before.update({name: sys.modules.get(name) for name in modules})
    sys.modules.update(modules)


def uninstall() -> None:
    """Undo `install`: what imports pycocotools from now on gets pycocotools again."""
    for name in _before:
        sys.modules.pop(name, None)
    sys.modules.update({name: module for name, module in _before.items() if module is not None})
    for module in (data_set, evaluation):
        vars(module).pop("__getattr__", None)
    _before.clear()


def _masks(name: str) -> ModuleType:
    """`pycocotools.mask` by the name that both modules of pycocotools have for it; a module's `__getattr__`."""
    if name != "maskUtils":
        raise AttributeError(f"`pycocotools` must be asked for a name that it has; got {name!r}.")
    return import_module("pycocotools.mask")
