"""Loads what LVIS' evaluators and the authors of LRP gave for random problems, see `README.md`."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[Any]
LISTS = ("neg_category_ids", "not_exhaustive_category_ids")
FAR_AWAY = [1e7, 1e7, 1.0, 1.0]


@dataclass(frozen=True)
class DetectionCase:
    """A problem, boxes as corner and size, and what each evaluator gave for it."""

    name: str
    given: dict[str, Array]
    outputs: dict[str, dict[str, Array]]
    """by evaluator, then by name"""

    @property
    def categories(self) -> list[int]:
        """Ascending, as the class axis of the outputs."""
        return sorted(self.given["category_ids"].tolist())

    @property
    def frequencies(self) -> dict[int, str]:
        return dict(zip(self.given["category_ids"].tolist(), self.given["cat_frequency"].tolist(), strict=True))

    def ragged(self, name: str) -> list[list[Any]]:
        parts = np.split(self.given[f"{name}_flat"], np.cumsum(self.given[f"{name}_len"])[:-1])
        return [part.tolist() for part in parts]

    def dicts(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """What `update` takes with `box_format="xywh"`, image by image.

        Ground truths without area are left out. An inverted one, which `update` refuses, is far away: nothing
        overlaps it either.
        """
        given = self.given
        boxes = np.where((given["gt_box"][:, 2:] < 0).any(1)[:, None], FAR_AWAY, given["gt_box"])
        ignored = given["gt_ignore"] if "gt_ignore" in given else given["gt_crowd"]
        preds, target = [], []
        for number, image in enumerate(given["image_ids"].tolist()):
            found, true = given["dt_image"] == image, (given["gt_image"] == image) & (given["gt_area"] > 0)
            columns = given["dt_box"], given["dt_score"], given["dt_category"]
            preds.append(_tensors(("boxes", "scores", "labels"), columns, found))
            columns = boxes, given["gt_category"], given["gt_area"], ignored
            target.append(_tensors(("boxes", "labels", "area", "iscrowd"), columns, true) | {"image_id": image})
            if "cat_frequency" in given:
                target[-1] |= {name: self.ragged(name)[number] for name in LISTS}
        return preds, target

    def write(self, folder: Path, *, masks: bool = False, boxes: bool = True) -> tuple[str, str]:
        """Write the problem as LVIS' files; the paths of the results and of the data set."""
        given = self.given
        size = {name: int(given.get(name, 0)) for name in ("height", "width")}
        lists = {name: self.ragged(name) for name in LISTS}
        images = [
            {"id": image, **size, **{name: lists[name][number] for name in LISTS}}
            for number, image in enumerate(given["image_ids"].tolist())
        ]
        names = {"image_id": "image", "category_id": "category", "bbox": "box"}
        annotations = _rows(given, "gt", names | {"area": "area", "ignore": "ignore"})
        results = _rows(given, "dt", names | {"score": "score"})
        if masks:
            polygons = iter(self.ragged("gt_poly"))
            for row, count in zip(annotations, given["gt_poly_count"].tolist(), strict=True):
                row["segmentation"] = [next(polygons) for _ in range(count)]
            for row, counts in zip(results, self.ragged("dt_rle"), strict=True):
                row["segmentation"] = {"size": [*size.values()], "counts": counts}
                if not boxes:
                    del row["bbox"]
        categories = [{"id": label, "frequency": letter} for label, letter in self.frequencies.items()]
        data_set = {"images": images, "categories": categories, "annotations": annotations}
        paths = folder / "results.json", folder / "data_set.json"
        for path, value in zip(paths, (results, data_set), strict=True):
            path.write_text(json.dumps(value), encoding="utf-8")
        return str(paths[0]), str(paths[1])


def _tensors(names: tuple[str, ...], columns: tuple[Array, ...], chosen: Array) -> dict[str, Any]:
    return {name: torch.from_numpy(column[chosen]) for name, column in zip(names, columns, strict=True)}


def _rows(given: dict[str, Array], side: str, names: dict[str, str]) -> list[dict[str, Any]]:
    columns = [given[f"{side}_{name}"].tolist() for name in names.values()]
    return [dict(zip(names, row, strict=True), id=number) for number, row in enumerate(zip(*columns, strict=True), 1)]


@cache
def detection_cases(file: str) -> tuple[DetectionCase, ...]:
    """The problems of "lvis" or "lrp"."""
    with np.load(Path(__file__).parent / f"{file}.npz") as arrays:
        held: dict[str, dict[str, dict[str, Array]]] = {}
        for key, array in arrays.items():
            case, evaluator, name = key.split("/", 2)
            held.setdefault(case, {}).setdefault(evaluator, {})[name] = array
    return tuple(DetectionCase(name, outputs.pop("in"), outputs) for name, outputs in held.items())
