"""The matches of every image, category and area range in pycocotools' form: made, and turned into arrays.

The overlaps that they are made of are here, too.
"""

from __future__ import annotations

import math
import reprlib
from dataclasses import replace
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from reid_torchmetrics.functional.detection.evaluators import PrecisionGrid, evaluate_matches
from reid_torchmetrics.functional.detection.inputs import CocoGrid, order_by_class_and_score
from reid_torchmetrics.functional.detection.matching import Matches

from .problem import CocoProblem, grid_of

ImageResult: TypeAlias = dict[str, Any]
Ints: TypeAlias = NDArray[np.int64]


def _groups(problem: CocoProblem, matches: Matches) -> list[tuple[Ints, Ints]]:
    """Of each category and image the places of its detections in the matches, by score, and rows of ground truths."""
    num_images = len(problem.images)
    pairs = (matches.class_index, matches.images), (problem.truth.labels, problem.truth.images)
    keys = [(labels * num_images + images).numpy() for labels, images in pairs]
    numbers = np.arange(len(problem.categories) * num_images)
    orders = [key.argsort(kind="stable") for key in keys]
    sides = [np.split(order, np.searchsorted(key[order], numbers[1:])) for order, key in zip(orders, keys, strict=True)]
    return [*zip(*sides, strict=True)][: len(numbers)]


def list_overlaps(problem: CocoProblem) -> dict[tuple[Any, Any], Any]:
    """By image and category, [detections, ground truths] float64; an empty list without either."""
    matches, crowds = problem.matches(), problem.ground_truths.is_crowd
    groups, rows = _groups(problem, matches), matches.rows.numpy()
    pairs = [np.array([rows[places].repeat(len(trues)), np.tile(trues, len(places))]) for places, trues in groups]
    row, true_row = torch.from_numpy(np.concatenate([np.zeros((2, 0), dtype=np.int64), *pairs], 1))
    shapes, true_shapes = problem.detections.shapes, problem.ground_truths.shapes
    iou = shapes.overlaps(row, true_shapes, true_row, None if crowds is None else crowds[true_row]).numpy()
    parts = np.split(iou, np.cumsum([each.shape[1] for each in pairs], dtype=np.int64))
    names = product(problem.categories, problem.images)
    return {
        (image, category): part.reshape(*map(len, sides)) if len(part) else []
        for (category, image), part, sides in zip(names, parts, groups, strict=False)  # a last part has nothing
    }


def list_results(problem: CocoProblem) -> list[ImageResult | None]:
    """By category, area range and image; None without objects."""
    matches, grid, truth = problem.matches(keep_ground_truths=True), problem.grid, problem.ground_truths
    rows, true_rows = [problem.results.rows[row] for row in matches.rows.tolist()], problem.truth.rows
    # By area range: of a detection the row of its ground truth, and whether it is outside. The last value of a column
    # of ground truths is that of none, read at row -1.
    taken = np.full((len(grid.area_ranges), len(grid.iou_thresholds), len(rows)), -1)
    taken[:, :, matches.columns.numpy()] = matches.ground_truths
    is_outside = [(matches.area_bits.numpy() >> number) & 1 == 0 for number in range(len(taken))]
    true_ids = np.array([*(row["id"] for row in true_rows), 0], dtype=np.float64)
    areas, is_crowd = np.asarray(truth.areas), np.asarray(truth.is_crowd)
    ranges = grid.area_ranges.values()
    is_ignored = [np.append(is_crowd | (areas < least) | (areas > most), False) for least, most in ranges]
    groups, listed = _groups(problem, matches), list[ImageResult | None]()
    cells = product(enumerate(problem.categories), enumerate(ranges), enumerate(problem.images))
    for (first, category), (number, ends), (second, image) in cells:
        places, trues = groups[first * len(problem.images) + second]
        if not len(places) and not len(trues):
            listed.append(None)
            continue
        ordered = trues[is_ignored[number][trues].argsort(kind="stable")]
        chosen = taken[number][:, places]
        dt_ids, dt_matches = [rows[each]["id"] for each in places], true_ids[chosen]
        result = {
            "image_id": image,
            "category_id": category,
            "aRng": [*ends],
            "maxDet": grid.max_detection_thresholds[-1],
            "dtIds": dt_ids,
            "gtIds": [true_rows[each]["id"] for each in ordered],
            "dtMatches": dt_matches,
            "gtMatches": _of_ground_truths(chosen, ordered, np.array(dt_ids, dtype=np.float64)),
            "dtScores": [rows[each]["score"] for each in places],
            "gtIgnore": is_ignored[number][ordered].astype(int),
            "dtIgnore": is_ignored[number][chosen] | ((dt_matches == 0) & is_outside[number][places]),
        }
        for name in ("dtMatches", "gtMatches", "gtIgnore", "dtIgnore"):
            result[name].flags.writeable = False  # a change would not count
        listed.append(result)
    return listed


def _of_ground_truths(chosen: Ints, ordered: Ints, ids: NDArray[np.float64]) -> NDArray[np.float64]:
    """By threshold the id of the detection of each ground truth, of a crowd the last one; 0 without."""
    matches = np.zeros((len(chosen), len(ordered)))
    threshold, place = (chosen >= 0).nonzero()
    column = (ordered == chosen[threshold, place][:, None]).argmax(1) if len(place) else place
    matches[threshold, column] = ids[place]
    return matches


def accumulate_results(results: Any, evaluated: Any, params: Any) -> list[PrecisionGrid]:
    """Precision, recall and scores of each area range from matches by category, area range and image.

    Args:
        results: a dict or None for each, in a list or array of any shape.
        evaluated: the parameters that they were made with.
        params: the parameters of the grid, of the same categories, area ranges and images.

    Raises:
        ValueError: another number of matches, dicts without keys or with values of other shapes, or other parameters.
    """
    grid, axes, table = grid_of(params), _axes(params), np.asarray(results, dtype=object)
    if axes != _axes(evaluated):
        raise ValueError("`params` must have the `catIds`, `areaRng` and `imgIds` of `_paramsEval`; got others.")
    sizes = [*map(len, axes)]
    if table.size != math.prod(sizes):
        listed = "{} categories, {} area ranges and {} images".format(*sizes)
        raise ValueError(f"`evalImgs` must have a dict or None for each of {listed}; got {table.size}.")
    parts = [replace(grid, area_ranges={name: ends}) for name, ends in grid.area_ranges.items()]
    table = table.reshape(sizes)
    return [evaluate_matches(_matches_of(table[:, area], part), part) for area, part in enumerate(parts)]


def _axes(params: Any) -> list[list[Any]]:
    return [[*params.catIds] if params.useCats else [-1], [*map(tuple, params.areaRng)], [*params.imgIds]]


def _matches_of(table: NDArray[np.object_], grid: CocoGrid) -> Matches:
    """The matches of an area range, [categories, images]; every detection has a column that says if it counts."""
    most, num_thresholds = grid.max_detection_thresholds[-1], len(grid.iou_thresholds)
    # Nothing comes first, as all may be None.
    found = [((0, 0), [np.zeros(shape) for shape in ((0,), (num_thresholds, 0), (num_thresholds, 0), (0,))])]
    found += [(place, _counted(row, num_thresholds)) for place, row in np.ndenumerate(table) if row is not None]
    *columns, true = zip(*(values for _, values in found), strict=True)
    scores, is_matched, is_ignored = (
        torch.from_numpy(np.concatenate([values[..., :most] for values in column], -1)) for column in columns
    )
    counts = [min(len(values), most) for values in columns[0]]
    limits = np.searchsorted(grid.max_detection_thresholds, np.concatenate([*map(np.arange, counts)]), side="right")
    places = np.array([place for place, _ in found])
    num_positives = np.bincount(places[:, 0], [np.count_nonzero(each == 0) for each in true], len(table))[: len(table)]
    classes, images = torch.from_numpy(places.repeat(counts, 0)).T
    order, class_index = order_by_class_and_score(classes, scores)
    of_classes = torch.arange(len(table), device="cpu"), torch.from_numpy(num_positives)[None].long()
    of_detections = scores[order], class_index, images[order], order, torch.from_numpy(limits)[order]
    is_matched, is_ignored = ((side[None, :, order] != 0) for side in (is_matched, is_ignored))
    outcomes = torch.arange(len(order), device="cpu"), is_matched | is_ignored, is_matched & ~is_ignored
    return Matches(*of_classes, *of_detections, torch.ones_like(order), *outcomes)


def _counted(row: Any, num_thresholds: int) -> list[NDArray[np.float64]]:
    """What counts of a dict, checked."""
    try:
        values = [np.asarray(row[key], dtype=np.float64) for key in ("dtScores", "dtMatches", "dtIgnore", "gtIgnore")]
    except (IndexError, KeyError, TypeError, ValueError):
        values = [np.full(1, np.nan)] * 4
    shape = (num_thresholds, values[0].size)
    if [each.shape for each in values[:3]] != [shape[1:], shape, shape] or not np.isfinite(values[0]).all():
        rule = "dicts with `dtScores` [D], finite, `dtMatches` and `dtIgnore` [T, D] and `gtIgnore`"
        came = f"for the {num_thresholds} `iouThrs`; got {reprlib.repr(row)}"
        raise ValueError(f"`evalImgs` must hold {rule} {came}.")
    return values
