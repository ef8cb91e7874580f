"""The registries of known evaluators and of conventions, from the JSON files beside this module.

groups      options or numbers by the name of a group, which others take with `like`
changes     rows of `ConventionChange`
evaluators  rows of `KnownEvaluator`; a number that no option gives has the name of a measure of its own
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from reid_torchmetrics.functional.detection.inputs import COCO_IOU_THRESHOLDS, COCO_RECALL_THRESHOLDS, THRESHOLDS

from .match_measures import MATCH_MEASURES
from .own_measures import OWN_MEASURES
from .rows import ConventionChange, KnownEvaluator

ABOVE_THRESHOLDS = tuple(math.nextafter(threshold + 1e-9, 1) for threshold in COCO_IOU_THRESHOLDS)
_CONSTANTS = {
    "COCO_IOU_THRESHOLDS": COCO_IOU_THRESHOLDS,
    "COCO_RECALL_THRESHOLDS": COCO_RECALL_THRESHOLDS,
    "FLOAT32_RECALL_THRESHOLDS": THRESHOLDS["torchmetrics"][1],
    "ABOVE_COCO_IOU_THRESHOLDS": ABOVE_THRESHOLDS,
}
"""values by their names in the files"""


def _value(written: Any) -> Any:
    """Return a value of an option: tuples for lists, and constants for their names."""
    if isinstance(written, list):
        return tuple(map(_value, written))
    return _CONSTANTS.get(written, written) if isinstance(written, str) else written


def _read(
    kind: str, own_measures: Mapping[str, Any]
) -> tuple[tuple[KnownEvaluator, ...], tuple[ConventionChange, ...]]:
    """Return the evaluators and the changes in the file of a kind of results."""
    table = json.loads(files(__package__).joinpath(f"{kind}.json").read_text(encoding="utf-8"))

    def merged(rows: dict[str, Any]) -> dict[str, Any]:
        """Return rows with those of the group that they are like."""
        group = table["groups"].get(rows.pop("like", None))
        return rows if group is None else merged(dict(group)) | rows

    evaluators = []
    for row in table["evaluators"]:
        measures = {name: own_measures.get(report, report) for name, report in merged(row["measures"]).items()}
        options = {name: _value(value) for name, value in merged(row["options"]).items()}
        proofs = tuple(row["proofs"])
        evaluators.append(KnownEvaluator(**row | {"proofs": proofs, "measures": measures, "options": options}))
    changes = [ConventionChange(option, _value(value), words) for option, value, words in table["changes"]]
    return tuple(evaluators), tuple(changes)


RETRIEVAL_EVALUATORS, RETRIEVAL_CHANGES = _read("retrieval", OWN_MEASURES)
DETECTION_EVALUATORS, DETECTION_CHANGES = _read("detection", MATCH_MEASURES)
PAIR_EVALUATORS, PAIR_CHANGES = _read("pairs", {})
