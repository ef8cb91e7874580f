"""Lets the tests import the modules of the example as its script does, and draws a miniature Market-1501 folder."""

import sys
from pathlib import Path

import pytest
import torch
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

TRAIN_IDENTITIES = (2, 7, 10, 1500)
TEST_IDENTITIES = (1, 3, 4)
CAMERAS = (1, 2, 6)


@pytest.fixture
def market_folder(tmp_path: Path) -> Path:
    """A folder of Market-1501 of one's own."""
    return write_market_folder(tmp_path / "market")


def write_market_folder(root: Path) -> Path:
    """Write small pictures, named and laid out as in Market-1501."""
    for identity in TRAIN_IDENTITIES:
        for camera in CAMERAS:
            for frame in (451, 476):
                write_picture(root / "bounding_box_train", identity, camera, frame)
    for identity in TEST_IDENTITIES:
        for camera in CAMERAS:
            write_picture(root / "query", identity, camera, 1051)
            write_picture(root / "bounding_box_test", identity, camera, 1076)
    write_picture(root / "bounding_box_test", 0, 1, 151)
    write_picture(root / "bounding_box_test", 0, 3, 151)
    write_picture(root / "bounding_box_test", -1, 2, 401)
    for folder in root.iterdir():
        (folder / "Thumbs.db").write_bytes(b"not a picture")
    return root


def write_picture(folder: Path, identity: int, camera: int, frame: int) -> None:
    """Write a picture of random fields: an untrained network maps plain ones to scores that differ by rounding only."""
    folder.mkdir(parents=True, exist_ok=True)
    label = "-1" if identity == -1 else f"{identity:04d}"
    generator = torch.Generator().manual_seed(10 * (identity + 1) + camera)
    upper = torch.randint(-80, 81, (4, 4, 3), generator=generator)
    fields = (40 * (identity % 5) + camera + torch.cat([upper, -upper])).clamp(0, 255).to(torch.uint8)
    picture = Image.fromarray(fields.numpy()).resize((64, 128), Image.Resampling.NEAREST)
    picture.save(folder / f"{label}_c{camera}s1_{frame:06d}_03.jpg")
