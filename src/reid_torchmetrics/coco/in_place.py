"""Replacement of pycocotools in `sys.modules` by the modules of this package, for code that imports it."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from types import ModuleType

from . import data_set, evaluation

_replaced: dict[str, ModuleType | None] = {}
"""modules in `sys.modules` before `install`, by name; empty if it was not called"""


def install() -> None:
    """Replace pycocotools by the `COCO` and `COCOeval` of this package for all code that imports it from now on.

    Call this before you import code that imports pycocotools. `pycocotools.mask` remains that of pycocotools, and is
    missing if pycocotools is not installed. `uninstall` undoes the replacement.
    """
    if _replaced:
        return
    # The package needs a spec so that `find_spec` finds it.
    package = module_from_spec(find_spec("pycocotools") or ModuleSpec("pycocotools", None, is_package=True))
    vars(package).update(coco=data_set, cocoeval=evaluation)
    for module in (data_set, evaluation):
        vars(module)["__getattr__"] = _masks
    # Replace all three: Python does not search a package for a module that is imported already.
    modules = {"pycocotools": package, "pycocotools.coco": data_set, "pycocotools.cocoeval": evaluation}
    _replaced.update({name: sys.modules.get(name) for name in modules})
    sys.modules.update(modules)


def uninstall() -> None:
    """Undo `install`: code that imports pycocotools from now on gets pycocotools again."""
    for name, module in _replaced.items():
        sys.modules.pop(name, None)
        if module is not None:
            sys.modules[name] = module
    for module in (data_set, evaluation):
        vars(module).pop("__getattr__", None)
    _replaced.clear()


def _masks(name: str) -> ModuleType:
    """Return `pycocotools.mask` for the name `maskUtils` in modules of pycocotools; serves as their `__getattr__`."""
    if name != "maskUtils":
        raise AttributeError(f"`pycocotools` must be asked for a name that it has; got {name!r}.")
    return import_module("pycocotools.mask")
