"""Inventories of other projects' references, where there is a network; without one, names are not linked."""

from __future__ import annotations

import http.client
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REFERENCES = {
    "python": "https://docs.python.org/3",
    "torch": "https://docs.pytorch.org/docs/stable",
    "torchmetrics": "https://lightning.ai/docs/torchmetrics/stable",
    "lightning": "https://lightning.ai/docs/pytorch/stable",
}
SECONDS = 3  # that a site has for its answer


def reachable_references(folder: Path) -> dict[str, tuple[str, str]]:
    """What `intersphinx_mapping` takes: address and inventory of each project whose site answers."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / f"{name}.inv" for name in REFERENCES}
    with ThreadPoolExecutor() as threads:
        found = dict(zip(paths, threads.map(_fetch, REFERENCES.values(), paths.values()), strict=True))
    return {name: (REFERENCES[name], str(paths[name])) for name in REFERENCES if found[name]}


def _fetch(address: str, path: Path) -> bool:
    """Whether the inventory is there; one of an earlier build will do."""
    try:
        with urllib.request.urlopen(f"{address}/objects.inv", timeout=SECONDS) as answer:  # noqa: S310 - https, see above
            inventory = answer.read()
    except (OSError, http.client.HTTPException):
        return path.exists()
    if inventory.startswith(b"# Sphinx inventory"):
        path.write_bytes(inventory)
    return path.exists()
