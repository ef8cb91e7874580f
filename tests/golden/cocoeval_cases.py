"""Loads what pycocotools' `COCOeval` gave under other parameters, see `README.md` beside this file."""

import hashlib
import json
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent
FIELDS = {"coco": "bbox", "coco_keypoints": "keypoints"}


class ParameterCase(NamedTuple):
    """A problem, the name of the parameters, and what was recorded."""

    name: str
    iou_type: str
    variant: str
    inputs: dict[str, NDArray[Any]]
    recorded: dict[str, Any]
    """digests of `precision`, `recall` and `scores`; `stats`; a digest of what `summarize` printed, or the first line
    where it raised"""

    def data_set(self) -> dict[str, Any]:
        given = {key.removeprefix("gt_"): values for key, values in self.inputs.items() if key.startswith("gt_")}
        annotations = _rows(given, {"image": "image_id", "category": "category_id", "box": "bbox", "crowd": "iscrowd"})
        for row in annotations:
            row["id"] -= self.variant == "ids_from_0"
        ids = {name: self.inputs[f"{name}_ids"].tolist() for name in ("image", "category")}
        return {
            "images": [{"id": each} for each in ids["image"]],
            "categories": [{"id": each} for each in ids["category"]],
            "annotations": annotations,
        }

    def results(self) -> list[dict[str, Any]]:
        given = {key.removeprefix("dt_"): values for key, values in self.inputs.items() if key.startswith("dt_")}
        return _rows(given, {"image": "image_id", "category": "category_id", "box": "bbox"})

    def change(self, params: Any) -> None:
        """Set the parameters."""
        if self.variant == "sigmas":
            params.kpt_oks_sigmas = self.inputs["sigmas"]
        chosen = {"imgIds": "subset_img", "catIds": "subset_cat"}
        for name, value in CHANGES.get(self.variant, {}).items():
            setattr(params, name, self.inputs[chosen[name]].tolist() if name in chosen else value)


CHANGES: dict[str, dict[str, Any]] = {
    "max5": {"maxDets": [5]},
    "max100": {"maxDets": [100]},
    "max1_10": {"maxDets": [1, 10]},
    "max2_4_7": {"maxDets": [2, 4, 7]},
    "max5of": {"maxDets": [1, 2, 5, 10, 100]},
    "max20_30": {"maxDets": [3, 20, 30]},
    "max_unsorted": {"maxDets": [100, 1, 10]},
    "nocats": {"useCats": 0},
    "nocats_subset": {"useCats": 0, "catIds": None},
    "areas": {"areaRng": [[0, 1e10], [0, 500], [500, 5000], [1000, 2000]]},
    "areas2": {"areaRng": [[0, 1e10], [1024, 1024]], "areaRngLbl": ["all", "point"]},
    "images": {"imgIds": None},
    "categories": {"catIds": None},
    "thresholds": {"iouThrs": np.array([0.3, 0.5, 0.75, 1.0]), "recThrs": np.linspace(0, 1, 11)},
}


def cases() -> Iterator[ParameterCase]:
    index, arrays = _recorded()
    for field, iou_type in FIELDS.items():
        for case, variants in index[field].items():
            start = f"{field}/{case}/"
            inputs = {key.removeprefix(start): array for key, array in arrays.items() if key.startswith(start)}
            for variant, recorded in variants.items():
                yield ParameterCase(case, iou_type, variant, inputs, recorded)


def digest(value: NDArray[Any] | str) -> str:
    """Of the shape and the bits of an array, or of a text."""
    if isinstance(value, str):
        data = value.encode()
    else:
        data = repr(value.shape).encode() + np.ascontiguousarray(value + 0.0).tobytes()
    return hashlib.sha256(data).hexdigest()[:32]


def _rows(columns: dict[str, NDArray[Any]], names: dict[str, str]) -> list[dict[str, Any]]:
    """Rows of COCO's format; keypoints have one list."""
    listed = {
        names.get(key, key): values.reshape(len(values), -1).tolist() if values.ndim == 3 else values.tolist()
        for key, values in columns.items()
    }
    return [dict(zip(listed, row, strict=True)) for row in zip(*listed.values(), strict=True)]


@cache
def _recorded() -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    index = json.loads((FOLDER / "cocoeval.json").read_text(encoding="utf-8"))
    arrays: dict[str, NDArray[Any]] = {}
    with np.load(FOLDER / "cocoeval.npz") as file:
        for dtype, shapes in index["inputs"].items():
            values, start = file[dtype], 0
            for name, shape in shapes.items():
                stop = start + math.prod(shape)
                arrays[name], start = values[start:stop].reshape(shape), stop
    return index, arrays
