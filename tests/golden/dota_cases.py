"""Loads what DOTA_devkit gave for random problems, see `README.md` beside this file."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[Any]
TENTHS, IMAGES, SCORES = 10, 2, 8
RULES = ("voc", "voc07")


@cache
def arrays() -> dict[str, Array]:
    with np.load(Path(__file__).parent / "dota.npz") as file:
        return dict(file)


def images() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The images of all problems, as `VocMAP.update` takes them.

    The classes of a problem are its own, 2 * problem and the next, so that all are evaluated at once.
    """
    found, truths = (_by_image(side, f"{side.removesuffix('s')}_corners") for side in ("found", "truths"))
    preds = [_columns(rows) | {"scores": torch.from_numpy(rows[:, 3] / SCORES)} for rows in found]
    return preds, [_columns(rows) | {"difficult": torch.from_numpy(rows[:, 3] > 0)} for rows in truths]


def pairs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Pairs of polygons, and their overlaps."""
    first, second = (torch.from_numpy(each / TENTHS) for each in arrays()["pairs"].swapaxes(0, 1))
    return first, second, torch.from_numpy(arrays()["overlaps"])


def _by_image(*names: str) -> list[Array]:
    """Rows of problem, image, class, score or flag, and corners."""
    numbers, corners = (arrays()[name] for name in names)
    rows, image = np.concatenate([numbers, corners / TENTHS], 1), IMAGES * numbers[:, 0] + numbers[:, 1]
    return [rows[image == number] for number in range(IMAGES * len(arrays()["average_precision"]))]


def _columns(rows: Array) -> dict[str, Any]:
    given = torch.from_numpy(rows)
    return {"rotated_boxes": given[:, 4:], "labels": (2 * given[:, 0] + given[:, 2]).long()}
