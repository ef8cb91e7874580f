"""The documents on detection: their numbers come out, and their tables list what the package has."""

import inspect
import math
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import get_args

import pytest
import torch

from reid_torchmetrics import _names
from reid_torchmetrics.functional.detection import (
    COCO_AREA_RANGES,
    COCO_IOU_THRESHOLDS,
    COCO_RECALL_THRESHOLDS,
    Detections,
    GroundTruths,
    pairwise_iou,
)
from reid_torchmetrics.functional.detection.curves import AP_RULES
from reid_torchmetrics.functional.detection.evaluation.image_matches import ImageMatches
from reid_torchmetrics.functional.detection.evaluation.sharded_images import packed as as_bytes
from reid_torchmetrics.functional.detection.inputs import BOX_FORMATS, COCO_MAX_DETECTIONS
from reid_torchmetrics.metrics.detection.detection_map import DetectionMAP
from tests.found_classes import match_images
from tests.functional.detection.detection_samples import torchmetrics_peer
from tests.golden.coco_cases import RealProblem, val2014
from tests.test_docs import check_number, numbers_of, tables

DOCS = Path(__file__).parents[1] / "docs"
NUMBERS = (DOCS / "detection" / "numbers.md").read_text(encoding="utf-8")
TEXT = "".join(path.read_text(encoding="utf-8") for path in (DOCS / "detection.md", *(DOCS / "detection").glob("*.md")))
WORDS = " ".join(TEXT.split())
TABLES = tables(TEXT)
EVALUATED = [table for table in TABLES if "number" in table.header]
ROWS = [row for table in EVALUATED for row in table.rows]
OPTIONS = {
    "rule": AP_RULES,
    "average": get_args(_names.Average),
    "box_format": BOX_FORMATS,
    "backend": get_args(_names.Backend),
}


def table_of(column: str) -> list[dict[str, str]]:
    """The rows of the only table whose first column has this name."""
    (table,) = (table for table in TABLES if table.header[0] == column)
    return table.rows


@pytest.fixture(scope="module")
def names() -> dict[str, object]:
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", NUMBERS, flags=re.DOTALL):
        exec(compile(code, "numbers.md", "exec"), names)  # noqa: S102 - our own text
    return names


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["option"].strip("`"))
def test_an_option_gives_the_number_in_its_row(row, names):
    value = torch.as_tensor(eval(row["option"].strip("`"), names), dtype=torch.float64)  # noqa: S307 - our own text
    (cell,) = numbers_of(row)
    check_number(cell, value.item())


def test_the_numbers_of_a_table_of_conventions_all_differ():
    compared = [table for table in EVALUATED if table.header[0] == "convention"]
    assert len(compared) == 5
    for table in compared:
        found = [row["number"].split(" = ")[-1] for row in table.rows]
        assert len(set(found)) == len(found), found


def test_the_tables_of_the_example_are_the_example(names):
    truths, found = table_of("ground truth"), table_of("detection")
    for rows, prefix in ((truths, ""), (found, "found_")):
        assert [int(row.get("class", "1")) for row in rows] == names[f"{prefix}labels"].tolist()
        assert [int(row["image"]) for row in rows] == names[f"{prefix}images"].tolist()
    assert [row[""] == "a crowd" for row in truths] == (names["crowds"] == 1).tolist()
    assert [float(row["score"]) for row in found] == pytest.approx(names["scores"].tolist())
    changed = (names["tied"] != names["scores"]).nonzero()[:, 0].tolist()
    assert [found[place]["detection"] for place in changed] == ["3"]
    assert names["tied"][2] == names["tied"][3]


def test_the_sizes_of_the_example_are_those_of_coco(names):
    for row, area in zip(table_of("ground truth"), names["ground_truths"].boxes[:, 2:].prod(1), strict=True):
        if row[""] != "a crowd":
            least, most = COCO_AREA_RANGES[row[""]]
            assert least <= area <= most


def test_the_overlaps_of_the_example_are_exact(names):
    truths, found = names["ground_truths"], names["detections"]
    iou = pairwise_iou(found.boxes, truths.boxes, box_format="xywh", is_crowd=truths.is_crowd)
    same = (found.images[:, None] == truths.images) & (found.labels[:, None] == truths.labels)
    for row, overlaps, counts in zip(table_of("detection"), iou, same, strict=True):
        shown = dict(part.split() for part in row["overlaps"].split(", ") if part)
        expected = {"ABCDE"[place]: float(overlaps[place]) for place in range(5) if counts[place] and overlaps[place]}
        assert shown.keys() == expected.keys()
        for name, text in shown.items():
            check_number(text, expected[name])


def test_the_matches_of_the_example_are_those_in_its_table(names):
    listed = names["results"].detections()
    in_words = {}
    for image, index, taken, is_right, is_ignored in zip(
        listed.image,
        listed.index,
        listed.ground_truth[0],
        listed.is_true_positive[0],
        listed.is_ignored[0],
        strict=True,
    ):
        owners = [name for name, place in zip("ABCDE", names["images"], strict=True) if place == image]
        said = "matches " + owners[taken] if taken >= 0 else "false positive"
        row = (names["found_images"] == image).nonzero()[index].item()
        assert bool(is_right) == (taken >= 0 and owners[taken] != "E")
        in_words[row] = said + (": ignored" if is_ignored else "")
    for number, row in enumerate(table_of("detection")):
        assert in_words[number] in row["COCO at IoU 0.5"]


def test_the_table_of_keys_has_all_that_compute_gives():
    shown = {name for row in table_of("key") for name in re.findall(r"`(\w+)`", row["key"])}
    metric = DetectionMAP()
    metric.update([], [])
    assert shown == metric.compute().keys()


def test_the_table_of_options_has_the_arguments_and_their_defaults():
    (table,) = (table for table in TABLES if table.header[:3] == ["question", "option", "default"])
    shown = {row["option"].strip("`"): re.findall(r"`([^`]+)`", row["default"])[0] for row in table.rows}
    arguments = {
        name: argument.default
        for name, argument in [*inspect.signature(DetectionMAP).parameters.items()][:-7]  # TorchMetrics' are the last
    }
    differing = sorted(shown.keys() ^ arguments.keys())
    assert not differing, f"docs/detection/options.md and the signature of `DetectionMAP` differ in {differing}"
    for name, default in arguments.items():
        assert shown[name].replace('"', "'") == repr(default), name


@pytest.mark.parametrize("option", OPTIONS)
def test_the_reference_lists_every_value_of_an_option(option):
    (said,) = re.findall(rf"^    {option}: (.*(?:\n {{8}}.*)*)", inspect.getdoc(DetectionMAP), flags=re.MULTILINE)
    lacking = sorted({*OPTIONS[option]} - {*re.findall(r'"(\w+)"', said)})
    assert not lacking, f"the docstring of `DetectionMAP` must list {lacking} as values of `{option}`"


@pytest.mark.parametrize("rule", AP_RULES)
def test_every_rule_has_a_number(rule):
    assert [row for row in ROWS if row["option"] == f'`number("map_50", rule="{rule}")`']


def test_the_thresholds_and_limits_are_what_the_text_says():
    (table,) = (table for table in TABLES if table.header[:3] == ["question", "option", "default"])
    shown = {row["option"].strip("`"): row["default"] for row in table.rows}
    assert [*COCO_IOU_THRESHOLDS[:2], COCO_IOU_THRESHOLDS[-1]] == pytest.approx([0.5, 0.55, 0.95])
    assert "0.5, 0.55, ..., 0.95" in shown["iou_thresholds"]
    assert [*COCO_RECALL_THRESHOLDS[:2], COCO_RECALL_THRESHOLDS[-1]] == pytest.approx([0, 0.01, 1])
    assert "0, 0.01, ..., 1" in shown["rec_thresholds"]
    assert ", ".join(map(str, COCO_MAX_DETECTIONS)) in shown["max_detection_thresholds"]
    assert f"0.55 is {torch.linspace(0.5, 0.95, 10)[1]:.10f}" in WORDS


def packed(problem: RealProblem) -> tuple[Detections, GroundTruths]:
    of_detections = (getattr(problem, f"detection_{name}") for name in ("boxes", "scores", "labels", "images"))
    of_truths = (getattr(problem, f"ground_truth_{name}") for name in ("boxes", "labels", "images"))
    return (
        Detections(*map(torch.from_numpy, of_detections)),
        GroundTruths(*map(torch.from_numpy, (*of_truths, problem.is_crowd, problem.areas))),
    )


def test_a_rank_sends_so_many_bytes_of_a_detection():
    detections, truths = packed(val2014())
    detections = replace(detections, scores=detections.scores.float(), images=detections.images.int())
    matches = match_images(detections, truths)
    tensors = ImageMatches(DetectionMAP()._request(), matches.classes, matches).to_tensors()
    of_classes = 3 * 8 + 8 * len(COCO_AREA_RANGES)  # its label, twice, and how many detections and ground truths it has
    empty = [tensor[..., :0] for tensor in tensors]
    sent = len(as_bytes(tensors)) - len(as_bytes(empty)) - of_classes * len(matches.classes)
    assert 8 <= (sent - 18 * len(matches.columns)) / len(matches.scores) <= 10  # the image takes 2 or 4
    assert "8 to 10 bytes, and 18 more if it matches a ground truth" in WORDS


def test_the_metric_holds_so_many_bytes_of_a_box(names):
    def held(**found) -> int:
        metric = DetectionMAP()
        empty = {"boxes": torch.zeros(0, 4), "scores": torch.zeros(0), "labels": torch.zeros(0, dtype=torch.int64)}
        metric.update([empty | found.get("preds", {})], [empty | found.get("target", {})])
        return sum(block.numel() * block.element_size() for name in metric._defaults for block in getattr(metric, name))

    box = {"boxes": torch.ones(1, 4), "scores": torch.ones(1), "labels": torch.ones(1, dtype=torch.int64)}
    assert held(preds=box) - held() == 28
    assert held(target=box) - held() == 29
    assert "28 bytes per detection and 29 per ground truth" in WORDS


def test_an_array_of_80_classes_is_as_large_as_the_text_says():
    grid = (COCO_IOU_THRESHOLDS, COCO_RECALL_THRESHOLDS, range(80), COCO_AREA_RANGES, COCO_MAX_DETECTIONS)
    assert f"each {8 * math.prod(map(len, grid)) / 1e6:.1f} MB for 80 classes" in WORDS


def test_the_claims_of_the_text_about_torchmetrics_hold(names):
    with torchmetrics_peer() as peer:
        metrics = {average: peer(average=average) for average in OPTIONS["average"]}
        for metric in metrics.values():
            for image in (0, 1):
                found, true = names["found_images"] == image, names["images"] == image
                preds = {"boxes": names["found_boxes"], "scores": names["scores"], "labels": names["found_labels"]}
                target = {"boxes": names["boxes"], "labels": names["labels"], "iscrowd": names["crowds"]}
                metric.update(
                    [{key: values[found] for key, values in preds.items()}],
                    [{key: values[true] for key, values in target.items()}],
                )
        values = {average: metric.compute() for average, metric in metrics.items()}
    said = {row["who"]: row["number"].split(" = ")[-2] for row in ROWS if "TorchMetrics" in row.get("who", "")}
    assert float(values["macro"]["map"]) == pytest.approx(float(Fraction(said["TorchMetrics"])), abs=1e-7)
    assert float(values["micro"]["map_50"]) == pytest.approx(float(Fraction(said['TorchMetrics\' "micro"'])), abs=1e-7)
