"""Readings of names that two sides may spell in two ways."""

import pytest
import torch

from reid_torchmetrics import evaluate
from reid_torchmetrics.diagnosis.spellings import READINGS
from tests.diagnosis.contract import told_by

MANY_DIGITS = "9" * 5000  # Python converts at most 4300 digits
SPELLED_TWICE = [
    ("c1", "cam1"),
    ("1", "Camera 01"),
    ("c1s1", "1"),
    ("cam_003", "C3"),
    ("North", " north"),
    (MANY_DIGITS, f"c{MANY_DIGITS}"),
]
DIFFERENT = [
    ("G1", "A1"),  # on the ground and in the air
    ("rgb_1", "ir_1"),
    ("visible 2", "thermal 2"),
    ("2024-01-01 north", "2024-01-01 south"),
    ("c1", "c2"),
    ("cam1", "cam10"),
]


def is_told(query_camera: str, gallery_camera: str) -> bool:
    torch.manual_seed(0)
    identities = torch.arange(4)
    cameras = {"query_cameras": [query_camera] * 4, "gallery_cameras": [gallery_camera] * 4}
    texts = told_by(lambda: evaluate(torch.eye(4), torch.eye(4) + 0.1, identities, identities, **cameras))
    return any("no name in common" in text for text in texts)


@pytest.mark.parametrize("names", SPELLED_TWICE)
def test_a_camera_in_two_spellings_is_told(names):
    assert is_told(*names)
    assert is_told(*reversed(names))


@pytest.mark.parametrize("names", DIFFERENT)
def test_cameras_of_two_kinds_or_places_are_not_told(names):
    assert not is_told(*names)
    assert not is_told(*reversed(names))


@pytest.mark.parametrize("words", READINGS)
def test_names_of_many_digits_are_read(words):
    names = [MANY_DIGITS, f"0{MANY_DIGITS}.jpg", "0", ""]
    assert len(list(READINGS[words](names))) == len(names)


def test_numbers_in_names_are_read_without_zeros_in_front():
    assert list(READINGS["by their numbers alone"](["a/0012_c03.jpg", "000.png", "none"])) == ["12 3", "0", "none"]
