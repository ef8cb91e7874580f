"""Arrays of NumPy and lists of numbers give the bits that tensors give, wherever a tensor is taken."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from reid_torchmetrics import DetectionMAP, DetectionMetrics, ReIDMeanAP, VocMAP
from reid_torchmetrics._arrays import as_tensors
from reid_torchmetrics.functional import detection, retrieval
from tests.public_calls import (
    BOXES,
    CAMERAS,
    DOORS,
    EMBEDDINGS,
    IDS,
    IS_QUERY,
    LABELS,
    MASKS,
    OTHERS,
    POINTS,
    ROTATED,
    SAMPLES,
    SCORES,
    SIDES,
    VALUES,
    X,
    metric_of,
)

pytestmark = pytest.mark.filterwarnings("ignore:Every query has a mate")


def in_form(form: str, values: Tensor) -> Any:
    return values.numpy().copy() if form == "array" else values.tolist()


def parts(value: Any) -> Any:
    """A result as nested lists of plain numbers."""
    if isinstance(value, Tensor):
        return [str(value.dtype), repr(value.tolist())]
    if is_dataclass(value):
        return {each.name: parts(getattr(value, each.name)) for each in fields(value) if each.name != "problem"}
    if isinstance(value, Mapping):
        return {name: parts(each) for name, each in value.items()}
    return [*map(parts, value)] if isinstance(value, (tuple, list)) else repr(value)


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore:`multi_query=True` pooled nothing")
@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize("form", ["array", "list"])
@pytest.mark.parametrize("door", DOORS)
def test_arrays_and_lists_give_what_tensors_give(door: str, form: str) -> None:
    function, given = DOORS[door]
    # Python's floats have 64 bits.
    wide = {name: values.double() if values.is_floating_point() else values for name, values in given.items()}
    wanted = parts(function(**(wide if form == "list" else given)))
    assert parts(function(**{name: in_form(form, values) for name, values in given.items()})) == wanted


@pytest.mark.filterwarnings("ignore:`multi_query=True` pooled nothing")
@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize("door", DOORS)
def test_masked_values_are_refused_and_masked_arrays_without_them_are_taken(door: str) -> None:
    function, given = DOORS[door]
    arrays = {name: np.ma.array(values.numpy()) for name, values in given.items()}
    assert parts(function(**arrays)) == parts(function(**given))
    for name, array in arrays.items():
        if (door, name) == ("EmbeddingQuality", "identities"):  # no measure reads them by default
            continue
        masked = array.copy()
        masked[(0,) * masked.ndim] = np.ma.masked
        with pytest.raises((TypeError, ValueError), match=r"got (masked values|MaskedArray|NoneType)"):
            function(**arrays | {name: masked})


DATACLASSES = ("PositiveRanks", "Detections")  # their fields are tensors, also where they are made of arrays


@pytest.mark.filterwarnings("ignore:`multi_query=True` pooled nothing")
@pytest.mark.parametrize("door", [door for door in DOORS if door not in DATACLASSES])
def test_the_signatures_take_arrays(door: str) -> None:
    function, given = DOORS[door]
    function(**{name: in_form("array", values) for name, values in given.items()})


def test_lists_of_numpy_ints_and_bools_are_labels_and_flags() -> None:
    metric = ReIDMeanAP()
    metric.update(X.numpy(), [*IDS.numpy()], [*CAMERAS.numpy()], is_query=[*IS_QUERY.numpy()], index=tuple(range(24)))
    assert metric.compute() == metric_of(ReIDMeanAP)(**SAMPLES)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "int16", ">i4", ">i8"])
def test_labels_of_any_integer_dtype(dtype: str) -> None:
    labels = (values.numpy().astype(dtype) for values in SIDES.values())
    wanted = retrieval.evaluate(*EMBEDDINGS.values(), *SIDES.values())
    assert parts(retrieval.evaluate(X[:8], X[8:], *labels)) == parts(wanted)


def test_float64_embeddings_stay_float64() -> None:
    values = X.double() + 2.0**-40
    wanted = retrieval.rank_positives(values[:8], values[8:], IDS[:8], IDS[8:])
    rows = values.numpy()
    assert parts(retrieval.rank_positives(rows[:8], rows[8:], IDS[:8], IDS[8:])) == parts(wanted)
    (shared,) = as_tensors(rows)
    assert shared.dtype == torch.float64


# An array, and whether torch can read its memory.
LAYOUTS: dict[str, tuple[np.ndarray, bool]] = {
    "contiguous": (np.ones((3, 4), dtype=np.float32), True),
    "columns": (np.ones((3, 8), dtype=np.float16)[:, ::2], True),
    "transposed": (np.ones((4, 3)).T, True),
    "bools": (np.array([True, False]), True),
    "no rows": (np.ones((0, 4)), True),
    "one value": (np.array(3), True),
    "negative stride": (np.arange(6)[::-1], False),
    "field of records": (np.zeros(3, dtype=[("a", "i1"), ("b", "i4")])["b"], False),
    "big-endian": (np.arange(3, dtype=">i4"), False),
    "uint16": (np.array([0, 65535], dtype=np.uint16), False),
    "uint32": (np.array([0, 2**32 - 1], dtype=np.uint32), False),
}


@pytest.mark.parametrize("writeable", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_is_shared_where_torch_can_read_it(layout: str, writeable: bool) -> None:
    array, is_shared = LAYOUTS[layout]
    array = array.view()
    array.flags.writeable = writeable
    (tensor,) = as_tensors(array)
    assert tensor.tolist() == array.tolist()
    assert np.shares_memory(tensor.numpy(), array) == (is_shared and array.size > 0)


def test_a_read_only_array_lives_as_long_as_its_tensor() -> None:
    array = np.arange(1000.0)
    array.flags.writeable = False
    (tensor,) = as_tensors(array)
    del array
    assert float(tensor.sum()) == 499500


def test_a_file_that_is_mapped_is_not_read_before_it_is_needed(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", X.numpy())
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    metric = ReIDMeanAP()
    metric.update(rows, IDS)
    assert np.shares_memory(metric.embeddings[0].numpy(), rows)
    assert metric.compute() == metric_of(ReIDMeanAP)(X, IDS)


def test_update_keeps_the_memory_of_embeddings_and_copies_labels() -> None:
    rows, ids = X.numpy().copy(), IDS.numpy().copy()
    metric = ReIDMeanAP()
    metric.update(rows, ids)
    ids[:] = 0
    assert np.shares_memory(metric.embeddings[0].numpy(), rows)
    assert metric.identities[0].equal(IDS)


def test_an_array_that_is_filled_anew_is_noticed() -> None:
    metric, buffer = ReIDMeanAP(), np.empty((8, 5), dtype=np.float32)
    for part in (0, 1, 2):
        buffer[:] = X[8 * part : 8 * part + 8]
        metric.update(buffer, IDS[8 * part : 8 * part + 8])
    with pytest.raises(ValueError, match=r"`embeddings` must stay as they are from `update` to `compute`.*got 2 of 3"):
        metric.compute()


def test_an_array_with_nan_is_not_taken_as_filled_anew() -> None:
    metric, rows = ReIDMeanAP(), X.numpy().copy()
    rows[0, 0] = np.nan
    metric.update(rows, IDS)
    with pytest.warns(UserWarning, match="NaN or infinite"):
        assert metric.compute().isnan()


def test_values_that_are_no_numbers_stay_as_they_are() -> None:
    lists = ["a"], [{"size": 1}], [None], [[1], [1, 2]], [[], [1.0]], [2**70]
    for value in (*lists, np.array([None]), np.array(["a"]), "a", None, 3):
        assert as_tensors(value)[0] is value
    assert list(as_tensors([[], []])[0].shape) == [2, 0]


IMAGES = (
    [{"boxes": BOXES, "scores": SCORES, "labels": LABELS}, {"boxes": OTHERS, "scores": SCORES, "labels": LABELS}],
    [
        {"boxes": OTHERS, "labels": LABELS, "iscrowd": LABELS, "area": VALUES[:2] * 50, "image_id": torch.tensor(4)},
        {"boxes": BOXES[:0], "labels": LABELS[:0], "image_id": torch.tensor(7)},
    ],
)


def dicts_in(form: str, sides: Any, only: str | None = None) -> Any:
    """The dicts of all images, in another form but for the `image_id`; or only one of the keys."""

    def changed(key: str, values: Tensor) -> Any:
        return values if only not in (None, key) or key == "image_id" else in_form(form, values)

    return [[{key: changed(key, values) for key, values in item.items()} for item in side] for side in sides]


@pytest.mark.parametrize("form", ["array", "list"])
@pytest.mark.parametrize("only", [None, "boxes", "scores", "labels", "iscrowd", "area"])
def test_dicts_of_arrays_and_lists(form: str, only: str | None) -> None:
    wanted = detection.evaluate_images(*IMAGES).to_dict()
    given = dicts_in(form, IMAGES, only)
    assert detection.evaluate_images(*given).to_dict() == wanted
    assert parts(metric_of(DetectionMetrics)(*given)) == parts(metric_of(DetectionMetrics)(*IMAGES))


@pytest.mark.parametrize("form", ["array", "list"])
@pytest.mark.parametrize("invalid", ["count", "drop"])
def test_dicts_with_other_shapes_and_flags(form: str, invalid: str) -> None:
    shapes = {"masks": MASKS, "keypoints": POINTS, "rotated_boxes": ROTATED}
    preds = [IMAGES[0][0] | shapes | {"rotated_boxes": ROTATED + 1}]
    target = [{"labels": LABELS, "num_keypoints": LABELS, **shapes}]
    names = ("segm", "keypoints", "rotated")
    kinds = [lambda name=name: DetectionMAP(iou_type=name, invalid=invalid) for name in names]
    for kind in kinds:
        assert parts(metric_of(kind)(*dicts_in(form, (preds, target)))) == parts(metric_of(kind)(preds, target))
    flagged = [IMAGES[1][0] | {"difficult": LABELS == 1}]
    given, wanted = dicts_in(form, (IMAGES[0][:1], flagged), "difficult"), (IMAGES[0][:1], flagged)
    assert parts(metric_of(VocMAP)(*given)) == parts(metric_of(VocMAP)(*wanted))


def test_masks_in_a_list_of_arrays_and_an_image_id_in_an_array() -> None:
    masks = [*MASKS.numpy()]
    target = [{"labels": [0, 1], "masks": masks, "image_id": np.array([3])}]
    assert metric_of(lambda: DetectionMAP(iou_type="segm"))([IMAGES[0][0] | {"masks": masks}], target)["map"] == 1


def test_images_are_asked_for_by_a_list_or_an_array() -> None:
    metric = DetectionMAP()
    metric.update(*IMAGES)
    for results in (metric, metric.results(boxes=True)):
        wanted = parts(results.boxes_of(torch.tensor([7, 4])))
        assert parts(results.boxes_of([7, 4])) == parts(results.boxes_of(np.array([7, 4]))) == wanted


def test_a_list_goes_to_the_device_of_the_tensors() -> None:
    device = torch.device("meta")
    for first in (torch.empty(3, device=device), None):
        moved = as_tensors(first, [1, 2], np.ones(2), device=None if first is not None else device)[1:]
        assert [each.device for each in moved] == [device, device]
