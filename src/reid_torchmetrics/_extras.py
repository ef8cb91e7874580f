"""Packages that only some parts need, and the extras of this package that install them."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

_EXTRAS = {
    "matplotlib": ("Matplotlib", "plot"),
    "PIL": ("Pillow", "plot"),
    "lightning": ("Lightning", "lightning"),
    "yaml": ("PyYAML", "command"),
    "safetensors": ("safetensors", "files"),
    "pyarrow": ("pyarrow", "files"),
    "h5py": ("h5py", "files"),
    "orjson": ("orjson", "files"),
}
"""by the name of a package: its title, and the extra"""

pictures: Callable[[], Any]
"""gives the room of pictures; the package's face sets it, for the engine knows no tool"""


def require(what: str, *packages: str) -> None:
    """Raise unless packages are installed, before any work is done for `what`.

    Raises:
        ModuleNotFoundError: one is not; the message says what to install.
    """
    for package in (each for each in packages if find_spec(each) is None):
        title, extra = _EXTRAS[package]
        raise ModuleNotFoundError(f"{what} needs {title}: pip install 'reid-torchmetrics[{extra}]'.", name=package)


def find_orjson() -> Any:
    """Return orjson, a reader of JSON several times as fast as Python's; None if it is not installed."""
    if find_spec("orjson") is None:
        return None
    import orjson  # noqa: PLC0415 - optional

    return orjson
