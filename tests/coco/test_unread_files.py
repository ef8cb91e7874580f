"""Files are evaluated as columns until somebody looks at their dicts; the numbers are those of the dicts."""

import copy
import json
import pickle

import numpy as np
import pytest

from reid_torchmetrics.coco import COCO, COCOeval
from tests.coco.drawn import draw
from tests.files.json_files import write_json

POLYGON = [3.2, 2.1, 20.7, 4.0, 15.0, 20.3]
DICTS = ("dataset", "anns", "imgToAnns", "catToImgs")


def as_json(rows):
    """Return rows with texts in the place of bytes."""
    return json.loads(json.dumps(rows, default=bytes.decode))


def problem(seed, iou_type, kind):
    """Draw a problem: results of masks may have no boxes, and annotations may have polygons."""
    data_set, results = as_json(draw(seed, iou_type))
    if kind == "polygons":
        for row in data_set["annotations"][::2]:
            row["segmentation"] = [POLYGON]
    for row in results:
        if kind == "masks alone":
            del row["bbox"]
        if kind == "names":
            row["category_name"] = f"c{row['category_id']}"
    return data_set, results


def written(folder, data_set, results):
    return write_json(folder, truth=data_set, results=results)


def evaluated(truth, results, iou_type, **parameters):
    """Return the arrays, matches and overlaps of an evaluation."""
    evaluation = COCOeval(truth, results, iou_type)
    vars(evaluation.params).update(parameters)
    evaluation.evaluate()
    evaluation.accumulate()
    arrays = {name: evaluation.eval[name] for name in ("precision", "recall", "scores")}
    return arrays, evaluation.evalImgs, evaluation.ious


def is_unread(coco):
    return not any(name in vars(coco) for name in DICTS)


KINDS = [
    *(("bbox", "boxes"), ("segm", "masks"), ("segm", "polygons"), ("segm", "masks alone"), ("bbox", "masks alone")),
    ("bbox", "names"),
]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("iou_type", "kind"), KINDS)
@pytest.mark.parametrize("use_cats", [1, 0])
@pytest.mark.filterwarnings("ignore::reid_torchmetrics.AdviceWarning")
def test_columns_of_files_give_what_dicts_give(tmp_path, seed, iou_type, kind, use_cats):
    data_set, rows = problem(seed, "segm" if kind != "boxes" else "bbox", kind)
    parameters = {"useCats": use_cats, "imgIds": [image["id"] for image in data_set["images"]][: 2 + seed]}
    truth = COCO(data_set)
    expected = evaluated(truth, truth.loadRes(rows), iou_type, **parameters)

    paths = written(tmp_path, data_set, rows)
    unread = COCO(paths[0])
    results = unread.loadRes(paths[1])
    np.testing.assert_equal(evaluated(unread, results, iou_type, **parameters), expected)
    assert is_unread(unread)
    assert is_unread(results)

    # The dicts are those of the contents.
    for name in (*DICTS, "imgs", "cats"):
        assert getattr(pickle.loads(pickle.dumps(unread)), name) == getattr(truth, name)
        assert getattr(copy.deepcopy(results), name) == getattr(truth.loadRes(rows), name)
    assert getattr(unread, DICTS[seed]) == getattr(truth, DICTS[seed])
    assert not is_unread(unread)
    np.testing.assert_equal(evaluated(unread, results, iou_type, **parameters), expected)


@pytest.mark.parametrize(("iou_type", "kind"), KINDS[:3])
@pytest.mark.filterwarnings("ignore::reid_torchmetrics.AdviceWarning")
def test_changes_of_dicts_count(tmp_path, iou_type, kind):
    data_set, rows = problem(1, "segm" if kind != "boxes" else "bbox", kind)
    paths = written(tmp_path, data_set, rows)

    def change(truth, results):
        for row in truth.loadAnns(truth.getAnnIds()):
            row["iscrowd"] = 1 - row["iscrowd"]
        for image in truth.imgs.values():
            image["height"] += 1
        results.anns[1]["score"] = 2.0
        for row in truth.anns.values():  # masks of the new size
            row["segmentation"] = [POLYGON]
        for row in results.anns.values():
            row["segmentation"] = [[1, 1, 20, 1, 20, 20]]

    truth = COCO(copy.deepcopy(data_set))
    pair = truth, truth.loadRes(rows)
    before = evaluated(*pair, iou_type)[0]["precision"]
    change(*pair)
    unread = COCO(paths[0])
    results = unread.loadRes(paths[1])
    change(unread, results)
    found = evaluated(unread, results, iou_type)
    np.testing.assert_equal(found, evaluated(*pair, iou_type))
    assert not np.array_equal(found[0]["precision"], before)


@pytest.mark.filterwarnings("ignore::reid_torchmetrics.AdviceWarning")
def test_sizes_of_images_may_change_before_polygons_are_read(tmp_path):
    data_set, rows = problem(1, "segm", "polygons")
    data_set["annotations"] = [{**row, "segmentation": [POLYGON]} for row in data_set["annotations"]]
    rows = [{**row, "segmentation": {"size": [9, 9], "counts": [1, 80]}} for row in rows]
    truth = COCO(written(tmp_path, data_set, rows)[0])
    results = truth.loadRes(str(tmp_path / "results.json"))
    with pytest.raises(ValueError, match=r"masks of one size in an image; got \[9, 9\] and \[24, 40\] in image"):
        evaluated(truth, results, "segm")
    for image in truth.imgs.values():
        image.update(height=9, width=9)
    evaluated(truth, results, "segm")
    assert is_unread(truth)


def test_an_attribute_that_there_is_not_is_an_error(tmp_path):
    truth = COCO(written(tmp_path, *problem(0, "bbox", "boxes"))[0])
    with pytest.raises(AttributeError, match="'COCO' object has no attribute 'annotations'"):
        truth.annotations  # noqa: B018
    assert is_unread(truth)


@pytest.mark.parametrize("is_file", [False, True])
def test_masks_of_images_of_several_sizes_are_evaluated(tmp_path, is_file):
    sizes = {1: [4, 5], 2: [6, 3]}
    row = {"category_id": 1, "iscrowd": 0, "area": 20.0, "bbox": [0, 0, 2, 2]}
    annotations = [
        {**row, "id": image, "image_id": image, "segmentation": {"size": size, "counts": [2, size[0] * size[1] - 2]}}
        for image, size in sizes.items()
    ]
    images = [{"id": image, "height": height, "width": width} for image, (height, width) in sizes.items()]
    data_set = {"images": images, "categories": [{"id": 1}], "annotations": annotations}
    rows = [{**row, "score": 0.9} for row in annotations]
    paths = written(tmp_path, data_set, rows)
    truth = COCO(paths[0] if is_file else data_set)
    arrays, _, overlaps = evaluated(truth, truth.loadRes(paths[1] if is_file else rows), "segm")
    assert (arrays["precision"][:, :, 0, 0, -1] == 1).all()
    assert overlaps == {(1, 1): [[1.0]], (2, 1): [[1.0]]}
