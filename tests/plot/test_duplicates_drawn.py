"""Near duplicates as pictures: pairs side by side, the highest scores first."""

import re

import numpy as np
import pytest
import torch

from reid_torchmetrics.tasks import Duplicates


def found(*, within: bool = False) -> Duplicates:
    """Pairs with the scores 0.5, 1 and 0.75."""
    pairs = torch.tensor([[0, 1, 2], [3, 4, 5]])
    return Duplicates(*pairs, torch.tensor([0.5, 1.0, 0.75]), within, "cosine", 0.5, num_queries=6)


def gray(number: int) -> torch.Tensor:
    """A picture that tells its number."""
    return torch.full((3, 40, 20), 20 * number, dtype=torch.uint8)


def shown(image: np.ndarray) -> list[int]:
    """The numbers of the pictures in the first row, from their pixels."""
    row = image[80, :, 0]
    places = np.flatnonzero(np.diff(row, prepend=255))
    return [int(row[place]) // 20 for place in places if row[place] not in (255, 240, 64)]


def test_the_highest_scores_come_first_with_both_pictures(written):
    query, gallery = ([gray(start + number) for number in range(6)] for start in (1, 5))
    image = found().plot(query, gallery, k=2)
    assert image.dtype == np.uint8
    assert shown(image) == [2, 9, 3, 10]
    assert " ".join(written).split() == ["query", "1", "item", "4", "1.000", "query", "2", "item", "5", "0.750"]


def test_within_one_set_both_pictures_are_of_it(written):
    pictures = torch.stack([gray(number) for number in range(1, 7)])
    assert shown(found(within=True).plot(pictures)) == [2, 5, 3, 6, 1, 4]
    assert " ".join(written).split()[-5:] == ["query", "0", "item", "3", "0.500"]


def test_a_wrong_value_is_named():
    with pytest.raises(ValueError, match="`gallery_images` must be given for pairs of two sets; got None"):
        found().plot(gray)
    with pytest.raises(ValueError, match=re.escape("`k` must be at least 1; got 0.")):
        found().plot(gray, gray, k=0)
    with pytest.raises(ValueError, match=re.escape("`gallery_images` must have a picture for each number")):
        found().plot(gray, [gray(0)])
