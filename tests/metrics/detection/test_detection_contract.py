"""`DetectionMAP` as a metric: copies, moves, steps, merging, pictures, and the order in which images are numbered."""

import matplotlib as mpl
import numpy as np
import pytest
import torch

mpl.use("Agg")

from matplotlib import pyplot as plt

from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.functional.detection.batches.images import interleaved_numbers, number_ids
from tests.functional.detection.detection_samples import fed, images, is_same
from tests.metrics.held_samples import check_held_samples

OPTIONS = {"class_metrics": True, "extended_summary": True, "average": "micro"}
PREDS, TARGET = images(21, 14, with_ids=True)


def metric(first: int = 0, last: int = 14) -> DetectionMAP:
    return fed(DetectionMAP(**OPTIONS), PREDS[first:last], TARGET[first:last])


VALUE = metric().compute()


def test_images_are_held_until_a_reset():
    given = [{"preds": PREDS[first : first + 5], "target": TARGET[first : first + 5]} for first in range(0, 14, 5)]
    check_held_samples(lambda: DetectionMAP(**OPTIONS), given, is_same)


def test_merging_adds_the_images_of_the_other():
    held = metric(0, 8)
    held.compute()
    held.merge_state(metric(6, 14))
    assert is_same(held.compute(), VALUE)
    held.merge_state(DetectionMAP(**OPTIONS))
    assert is_same(held.compute(), VALUE)


def test_moves_and_casts_change_no_image():
    held = DetectionMAP(**OPTIONS).set_dtype(torch.float64)
    assert is_same(fed(held, PREDS, TARGET).to("cpu").float().compute(), VALUE)
    held.set_dtype(torch.float16)  # casts boxes and scores, but no label, count or id
    assert [held.detection_labels[0].dtype, held.image_ids[0].dtype] == [torch.int64] * 2
    assert is_same(fed(DetectionMAP(compute_on_cpu=True, **OPTIONS), PREDS, TARGET).compute(), VALUE)


def test_ids_are_numbered_ascending_and_the_first_of_each_is_found():
    numbers, first = number_ids(torch.tensor([30, -2, 30, 7, -2]))
    assert numbers.tolist() == [2, 0, 2, 1, 0]
    assert first.tolist() == [0, 1, 0, 3, 1]
    assert [len(each) for each in number_ids(torch.empty(0, dtype=torch.int64))] == [0, 0]


def test_ranks_lay_their_images_down_in_turn():
    sizes = torch.tensor([3, 0, 1, 4])
    assert [interleaved_numbers(sizes, rank).tolist() for rank in range(4)] == [[0, 3, 5], [], [1], [2, 4, 6, 7]]
    assert interleaved_numbers(torch.tensor([5]), 0).tolist() == [0, 1, 2, 3, 4]


def test_the_values_that_are_numbers_are_plotted():
    held = metric()
    for drawn in (held.plot(), held.plot([VALUE, VALUE]), metric().plot(VALUE)):
        assert drawn[0] is not None
        plt.close(drawn[0])
    figure, _ = fed(DetectionMAP(metric="map"), PREDS, TARGET).plot()
    plt.close(figure)


def test_a_metric_says_what_it_is():
    assert "box_format='xyxy', max_detection_thresholds=[1, 10, 100], average='micro'" in repr(metric())
    assert (DetectionMAP.higher_is_better, DetectionMAP.is_differentiable) == (True, False)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"box_format": "yxyx"}, ValueError, "`box_format` must be one of 'xyxy', 'xywh', 'cxcywh'; got 'yxyx'."),
        ({"iou_type": "mask"}, ValueError, "'keypoints', 'rotated' or ('bbox', 'segm'); got 'mask'."),
        ({"iou_type": ()}, ValueError, "or ('bbox', 'segm'); got ()."),
        ({"iou_type": 3}, TypeError, "`iou_type` must be a name or a tuple of names; got int."),
        ({"iou_thresholds": 0.5}, TypeError, "`iou_thresholds` must be a tuple or list of floats; got float."),
        ({"iou_thresholds": [0.5, 1.5]}, ValueError, "`iou_thresholds` must hold shares from 0 to 1; got 1.5."),
        ({"iou_thresholds": []}, ValueError, "`iou_thresholds`"),
        ({"rec_thresholds": [0.5, 1.2]}, ValueError, "`rec_thresholds` must hold shares from 0 to 1; got 1.2."),
        ({"max_detection_thresholds": [0, 1]}, ValueError, "`max_detection_thresholds` must be at least 1; got 0."),
        ({"max_detection_thresholds": 100}, TypeError, "`max_detection_thresholds` must be a tuple or list of ints"),
        ({"max_detection_thresholds": [1, 2]}, ValueError, "`max_detection_thresholds` must hold 3 numbers or 1; got"),
        ({"class_metrics": 0}, ValueError, "Expected argument `class_metrics` to be a boolean; got int."),
        ({"extended_summary": "yes"}, ValueError, "Expected argument `extended_summary` to be a boolean; got str."),
        ({"average": "weighted"}, ValueError, "`average` must be one of 'macro', 'micro'; got 'weighted'."),
        ({"backend": "hotcoco"}, ValueError, "`backend` must be one of 'pycocotools', 'faster_coco_eval'; got 'hot"),
        ({"area_ranges": [(0, 1)]}, TypeError, "`area_ranges` must be a mapping"),
        (
            {"area_ranges": {"all": (0, 9), "50": (1, 2)}},
            ValueError,
            "`area_ranges` must give every value a name of its",
        ),
        ({"area_ranges": {"all": (0, 9), "10": (1, 2)}}, ValueError, "name of its own; got 'mar_10' twice."),
        ({"rule": "voc12"}, ValueError, "`rule` must be one of 'coco', 'voc07', 'voc', 'yolo'"),
        ({"thresholds": "float32"}, ValueError, "`thresholds` must be one of 'coco', 'torchmetrics'; got 'float32'."),
        ({"rule": "voc", "rec_thresholds": [0.5]}, ValueError, "`rec_thresholds` must be None with rule"),
        ({"metric": "map_60"}, ValueError, "`metric` must be one of 'map_50', 'map', 'map_75', "),
        ({"metric": "map_per_class"}, ValueError, "`metric` must be one of 'map'"),
        ({"max_bytes": 0}, ValueError, "`max_bytes` must be at least 1; got 0."),
    ],
)
@pytest.mark.usefixtures("unannotated")
def test_a_bad_option_is_named(options, error, message):
    with pytest.raises(error) as caught:
        DetectionMAP(**options)
    assert message in str(caught.value)


def test_messages_of_torchmetrics_about_its_own_options_stay():
    with pytest.raises(ValueError, match=r"^Expected keyword argument `compute_on_cpu` to be an `bool` but got 5$"):
        DetectionMAP(compute_on_cpu=5)


@pytest.mark.parametrize("value", [np.bool_(True), np.bool_(False)])
def test_bools_of_numpy_are_bools(value):
    metric = DetectionMAP(class_metrics=value, extended_summary=value)
    assert [metric.class_metrics, metric.extended_summary] == [bool(value)] * 2
    same = DetectionMAP(class_metrics=bool(value), extended_summary=bool(value))
    assert metric._option_texts() == same._option_texts()
    assert is_same(fed(metric, PREDS, TARGET).compute(), fed(same, PREDS, TARGET).compute())


class Holder(torch.nn.Module):
    """A network that holds a metric, as a LightningModule does."""

    def __init__(self, held: DetectionMAP) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
        self.held = held

    def forward(self, values):
        return self.layer(values)


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("options", [{}, OPTIONS])
def test_a_module_that_holds_a_metric_is_scripted_before_and_after_it_was_used(options):
    module, values = Holder(DetectionMAP(**options)), torch.ones(1, 2)
    for use in (lambda: None, lambda: module.held(PREDS[:3], TARGET[:3]), module.held.compute, module.held.reset):
        use()
        assert torch.equal(torch.jit.script(module)(values), module(values))


@pytest.mark.needs("diagnosis")
def test_images_are_merged_behind_those_that_were_there():
    held = fed(DetectionMAP(), PREDS[:6], TARGET[:6])
    other = [item | {"scores": 1 - item["scores"]} for item in PREDS]
    held.merge_state(fed(DetectionMAP(), other, TARGET))
    expected = fed(DetectionMAP(), [*PREDS[:6], *other[6:]], TARGET)
    with pytest.warns(UserWarning, match="Images that came again on their process, 4 of 6, have other detections"):
        merged = held.compute()
    assert is_same(merged, expected.compute())
    assert not is_same(expected.compute(), fed(DetectionMAP(), other, TARGET).compute())


def test_boxes_of_another_format_are_not_merged():
    with pytest.raises(ValueError, match="`box_format` must be one of 'xyxy'; got 'xywh'"):
        DetectionMAP().merge_state(DetectionMAP(box_format="xywh"))


@pytest.mark.parametrize(("label", "dtype"), [(2**31 - 1, torch.int32), (2**31, torch.int64), (-(2**40), torch.int64)])
def test_labels_that_int32_does_not_hold_stay_what_they_are(label, dtype):
    boxes, labels = torch.tensor([[1.0, 1.0, 5.0, 5.0]]), torch.tensor([label])
    found = {"boxes": boxes, "scores": torch.ones(1), "labels": labels}
    classes = fed(DetectionMAP(), [found], [{"boxes": boxes, "labels": labels}]).compute()["classes"]
    assert (classes.flatten().tolist(), classes.dtype) == ([label], dtype)
