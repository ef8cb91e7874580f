"""Lists of the classes that an image lacks or has more of, in dicts and in LVIS' files."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from reid_torchmetrics import DetectionMAP, LvisMAP
from reid_torchmetrics.functional.detection import evaluate_images
from reid_torchmetrics.functional.detection.batches import ImageNumbering, Images
from reid_torchmetrics.tasks.evaluators.lvis import listed_rows
from tests.functional.detection.detection_samples import fed
from tests.golden.federated_cases import detection_cases

CASES = detection_cases("lvis")


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ([1.5], TypeError, "`target[0]['neg_category_ids']` must hold ints; got [1.5]."),
        (3, TypeError, "`target[0]['neg_category_ids']` must hold ints; got 3."),
        ([True], TypeError, "`target[0]['neg_category_ids']` must hold ints; got [True]."),
        ([-(2**63) - 1], ValueError, "`target[0]['neg_category_ids']` must fit int64; got [-9223372036854775809]."),
        ([2**63], ValueError, "`target[0]['neg_category_ids']` must fit int64; got [9223372036854775808]."),
    ],
)
def test_wrong_lists_are_refused_and_nothing_is_stored(value, kind, message):
    metric, (preds, target) = LvisMAP("xywh"), CASES[0].dicts()
    target[0]["neg_category_ids"] = value
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        metric.update(preds, target)
    assert metric.compute()["map"] == -1


@pytest.mark.parametrize("key", ["neg_category_ids", "not_exhaustive_category_ids"])
@pytest.mark.parametrize("as_metric", [True, False])
def test_lists_in_preds_and_misspelt_lists_are_refused(key, as_metric):
    def work(preds, target):
        return LvisMAP("xywh").update(preds, target) if as_metric else evaluate_images(preds, target, evaluator="lvis")

    preds, target = CASES[0].dicts()
    with pytest.raises(ValueError, match=rf"^`preds\[1\]` must not have `{key}`, a key of `target`; got \[5\]\.$"):
        work([preds[0], preds[1] | {key: [5]}, *preds[2:]], target)
    for typo in (key[:-1], key.replace("_ids", "_id"), key.replace("category", "categroy"), key.replace("_", "-")):
        message = rf"^`target\[0\]` must have keys that are known; got `{typo}`, which may be `{key}`\.$"
        with pytest.raises(ValueError, match=message):
            work(preds, [target[0] | {typo: [5]}, *target[1:]])
    for free in ("category_ids", "ids", "file_name", "neg", 7):
        LvisMAP("xywh").update(preds, [target[0] | {free: [5]}, *target[1:]])


def test_lists_of_any_kind_are_kept_once_for_an_image():
    """Of each label: the number of the image, the label, and whether the image has more of its objects."""
    labels = torch.tensor([], dtype=torch.int64)
    nothing = {"boxes": torch.empty(0, 4), "scores": torch.tensor([]), "labels": labels}
    kinds = (list, np.array, lambda labels: torch.tensor(labels, dtype=torch.int64))
    for kind in kinds:
        first = {"neg_category_ids": kind([4, -(2**63)]), "not_exhaustive_category_ids": kind([9]), "image_id": 7}
        second = {"not_exhaustive_category_ids": kind([2**63 - 1, 4]), "image_id": 5}
        metric = fed(LvisMAP("xywh"), [nothing] * 3, [nothing | each for each in (first, second, first)])
        images = Images.joined(
            {name: getattr(metric, name) for name in metric._defaults}, "xywh", labels.device, ("lists",)
        )
        lists = listed_rows(ImageNumbering.alone(images).number(images, 0))
        assert lists.tolist() == [[1, 4, 0], [1, -(2**63), 0], [1, 9, 1], [0, 2**63 - 1, 1], [0, 4, 1]]


def test_values_read_from_files_are_those_that_were_written(tmp_path):
    """Objects without area are left out, and those to be ignored are crowds."""
    for case in CASES:
        if (case.given["gt_box"] < 0).any():
            continue
        files = case.write(tmp_path)
        data_set = json.loads(Path(files[1]).read_text(encoding="utf-8"))
        for row in data_set["annotations"]:
            if not row["ignore"]:  # as in LVIS' own files
                del row["ignore"]
        Path(files[1]).write_text(json.dumps(data_set), encoding="utf-8")
        assert LvisMAP.read_frequencies(files[1]) == case.frequencies
        for found, expected in zip(LvisMAP.coco_to_tm(*files), case.dicts(), strict=True):
            assert [as_lists(item) for item in found] == [as_lists(item) for item in expected], case.name


def as_lists(item):
    """The values that are evaluated; the size of an image is not."""
    values = {key: value.tolist() if isinstance(value, torch.Tensor) else value for key, value in item.items()}
    values.pop("orig_size", None)
    return values


def test_broken_files_are_named(tmp_path):
    results, path = CASES[0].write(tmp_path)
    data_set = json.loads(Path(path).read_text(encoding="utf-8"))

    def refused(message: str, read, **changed) -> None:
        Path(path).write_text(json.dumps(data_set | changed), encoding="utf-8")
        with pytest.raises(ValueError, match=f"^`{re.escape(path)}` {re.escape(message)}"):
            read()

    first = data_set["images"][0]
    image = first["id"]
    lacking = [{key: each for key, each in first.items() if key != "neg_category_ids"}]
    wrong = [first | {"not_exhaustive_category_ids": ["a"]}]
    rule = "must have a list of ids as `{}`; got {} in `images[0]` (id {})."
    read = lambda: LvisMAP.coco_to_tm(results, path)  # noqa: E731
    refused(rule.format("neg_category_ids", "null", image), read, images=lacking)
    refused(rule.format("not_exhaustive_category_ids", '["a"]', image), read, images=wrong)
    frequencies = lambda: LvisMAP.read_frequencies(path)  # noqa: E731
    refused("must hold `categories`, a list of objects; got ", frequencies, categories=None)
    refused(
        "must have one of 'r', 'c', 'f' as `frequency`; got null in `categories[0]` (id 3).",
        frequencies,
        categories=[{"id": 3}],
    )
    refused("must be annotated in full, as COCO is and LVIS is not", lambda: DetectionMAP.coco_to_tm(results, path))
