"""Boxes are converted once, when the images of a metric are joined; very many are converted where they are read."""

from collections import Counter

import pytest
import torch

from reid_torchmetrics import DetectionMAP, VocMAP, _extras
from reid_torchmetrics.functional.detection import inputs
from reid_torchmetrics.functional.detection.batches import Images
from tests.paths import taking

NUM_IMAGES = 6
FORMATS = list(inputs.BOX_FORMATS)


def in_format(corners, box_format):
    near, size = corners[:, :2], corners[:, 2:] - corners[:, :2]
    if box_format == "xyxy":
        return corners
    return torch.cat([near if box_format == "xywh" else near + size / 2, size], 1)


def batches(box_format, dtypes=(torch.float32,)):
    """Batches of images; the edges are whole even numbers, so that all formats and dtypes hold the same boxes."""
    generator = torch.Generator().manual_seed(0)
    for dtype in dtypes:
        preds, target = [], []
        for _ in range(NUM_IMAGES):
            near = 2 * torch.randint(0, 20, (5, 2), generator=generator)
            corners = torch.cat([near, near + 2 * torch.randint(10, 20, (5, 2), generator=generator)], 1)
            moved = corners + 2 * torch.randint(0, 5, (5, 1), generator=generator)
            labels = torch.tensor([0, 1, 0, 1, 2])
            scores = torch.rand(5, generator=generator)
            preds.append({"boxes": in_format(moved.to(dtype), box_format), "scores": scores, "labels": labels})
            target.append({"boxes": in_format(corners.to(dtype), box_format), "labels": labels})
        yield preds, target


def updated(metric, box_format, dtypes=(torch.float32,)):
    for preds, target in batches(box_format, dtypes):
        metric.update(preds, target)
    return metric


@pytest.fixture
def counted(monkeypatch):
    """Count conversions, to "xywh" from itself too, and joins of images."""
    calls = Counter()
    monkeypatch.setattr(_extras, "diagnosis", None)  # it converts what it looks at

    def counting(name, function):
        def count(*arguments):
            calls[name] += 1
            return function(*arguments)

        return count

    monkeypatch.setattr(inputs, "to_xywh", counting("conversions", inputs.to_xywh))
    monkeypatch.setattr(Images, "joined", counting("joins", Images.joined))
    return calls


@pytest.mark.parametrize("box_format", FORMATS)
@pytest.mark.parametrize("num_batches", [1, 3])
def test_each_side_is_converted_once_in_one_compute(counted, box_format, num_batches):
    metric = updated(DetectionMAP(box_format=box_format), box_format, [torch.float32] * num_batches)
    counted.clear()
    metric.compute()
    assert counted == {"joins": 1, "conversions": 2}


def test_batches_of_one_dtype_in_a_row_are_converted_together(counted):
    metric = updated(DetectionMAP(), "xyxy", [torch.float32, torch.float32, torch.float64, torch.float32])
    counted.clear()
    metric.compute()
    assert counted == {"joins": 1, "conversions": 6}


def numbers(metric, box_format):
    return {name: value.tolist() for name, value in updated(metric, box_format).compute().items()}


@pytest.mark.parametrize("box_format", FORMATS)
@pytest.mark.parametrize("metric_class", [DetectionMAP, VocMAP])
def test_numbers_are_the_same_in_all_formats_of_few_and_many_boxes(metric_class, box_format):
    expected = numbers(metric_class(), "xyxy")
    assert 0 < expected["map_50"] < 1
    assert numbers(metric_class(box_format=box_format), box_format) == expected
    with taking(many_boxes=1):
        assert numbers(metric_class(box_format=box_format), box_format) == expected


@pytest.mark.parametrize("box_format", FORMATS)
def test_boxes_in_any_format_are_shapes_of_x_y_width_and_height(box_format):
    corners = torch.tensor([[2.0, 4.0, 8.0, 12.0], [0.0, 0.0, 2.0, 2.0], [4.0, 4.0, 6.0, 10.0]])
    shapes = inputs.BoxShapes(in_format(corners, box_format), box_format=box_format)
    assert shapes.xywh.tolist() == [[2, 4, 6, 8], [0, 0, 2, 2], [4, 4, 2, 6]]
    assert shapes.areas().tolist() == [48, 4, 12]
    some = shapes[torch.tensor([2, 0])]
    assert some.box_format == "xywh"
    assert some.boxes.tolist() == [[4, 4, 2, 6], [2, 4, 6, 8]]
    pair = torch.tensor([0]), inputs.BoxShapes(shapes.xywh), torch.tensor([2])
    assert shapes.overlaps(*pair).tolist() == [12 / 48]
