"""Optional packages, and the extras of this package that install them."""

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
"""the title of each package, and the extra that installs it"""

pictures: Callable[[], Any]
"""Return the package `reid_torchmetrics.plot`. `reid_torchmetrics/__init__.py` sets this function, because the engine
does not import the tools."""


def require(purpose: str, *packages: str) -> None:
    """Raise unless all packages are installed that `purpose` needs, before any work is done.

    Raises:
        ModuleNotFoundError: a package is not installed; the message says how to install it.
    """
    for package in packages:
        if find_spec(package) is None:
            title, extra = _EXTRAS[package]
            message = f"{purpose} needs {title}: pip install 'reid-torchmetrics[{extra}]'."
            raise ModuleNotFoundError(message, name=package)


def find_orjson() -> Any:
    """Return orjson, a reader of JSON several times as fast as Python's; None if it is not installed."""
    if find_spec("orjson") is None:
        return None
    import orjson  # noqa: PLC0415 - optional

    return orjson
