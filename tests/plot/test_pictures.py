"""Pictures as users have them: what is drawn is what was given, and what is no picture is an error that says which."""

import re

import numpy as np
import pytest
import torch
from PIL import Image

from reid_torchmetrics.plot.pictures import as_image, picture_at

PIXELS = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [51, 102, 204]]], dtype=np.uint8)
CHANNELS_FIRST = torch.from_numpy(PIXELS).permute(2, 0, 1)
OPAQUE = np.concatenate([PIXELS, np.full((2, 2, 1), 255, np.uint8)], 2)

FORMS = {
    "Pillow": Image.fromarray(PIXELS),
    "array": PIXELS,
    "array with opacity": OPAQUE,
    "bytes": CHANNELS_FIRST,
    "float32": CHANNELS_FIRST / 255,
    "float64": CHANNELS_FIRST.double() / 255,
    "float16": (CHANNELS_FIRST / 255).half(),
    "a little outside of [0, 1]": CHANNELS_FIRST / 255 * 1.0005,
    "with a gradient": (CHANNELS_FIRST / 255).requires_grad_(),
    "tuple": (PIXELS, 7),
    "list": [CHANNELS_FIRST, 7, 1],
    "dict": {"image": PIXELS, "label": 7},
}


@pytest.mark.parametrize("form", FORMS)
def test_a_picture_has_the_same_pixels_in_every_form(form):
    assert np.array(as_image("it", FORMS[form])).tolist() == PIXELS.tolist()


def test_transparent_pixels_are_white():
    transparent = OPAQUE.copy()
    transparent[0, 0, 3] = 0
    expected = PIXELS.tolist()
    expected[0][0] = [255, 255, 255]
    for form in (transparent, Image.fromarray(transparent), torch.from_numpy(transparent).permute(2, 0, 1)):
        assert np.array(as_image("it", form)).tolist() == expected


def test_a_picture_is_not_changed():
    picture = torch.tensor([0.5, 0.25, 1.0]).reshape(3, 1, 1).expand(3, 2, 2)
    as_image("it", picture)
    assert picture[:, 0, 0].tolist() == [0.5, 0.25, 1.0]


CHANNELS = "or 1 or 4 channels, or [H, W]"
PICTURE = "an image of Pillow, an array or a tensor, or an item of a data set that has one first or as 'image'"


@pytest.mark.parametrize(
    ("item", "error", "message"),
    [
        (None, TypeError, f"`it` must be {PICTURE}; got NoneType."),
        ("a.png", TypeError, f"`it` must be {PICTURE}; got str."),
        ((7, PIXELS), TypeError, f"`it` must be {PICTURE}; got int."),
        ((), TypeError, f"`it` must be {PICTURE}; got tuple."),
        ({"picture": PIXELS, "label": 1}, ValueError, "`it` must have the key 'image'; got 'picture', 'label'."),
        ({}, ValueError, "`it` must have the key 'image'; got an empty dict."),
        (PIXELS / 255, TypeError, "`it` must have the dtype uint8 as an array; got float64."),
        (CHANNELS_FIRST.int(), TypeError, "`it` must have the dtype uint8 or a floating point dtype; got torch.int32."),
        (CHANNELS_FIRST.float(), ValueError, "`it` must lie in [0, 1] as floats; got values from 0 to 255."),
        (CHANNELS_FIRST * torch.nan, ValueError, "`it` must lie in [0, 1] as floats; got values from nan to nan."),
        (np.zeros((3, 8, 8), np.uint8), ValueError, f"`it` must have shape [H, W, 3], {CHANNELS}; got [3, 8, 8]."),
        (torch.zeros(8, 8, 3), ValueError, f"`it` must have shape [3, H, W], {CHANNELS}; got [8, 8, 3]."),
        (torch.zeros(2, 3, 8, 8), ValueError, f"`it` must have shape [3, H, W], {CHANNELS}; got [2, 3, 8, 8]."),
        (torch.zeros(3, 0, 8), ValueError, "`it` must have at least one pixel; got [3, 0, 8]."),
        (Image.new("RGB", (0, 8)), ValueError, "`it` must have at least one pixel; got 0 x 8."),
    ],
)  # fmt: skip
def test_a_value_that_is_no_picture_is_an_error(item, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        as_image("it", item)


class DataSet:
    def __getitem__(self, number: int) -> tuple[np.ndarray, int]:
        return PIXELS + np.uint8(number), 0


@pytest.mark.parametrize(
    ("pictures", "key"),
    [
        (lambda number: PIXELS + np.uint8(number), 1),
        ([PIXELS, PIXELS + np.uint8(1)], 1),
        ({1: PIXELS + np.uint8(1)}, 1),
        (DataSet(), 1),
        (torch.stack([CHANNELS_FIRST, CHANNELS_FIRST + 1]), 1),
        (np.stack([PIXELS, PIXELS + np.uint8(1)]), 1),
        ({"a.jpg": PIXELS + np.uint8(1)}, "a.jpg"),
        (lambda name: {"a.jpg": PIXELS + np.uint8(1)}[name], "a.jpg"),
    ],
)
def test_a_picture_is_taken_by_its_number_or_its_name(pictures, key):
    assert np.array(picture_at("pictures", pictures, key)).tolist() == (PIXELS + np.uint8(1)).tolist()


@pytest.mark.parametrize(
    ("pictures", "key", "error", "message"),
    [
        ([PIXELS], 57, ValueError, "`pictures` must have a picture for each number; got none for 57."),
        ({}, 57, ValueError, "`pictures` must have a picture for each number; got none for 57."),
        ({}, "a.jpg", ValueError, "`pictures` must have a picture for each name; got none for 'a.jpg'."),
        ({57: None}, 57, TypeError, f"`pictures[57]` must be {PICTURE}; got NoneType."),
        (lambda _: None, 57, TypeError, f"`pictures(57)` must be {PICTURE}; got NoneType."),
        (lambda _: None, "a.jpg", TypeError, f"`pictures('a.jpg')` must be {PICTURE}; got NoneType."),
        (57, 57, TypeError, "`pictures` must be a function of a number or be indexed by it; got int."),
        (
            [PIXELS],
            "a.jpg",
            TypeError,
            "`pictures` must be a function of a name or be indexed by it, as images have names; got list.",
        ),
    ],
)
def test_an_error_says_which_picture_it_is(pictures, key, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        picture_at("pictures", pictures, key)


class Broken:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def __getitem__(self, number: int) -> None:
        raise self.error


@pytest.mark.parametrize("pictures", [Broken(TypeError("broken")), Broken(KeyError("broken")).__getitem__])
def test_an_error_of_the_users_pictures_is_not_changed(pictures):
    with pytest.raises((TypeError, KeyError)) as raised:
        picture_at("pictures", pictures, 1)
    assert raised.value is getattr(pictures, "__self__", pictures).error
