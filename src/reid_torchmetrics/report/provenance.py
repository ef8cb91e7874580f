"""Where the numbers come from: versions, and all settings as JSON."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from reid_torchmetrics.report.elements import as_json, details, element, table
from reid_torchmetrics.report.page import Section


def versions() -> dict[str, str]:
    """Versions of what computed the numbers."""
    from reid_torchmetrics import __version__  # noqa: PLC0415 - the package imports this module

    return {
        "reid_torchmetrics": __version__,
        "torch": str(torch.__version__),
        "torchmetrics": _version_of("torchmetrics"),
        "python": platform.python_version(),
    }


def _version_of(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "unknown"


def provenance_section(data: dict[str, Any]) -> Section:
    """Versions, then all that the page is about as JSON."""
    shown = table("Versions", ("package", "version"), data["versions"].items())
    code = element("pre", element("code", as_json(data)), tabindex="0")
    return Section("provenance", "Provenance", [shown, details("Settings and numbers as JSON", code)])
