"""Boxes and labels that can hardly be meant get one warning, and bad detectors none."""

import re

import pytest
import torch

from reid_torchmetrics import DetectionMAP
from tests.diagnosis.contract import warned_by
from tests.functional.detection.detection_samples import changed, fed

pytestmark = pytest.mark.usefixtures("every_warning_is_an_error")

IDS_OF_COCO = torch.tensor([each for each in range(1, 91) if each not in (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)])


def detector(num_classes=80, num_images=40):
    """Small boxes that are found almost where they are, and their labels, from 1 on."""
    generator = torch.Generator().manual_seed(0)
    preds, target = [], []
    for _ in range(num_images):
        corners = torch.rand(6, 2, generator=generator) * 500
        true = torch.cat([corners, corners + 10 + 90 * torch.rand(6, 2, generator=generator)], 1)
        found, labels = true + torch.randn(6, 4, generator=generator), torch.randint(num_classes, (6,)) + 1
        preds.append({"boxes": found, "scores": torch.rand(6, generator=generator), "labels": labels})
        target.append({"boxes": true, "labels": labels, "neg_category_ids": [90]})  # LVIS knows these
    return preds, target


def without_lists(target):
    return [{key: value for key, value in item.items() if key != "neg_category_ids"} for item in target]


def test_shifted_labels_are_named():
    preds, target = detector()
    target = changed(target, "labels", lambda labels: IDS_OF_COCO[labels - 1])
    shifted = changed(preds, "labels", lambda labels: labels - 1)
    (text,) = warned_by(fed(DetectionMAP(), shifted, without_lists(target)).compute)
    found, true = re.search(r"Only \d+ of \d+ .* most frequent are (\d+) for (\d+)(, \d+ for \d+)+\.", text).groups()[
        :2
    ]
    assert int(found) < int(true)


def test_shares_of_a_network_that_does_not_clip_get_a_warning():
    """Objects end at the edges of images, and noise of a tenth of a side lets some boxes reach beyond."""
    generator = torch.Generator().manual_seed(0)
    center, sides = (torch.rand(200, 2, generator=generator) for _ in range(2))
    true = torch.cat([center - sides / 3, center + sides / 3], 1).clamp(0, 1)
    shares = true + 0.1 * (true[:, 2:] - true[:, :2]).repeat(1, 2) * torch.randn(200, 4, generator=generator)
    assert float(((shares < -0.01) | (shares > 1.01)).any(1).double().mean()) > 0.1
    labels = torch.ones(200, dtype=torch.int64)
    preds = [
        {"boxes": shares[k::2], "scores": torch.rand(100, generator=generator), "labels": labels[k::2]} for k in (0, 1)
    ]
    target = [{"boxes": 640 * true[k::2], "labels": labels[k::2]} for k in (0, 1)]
    with pytest.warns(UserWarning, match=r"200 checked boxes of `preds` lie within \[0, 1\], boxes of `target` do not"):
        fed(DetectionMAP(), preds, target).compute()


def test_one_inverted_box_among_corners_does_not_end_the_warning():
    preds, target = detector()
    preds[3]["boxes"][0] = preds[3]["boxes"][0][[2, 3, 0, 1]]
    with pytest.warns(UserWarning, match=r"Almost no width .* of `preds` and `target`: they seem to be two corners"):
        fed(DetectionMAP("xywh"), preds, without_lists(target)).compute()


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_boxes_as_large_as_their_images_are_no_corners(scale):
    """One object fills the most of each image, of any size; or ends at the right edge of small ones."""
    generator = torch.Generator().manual_seed(0)
    target = []
    for _ in range(100):
        size = 200 + 2000 * torch.rand(1, generator=generator) * (scale == 1)
        sides = size * (0.5 + 0.4 * scale * torch.rand(2, generator=generator))
        box = torch.cat([(size - sides) * torch.rand(2, generator=generator), sides])
        target.append({"boxes": box[None], "labels": torch.tensor([1]), "scores": torch.tensor([0.5])})
    fed(DetectionMAP("xywh"), target, target).compute()


def test_sizes_that_hardly_grow_with_positions_are_no_corners():
    place = torch.arange(20.0)[:, None]
    low, size = 50 + place / 2, 62 + 16 * (place % 2) + place / 20
    item = {"boxes": torch.cat([low, low, size, size], 1), "labels": torch.ones(20).long(), "scores": torch.ones(20)}
    fed(DetectionMAP("xywh"), [item], [item]).compute()


@pytest.mark.parametrize("kind", ["random labels", "one label", "neighbors by turns"])
def test_a_bad_classifier_of_well_found_boxes_gets_no_warning(kind):
    preds, target = detector(12)
    change = {
        "random labels": lambda labels: torch.randint(12, labels.shape, generator=torch.Generator().manual_seed(3)) + 1,
        "one label": lambda labels: labels * 0 + 5,
        "neighbors by turns": lambda labels: labels + torch.arange(len(labels)) % 3 - 1,
    }[kind]
    fed(DetectionMAP(), changed(preds, "labels", change), without_lists(target)).compute()


def line_of(num, num_found, shift, num_right=0, num_labels=4):
    """An image with objects in a line, the first of which are found: some with their label, others with another."""
    low = 60.0 * torch.arange(num)[:, None]
    boxes, labels = torch.cat([low, low, low + 40, low + 50], 1), torch.arange(num) % num_labels + 1
    found = torch.where(torch.arange(num) < num_right, labels, labels + shift)[:num_found]
    return [{"boxes": boxes[:num_found], "scores": torch.linspace(1, 0.5, num_found), "labels": found}], [
        {"boxes": boxes, "labels": labels}
    ]


@pytest.mark.parametrize(
    ("options", "is_odd"),
    [
        ({"num": 60, "num_found": 60, "shift": -1}, True),
        ({"num": 60, "num_found": 31, "shift": -1}, True),
        ({"num": 60, "num_found": 30, "shift": -1}, False),  # most are not found
        ({"num": 60, "num_found": 60, "shift": -1, "num_right": 5}, True),
        ({"num": 60, "num_found": 60, "shift": -1, "num_right": 6}, False),  # one in ten is right
        ({"num": 60, "num_found": 60, "shift": 9}, True),
        ({"num": 60, "num_found": 30, "shift": 9}, False),
        ({"num": 10, "num_found": 10, "shift": 9, "num_labels": 1}, True),
        ({"num": 9, "num_found": 9, "shift": 9, "num_labels": 1}, False),  # too few to say
        ({"num": 12, "num_found": 9, "shift": 9, "num_labels": 1}, False),
        ({"num": 14, "num_found": 14, "shift": -1}, True),  # ten pairs besides the first of each label
        ({"num": 13, "num_found": 13, "shift": -1}, False),
    ],
)
def test_labels_are_odd_from_some_numbers_on(options, is_odd):
    texts = warned_by(fed(DetectionMAP(), *line_of(**options)).compute)
    assert ["have the label of their detection" in text for text in texts] == [True] * is_odd


def test_one_large_class_that_is_taken_for_another_gets_no_warning():
    """91 of 100 objects have the label of another class, but nine classes of ten are right."""
    preds, target = line_of(100, 100, 0, num_labels=1)
    for item, label in ((preds[0], 2), (target[0], 1)):
        item["labels"] = torch.cat([torch.full((91,), label), torch.arange(11, 20)])
    fed(DetectionMAP(), preds, target).compute()


def squares(num, side, step, odd=0, odd_side=0.0):
    """Boxes on a diagonal; the last ones have another side."""
    low = step * torch.arange(num, dtype=torch.float64)[:, None]
    sides = torch.where(torch.arange(num)[:, None] < num - odd, side, odd_side)
    return torch.cat([low, low, low + sides, low + sides], 1)


SHARES, PIXELS, MIXED = (20, 0.1, 0.04), (20, 30.0, 12.0), "seem to be fractions of the image size, the others pixels"


@pytest.mark.parametrize(
    ("found", "true", "box_format", "text"),
    [
        (SHARES, PIXELS, "xyxy", MIXED),
        (PIXELS, SHARES, "xyxy", "checked boxes of `target` lie within [0, 1], boxes of `preds`"),
        ((10, 0.1, 0.04), PIXELS, "xyxy", MIXED),
        ((9, 0.1, 0.04), PIXELS, "xyxy", None),  # too few to say
        (SHARES, (10, 30.0, 12.0), "xyxy", MIXED),
        (SHARES, (9, 30.0, 12.0), "xyxy", None),
        ((20, 0.1, 0.04, 2, 0.6), PIXELS, "xyxy", MIXED),  # the last two end at 1.32 and 1.36
        ((20, 0.1, 0.04, 3, 0.6), PIXELS, "xyxy", None),
        ((20, 0.33, 0.04), PIXELS, "xyxy", MIXED),  # the last ends at 1.09
        ((20, 0.1, 0.04, 20, 1.12), PIXELS, "xyxy", None),  # all end above 1.1
        (SHARES, (20, 30.0, 12.0, 2, 2.0), "xyxy", MIXED),  # two of less than three pixels
        (SHARES, (20, 30.0, 12.0, 3, 2.0), "xyxy", None),
        (SHARES, (20, 2.1, 3.0), "xyxy", MIXED),
        (PIXELS, (20, 40.0, 12.0), "xywh", "`preds` and `target`: they seem to be two corners"),
        ((19, 30.0, 12.0), (19, 40.0, 12.0), "xywh", None),
        ((20, 40.0, 10.0, 1, -5.0), (20, 40.0, 10.0, 1, -5.0), "xywh", None),  # one in twenty has a small size
        ((200, 40.0, 10.0, 2, -5.0), PIXELS, "xywh", "`preds` and `target`: they seem to be two corners"),
        ((200, 40.0, 10.0, 3, -5.0), PIXELS, "xywh", "`target`: they seem to be two corners"),
        ((20, 39.0, 10.0), (20, 41.0, 10.0), "xywh", "`preds`: they seem to be two corners"),  # 4 are close, or 3
    ],
)
def test_boxes_are_odd_from_some_numbers_on(found, true, box_format, text):
    found, true = squares(*found), squares(*true)
    metric = DetectionMAP(box_format, max_detection_thresholds=[300])
    preds, target = ([{"boxes": boxes, "labels": torch.ones(len(boxes)).long()}] for boxes in (found, true))
    preds[0]["scores"] = torch.linspace(1, 0.5, len(found))
    metric.update(preds, target)
    texts = warned_by(metric.compute)
    assert len(texts) == (text is not None)
    assert all(text in each for each in texts)
