"""Malformed files of COCO through every entry point: `python -m tests.fuzz_coco_files [documents] [first seed]`.

Each document is a correct data set with its results, in which one place was changed: a key is removed or renamed, or a
value becomes null, a text, a number, a list or an object. Each entry point must give the right number, which is that of
the correct files or that of pycocotools on the changed ones, or one error that names the file and the row.

Not a part of the test suite, which runs some documents of it. It exits with 1 if an entry point does something else.
"""

import argparse
import contextlib
import copy
import io
import json
import math
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from reid_torchmetrics import DetectionMAP, LvisMAP
from reid_torchmetrics.coco import COCO, COCOeval
from reid_torchmetrics.command import main as command
from reid_torchmetrics.functional.detection.batches import LISTS
from reid_torchmetrics.functional.detection.inputs.shape_types import SHAPE_TYPES

IOU_TYPES = ("bbox", *SHAPE_TYPES)
SIGMAS = (0.1, 0.1)
TOLERANCE = 1e-9
REMOVE, RENAME = object(), object()
VALUES = (
    REMOVE,
    RENAME,
    None,
    True,
    "",
    "7",
    "cat",
    0,
    -1,
    2.5,
    1.0,
    10**30,
    10**400,
    float("nan"),
    float("inf"),
    [],
    [1, 2],
    ["a", "b", "c", "d"],
    [[1, 2], [3, 4]],
    {},
    {"a": [1]},
)


class Place(NamedTuple):
    """A key of an object, or a position in a list, of one of the two files."""

    file: str
    path: tuple[Any, ...]


def documents() -> dict[str, Any]:
    """A data set, and results that are not all right."""
    rows = []
    for number, (image, left, category) in enumerate(((1, 10, 1), (1, 60, 2), (2, 30, 1), (2, 80, 1)), start=1):
        box = [left, 10, 30, 40]
        polygon = [left, 10, left + 30, 10, left + 30, 50, left, 50]
        # The same mask as lengths, column by column, of an image of 100 x 120.
        lengths = [left * 100 + 10, 40, *[60, 40] * 29, 100 * 120 - (left + 29) * 100 - 50]
        rows.append(
            {
                "id": number,
                "image_id": image,
                "category_id": category,
                "bbox": box,
                "area": 1200,
                "iscrowd": 0,
                "segmentation": [polygon] if number % 2 else {"size": [100, 120], "counts": lengths},
                "keypoints": [left, 10, 2, left + 30, 50, 1],
                "num_keypoints": 2,
                "rotated_box": [left + 15, 30, 30, 40, 0.0],
            }
        )
    images = [
        {"id": image, "file_name": f"{image:03}.jpg", "width": 120, "height": 100}
        | {"neg_category_ids": [], "not_exhaustive_category_ids": []}
        for image in (1, 2)
    ]
    categories = [{"id": number, "name": name, "frequency": "c"} for number, name in ((1, "cat"), (2, "dog"))]
    results = []
    for row, score in zip(rows, (0.9, 0.5, 0.8, 0.7), strict=True):
        kept = {key: value for key, value in row.items() if key not in ("id", "area", "iscrowd", "num_keypoints")}
        results.append(copy.deepcopy(kept) | {"score": score})
    wrong = copy.deepcopy(results[0])
    wrong |= {"bbox": [80, 60, 9, 9], "score": 0.85, "keypoints": [90, 90, 2, 9, 9, 2]}
    wrong |= {"segmentation": [[80, 60, 89, 60, 89, 69]], "rotated_box": [84.5, 64.5, 9, 9, 0.0]}
    data_set = {"info": {}, "images": images, "categories": categories, "annotations": rows}
    return {"truth": data_set, "found": [*results, wrong]}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to all values inside of a value; of long lists to the first three."""
    found = []
    items = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    for key, inner in items:
        found.append((*path, key))
        found.extend(places(inner, (*path, key)))
    return found


def changed(contents: dict[str, Any], place: Place, value: Any) -> dict[str, Any]:
    """A copy in which one place has another value."""
    contents = copy.deepcopy(contents)
    holder = contents[place.file]
    for key in place.path[:-1]:
        holder = holder[key]
    last = place.path[-1]
    if value is REMOVE:
        del holder[last]
    elif value is RENAME:
        if isinstance(holder, dict):
            holder[f"{last}_of_it"] = holder.pop(last)
        else:
            holder[last] = {"renamed": holder[last]}
    else:
        holder[last] = value
    return contents


def write(folder: Path, contents: dict[str, Any]) -> tuple[str, str]:
    """Paths of the files of the results and of the data set."""
    paths = folder / "found.json", folder / "truth.json"
    for path in paths:
        path.write_text(json.dumps(contents[path.stem]), encoding="utf-8")
    return str(paths[0]), str(paths[1])


def by_metric(kind: Any, found: str, truth: str, iou_type: str) -> float:
    """The mAP by `coco_to_tm` and a metric."""
    sigmas = {"sigmas": SIGMAS} if iou_type == "keypoints" else {}
    metric = kind("xywh", iou_type=iou_type, **sigmas)
    metric.update(*kind.coco_to_tm(found, truth, iou_type, guesses=[]))
    return float(metric.results().summary()["map"])


def by_command(evaluator: str, found: str, truth: str, iou_type: str) -> float:
    """The mAP by the command; its line as an error."""
    out, err = io.StringIO(), io.StringIO()
    words = ["detect", truth, found, "--json", "-", "--iou-type", iou_type, "--evaluator", evaluator]
    words += ["--sigmas", *map(str, SIGMAS)] if iou_type == "keypoints" else []
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = command(words)
    if status == 0:
        value = json.loads(out.getvalue())["numbers"]["map"]["value"]
        return -1.0 if value is None else value
    lines = [line for line in err.getvalue().splitlines() if "warning" not in line and not line.startswith(found)]
    message = lines[-1].removeprefix("reid-torchmetrics: ")
    name = message.partition(":")[0]
    raise RuntimeError(message) if name.endswith("Error") else ValueError(message)


def by_cocoeval(coco: Any, evaluation: Any, found: Any, truth: Any, iou_type: str) -> float:
    """The mAP by the classes of pycocotools, or by ours of their names."""
    with contextlib.redirect_stdout(io.StringIO()):
        data_set = coco(truth)
        evaluated = evaluation(data_set, data_set.loadRes(found), iou_type)
        evaluated.params.kpt_oks_sigmas = np.array(SIGMAS)
        evaluated.evaluate()
        evaluated.accumulate()
        evaluated.summarize()
    return float(evaluated.stats[0])


def entry_points(iou_type: str) -> dict[str, Any]:
    """Functions of the two paths and the IoU type, by name."""
    entries = {
        "coco_to_tm": lambda *files: by_metric(DetectionMAP, *files),
        "command": lambda *files: by_command("coco", *files),
    }
    if iou_type != "rotated":
        entries["COCOeval"] = lambda *files: by_cocoeval(COCO, COCOeval, *files)
    if iou_type in ("bbox", "segm"):
        entries["coco_to_tm of LvisMAP"] = lambda *files: by_metric(LvisMAP, *files)
        entries["command, lvis"] = lambda *files: by_command("lvis", *files)
    return entries


def by_pycocotools(place: Place, found: str, truth: str, iou_type: str) -> float | None:
    """The mAP by pycocotools; None if it raises, or may not end."""
    from pycocotools.coco import COCO as TheirCOCO  # noqa: N811, PLC0415
    from pycocotools.cocoeval import COCOeval as TheirEvaluation  # noqa: PLC0415

    if iou_type == "segm" and {"segmentation", "images", "bbox"} & {*place.path}:
        return None  # with some masks and sizes it does not end
    if iou_type == "rotated":  # none of the rotated boxes is turned
        if {"rotated_box", "bbox"} & {*place.path}:
            return None
        iou_type = "bbox"
    try:
        return by_cocoeval(TheirCOCO, TheirEvaluation, found, truth, iou_type)
    except Exception:  # noqa: BLE001 - whatever it does
        return None


def fault(place: Place, entry: Any, files: tuple[str, str], iou_type: str, right: list[float]) -> str | None:
    """What is wrong with the outcome of an entry point; None for a right number or an error that names its place."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            number = entry(*files, iou_type)
    except (ValueError, IndexError) as error:
        message = str(error)
        # Rows are named by place or by annotation, lists of the data set and empty files by themselves.
        is_named = ".json" in message or "annotation" in message or "`cocoGt`" in message
        is_row = any(word in message for word in ("[", "annotation", "must hold", "image")) or not place.path[1:]
        if "\n" in message or not is_named or not is_row:
            return f"{type(error).__name__}: {message}"
        return None
    except Exception as error:  # noqa: BLE001 - what is looked for
        return f"{type(error).__name__}: {error}"
    if any(abs(number - value) <= TOLERANCE for value in right):
        return None
    return f"{number} for {right}"


def run(number: int, seed: int, folder: Path) -> tuple[Counter, list[str]]:
    """The outcomes of some documents, and the faults."""
    contents = documents()
    all_places = [Place(file, path) for file in contents for path in places(contents[file])]
    changes = [(place, value) for place in all_places for value in VALUES]
    random = Random(seed)  # noqa: S311 - no secret
    random.shuffle(changes)
    counts, faults = Counter(), []
    entries = {iou_type: entry_points(iou_type) for iou_type in IOU_TYPES}
    files = write(folder, contents)
    base = {
        iou_type: {name: entry(*files, iou_type) for name, entry in entries[iou_type].items()} for iou_type in IOU_TYPES
    }
    for place, value in changes[:number]:
        files = write(folder, changed(contents, place, value))
        for iou_type in IOU_TYPES:
            theirs = by_pycocotools(place, *files, iou_type)
            for name, entry in entries[iou_type].items():
                right = [base[iou_type][name]] + ([] if theirs is None else [theirs])
                counts["outcomes"] += 1
                found = fault(place, entry, files, iou_type, right)
                is_lvis = "lvis" in name.lower()
                is_row_removed = value is REMOVE and isinstance(place.path[-1], int) and is_lvis
                # A detection that is not finite is a false positive with a warning, unlike in pycocotools.
                is_unjudged = is_plain_number(value) and (theirs is None or is_lvis or not is_finite(value))
                is_list_of_lvis = is_lvis and isinstance(value, list) and place.path[-1] in LISTS
                if found is None or ("for [" in found and (is_unjudged or is_row_removed or is_list_of_lvis)):
                    continue  # a number of other objects, which nobody else can judge
                counts["faults"] += 1
                faults.append(f"{iou_type} by {name}, {place.file}{list(place.path)} {shown(value)}: {found}")
    return counts, faults


def is_plain_number(value: Any) -> bool:
    """Whether a value may be meant in the place of another number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_finite(value: float) -> bool:
    """Whether a number, which may be too large for a float, is neither NaN nor infinite."""
    return isinstance(value, int) or math.isfinite(value)


def shown(value: Any) -> str:
    """What a place was changed to, in words."""
    words = {REMOVE: "removed", RENAME: "renamed"}
    return words[value] if value in (REMOVE, RENAME) else repr(value)[:30]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("documents", nargs="?", type=int, default=1000)
    parser.add_argument("seed", nargs="?", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counts, faults = run(asked.documents, asked.seed, Path(folder))
    sys.stdout.write(f"{asked.documents:,} documents, {counts['outcomes']:,} outcomes, {counts['faults']:,} faults\n")
    sys.stdout.write("".join(f"{line}\n" for line in faults[:60]))
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
