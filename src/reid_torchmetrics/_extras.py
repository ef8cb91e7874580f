"""Packages that only some parts need, and the extras of this package that install them."""

from __future__ import annotations

from importlib.util import find_spec

_EXTRAS = {
    "matplotlib": ("Matplotlib", "plot"),
    "PIL": ("Pillow", "plot"),
    "lightning": ("Lightning", "lightning"),
    "jsonargparse": ("jsonargparse", "command"),
    "docstring_parser": ("docstring-parser", "command"),
}
"""by the name of a package: its title, and the extra"""


def require(what: str, *packages: str) -> None:
    """Raise unless packages are installed, before any work is done for `what`.

    Raises:
        ModuleNotFoundError: one is not; the message says what to install.
    """
    for package in packages:
        if find_spec(package) is None:
            title, extra = _EXTRAS[package]
            raise ModuleNotFoundError(f"{what} needs {title}: pip install 'reid-torchmetrics[{extra}]'.", name=package)
