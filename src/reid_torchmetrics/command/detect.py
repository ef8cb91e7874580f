"""`detect`: detections and ground truths in the files of COCO, LVIS and DOTA, by the metric of each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from reid_torchmetrics import _checks
from reid_torchmetrics.data import DOTA_CLASSES, read_dota
from reid_torchmetrics.metrics.detection import DetectionMAP, LvisMAP, VocMAP

from . import say
from .options import parsed
from .outputs import Outputs
from .processes import joined, telling_errors

_METRICS: dict[str, Any] = {"coco": DetectionMAP, "lvis": LvisMAP, "dota": VocMAP}
_USUAL: dict[str, Any] = {"dota": {"iou_type": ("rotated",), "rule": "voc07", "class_names": DOTA_CLASSES}}


def run(words: Sequence[str]) -> int:
    """Evaluate what the words of the command line say; return the exit status."""
    arguments, options = parsed("detect", words, evaluator="coco", unknown_categories="raise")
    of_evaluator = _METRICS[arguments.evaluator]
    if others := options.keys() - signature(of_evaluator).parameters:
        raise ValueError(f"`{min(others)}` must be given with another `--evaluator`; got {arguments.evaluator!r}.")
    options = _USUAL.get(arguments.evaluator, {}) | options
    kinds = tuple(options.pop("iou_type", ("bbox",)))
    prefixes = [f"{kind}_" for kind in kinds] if len(kinds) > 1 else [""]
    outputs = Outputs(arguments, (arguments.ground_truths, arguments.detections), prefixes)
    # All processes read the files, so that all know of an error, and each evaluates some images.
    sides = _read(arguments, kinds, options)
    metric = of_evaluator("xywh", iou_type=kinds[0] if len(kinds) == 1 else kinds, **options)
    # Only a report and pictures show what lies across classes, and only a report has the boxes.
    has_boxes = arguments.report is not None
    shown = {"across_classes": has_boxes or arguments.pictures is not None, "boxes": has_boxes}
    with joined() as share:
        with telling_errors(share):
            images = share.of(len(sides[0]))
            metric.update(*(side[images] for side in sides))
            results = {prefix: metric.results(kind, **shown) for prefix, kind in zip(prefixes, kinds, strict=True)}
        return outputs.write(results) if share.process == 0 else 0


def _read(arguments: SimpleNamespace, kinds: Sequence[str], options: dict[str, Any]) -> tuple[Any, Any]:
    """The images of the files of an evaluator, and in `options` what files of COCO and LVIS say about the classes."""
    of_evaluator, guesses = _METRICS[arguments.evaluator], list[str]()
    files = arguments.detections, arguments.ground_truths
    if of_evaluator is VocMAP:
        _checks.one_of("iou_type", " ".join(kinds), ("rotated",))
        return read_dota(*files, options["class_names"], invalid=options.get("invalid", "count"))
    sides: tuple[Any, Any] = of_evaluator.coco_to_tm(
        *files,
        kinds,
        invalid=options.get("invalid", "count"),
        unknown_categories=arguments.unknown_categories,
        guesses=guesses,
    )
    say(*guesses)
    if of_evaluator is LvisMAP:
        options["frequencies"] = LvisMAP.frequencies_of(arguments.ground_truths)
    categories = json.loads(Path(arguments.ground_truths).read_text(encoding="utf-8")).get("categories", [])
    options.setdefault("class_names", _distinct_names(categories) or None)
    return sides


def _distinct_names(categories: Sequence[dict[str, Any]]) -> dict[int, str]:
    """Return the names of categories by their ids; of those with the same name, with the id appended."""
    names = {int(row["id"]): row["name"] for row in categories if row.get("name") is not None}
    counts = Counter(names.values())
    return {number: f"{name} ({number})" if counts[name] > 1 else name for number, name in names.items()}
