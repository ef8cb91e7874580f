"""Reads a Market-1501 folder (Zheng et al., "Scalable Person Re-identification: A Benchmark", 2015)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from PIL import Image

from reid.person_dataset import PersonDataset, Splits

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

WIDTH, HEIGHT = 64, 128
NAME = re.compile(r"(?P<identity>-1|\d{4})_c(?P<camera>\d)s(?P<sequence>\d)_(?P<frame>\d+)_(?P<box>\d+)\.(jpg|png)")


class MarketName(NamedTuple):
    """What the name of a picture says: `0002_c1s1_000451_03.jpg` is person 2 seen by camera 1."""

    identity: int
    camera: int
    sequence: int
    frame: int
    box: int


def parse_name(name: str) -> MarketName:
    """Read the name of a picture; identity -1 is junk, identity 0 a distractor.

    Raises:
        ValueError: where `name` is not of the form `0002_c1s1_000451_03.jpg`.
    """
    match = NAME.fullmatch(name)
    if match is None:
        msg = f"{name!r} is not a Market-1501 name such as '0002_c1s1_000451_03.jpg'."
        raise ValueError(msg)
    return MarketName(**{field: int(match[field]) for field in MarketName._fields})


class MarketFolder(PersonDataset):
    """The pictures of one folder, read from disk when asked for."""

    def __init__(self, folder: Path) -> None:
        """List the pictures of `folder`; other files, such as the `Thumbs.db` of the original archive, are left alone.

        Raises:
            FileNotFoundError: where there is no picture.
        """
        self.files = sorted(file for file in folder.glob("*") if file.suffix in {".jpg", ".png"})
        if not self.files:
            msg = f"There is no picture in {str(folder)!r}."
            raise FileNotFoundError(msg)
        names = [parse_name(file.name) for file in self.files]
        super().__init__([name.identity for name in names], [name.camera for name in names])

    def picture(self, index: int) -> Tensor:
        """Read picture number `index`, uint8 [3, HEIGHT, WIDTH]."""
        with Image.open(self.files[index]) as image:
            pixels = np.array(image.convert("RGB").resize((WIDTH, HEIGHT)))
        return torch.from_numpy(pixels).permute(2, 0, 1)


def read_market1501(root: Path) -> Splits:
    """Find the three splits under `root`, by the names that the archive gives them."""
    return Splits(
        train=MarketFolder(root / "bounding_box_train"),
        query=MarketFolder(root / "query"),
        gallery=MarketFolder(root / "bounding_box_test"),
    )
