"""The classes in the place of pycocotools, for code that imports it."""

from __future__ import annotations

import sys
from importlib.util import find_spec
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
    package, spec = ModuleType("pycocotools", __doc__), find_spec("pycocotools")
    folders = [] if spec is None else [*(spec.submodule_search_locations or ())]
    vars(package).update(coco=data_set, cocoeval=evaluation, __path__=folders)
    modules = {"pycocotools": package, "pycocotools.coco": data_set, "pycocotools.cocoeval": evaluation}
    _before.update({name: sys.modules.get(name) for name in modules})
    sys.modules.update(modules)


def uninstall() -> None:
    """Undo `install`: what imports pycocotools from now on gets pycocotools again."""
    for name, module in _before.items():
        if module is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = module
    _before.clear()
