"""`detect`: detections and ground truths in the files of COCO and LVIS, by `DetectionMAP` or `LvisMAP`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any

from reid_torchmetrics.functional.detection.evaluation import DetectionResults
from reid_torchmetrics.metrics.detection import DetectionMAP, LvisMAP

from . import say
from .options import add_options, chosen, new_parser
from .outputs import Outputs, add_outputs
from .processes import joined

_METRICS: dict[str, Any] = {"coco": DetectionMAP, "lvis": LvisMAP}
_NOT_OF_FILES = ("box_format", "frequencies", "class_metrics", "extended_summary", "backend", "metric", "confidence")
"""format and frequencies come from the files; the others shape what `compute` returns, and not the results"""
_OF_PROCESSES = ("compute_on_cpu", "dist_sync_on_step", "sync_on_compute", "compute_with_cache")


def run(words: Sequence[str]) -> int:
    """Evaluate what the words of the command line say; return the exit status."""
    parser = new_parser("detect")
    parser.add_argument("ground_truths", help="a data set in COCO's form, such as instances_val2017.json")
    parser.add_argument("detections", help="a list of results in COCO's form")
    parser.add_argument("--evaluator", choices=[*_METRICS], default="coco", help="whose numbers and files they are")
    added: list[str] = []
    for each in _METRICS.values():
        added += add_options(parser, each, words=(each,), without=(*_NOT_OF_FILES, *_OF_PROCESSES, *added))
    add_outputs(parser)
    arguments = parser.parse_args(words)
    options = chosen(parser, arguments, added)
    chosen_metric = _METRICS[arguments.evaluator]
    others = options.keys() - signature(chosen_metric).parameters
    if others:
        raise ValueError(f"`{min(others)}` must be given with another `--evaluator`; got {arguments.evaluator!r}.")
    kinds = tuple(options.pop("iou_type", ("bbox",)))
    prefixes = [f"{kind}_" for kind in kinds] if len(kinds) > 1 else [""]
    outputs = Outputs(arguments, (arguments.ground_truths, arguments.detections), prefixes)
    # All processes read the files, so that all know of an error, and each evaluates some images.
    guesses: list[str] = []
    paths = arguments.detections, arguments.ground_truths
    detections, ground_truths = chosen_metric.coco_to_tm(*paths, kinds, guesses=guesses)
    for guess in guesses:
        say(guess)
    if chosen_metric is LvisMAP:
        options["frequencies"] = LvisMAP.frequencies_of(arguments.ground_truths)
    options.setdefault("class_names", _class_names(arguments.ground_truths))
    with joined() as share:
        images = share.of(len(ground_truths))
        metric: DetectionMAP | LvisMAP = chosen_metric("xywh", kinds[0] if len(kinds) == 1 else kinds, **options)
        metric.update(*(side[images.start : images.stop] for side in (detections, ground_truths)))
        in_full = outputs.report is not None or outputs.pictures is not None

        def of(kind: str) -> DetectionResults:
            return metric.results(kind, across_classes=in_full, boxes=outputs.report is not None)

        results = {prefix: of(kind) for prefix, kind in zip(prefixes, kinds, strict=True)}
        return outputs.write(results) if share.process == 0 else 0


def _class_names(path: str) -> dict[int, str] | None:
    """The names of the categories of a data set, by their ids."""
    categories = json.loads(Path(path).read_text(encoding="utf-8")).get("categories", [])
    return {int(each["id"]): each["name"] for each in categories if "name" in each} or None
