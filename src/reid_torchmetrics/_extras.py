"""Optional packages, and the extras of this package that install them."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

_INSTALL_EXTRA = "pip install '.[{extra}]' in a clone of the repository"
"""the command that installs an extra, as long as the package is not on PyPI"""
_EXTRAS = {
    "matplotlib": ("Matplotlib", "plot"),
    "PIL": ("Pillow", "plot"),
    "lightning": ("Lightning", "lightning"),
    "yaml": ("PyYAML", "command"),
    "safetensors": ("safetensors", "files"),
    "pyarrow": ("pyarrow", "files"),
    "h5py": ("h5py", "files"),
    "pandas": ("pandas", None),
}
"""the title of each package, and the extra that installs it; None: the package is installed by itself"""

pictures: Callable[[], Any]
"""Return the package `reid_torchmetrics.plot`. `reid_torchmetrics/__init__.py` sets this function, because the engine
does not import the tools."""

files: Callable[[], Any]
"""Return the package `reid_torchmetrics.files`, set likewise."""

diagnosis: Callable[[], Any] | None = None
"""Return the package `reid_torchmetrics.diagnosis`, set likewise; None where it is absent."""


no_attribute: Callable[[str, str], Exception]
"""Return the error for a name that a module does not have, with a hint at its place, from both; set likewise."""


name_in: Callable[[str, str], Any]
"""Return a name of a module of this package, which is imported by its own name; set likewise."""


moved: Callable[[str, str], Any]
"""Return what a module of the engine had by a name, and a task has now; None for other names; set likewise."""


def names_elsewhere(module: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module: names that moved from it to tasks, and hints at other names."""

    def find(name: str) -> Any:
        value = moved(module, name)
        if value is None:
            raise no_attribute(module, name)
        return value

    return find


def require(purpose: str, *packages: str) -> None:
    """Raise unless all packages are installed that `purpose` needs, before any work is done.

    Raises:
        ModuleNotFoundError: a package is not installed; the message says how to install it.
    """
    for package in packages:
        if find_spec(package) is None:
            title, extra = _EXTRAS[package]
            remedy = f"pip install {package}" if extra is None else _INSTALL_EXTRA.format(extra=extra)
            raise ModuleNotFoundError(f"{purpose} needs {title}: {remedy}.", name=package)
