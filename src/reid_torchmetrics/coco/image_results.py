"""Matches per image, category and area range in pycocotools' form, and arrays computed from them.

The overlaps of their boxes or shapes are here as well.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics.functional.detection.evaluators import PrecisionGrid, evaluate_matches
from reid_torchmetrics.functional.detection.inputs import CocoGrid, order_by_class_and_score
from reid_torchmetrics.functional.detection.matching import Matches

from .problem import CocoProblem, grid_of

ImageResult: TypeAlias = dict[str, Any]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]


def _groups(problem: CocoProblem, matches: Matches) -> list[tuple[Ints, Ints]]:
    """Return indices for each (category, image): detections in `matches` by descending score, and ground truths."""
    num_images = len(problem.images)
    num_groups = len(problem.categories) * num_images
    detections = _split_by_group(matches.class_index * num_images + matches.images, num_groups)
    ground_truths = _split_by_group(problem.truth.labels * num_images + problem.truth.images, num_groups)
    return list(zip(detections, ground_truths, strict=True))


def _split_by_group(group_numbers: Tensor, num_groups: int) -> list[Ints]:
    """Return the indices of the rows in each group, ascending."""
    numbers = group_numbers.numpy()
    order = numbers.argsort(kind="stable")
    starts = np.searchsorted(numbers[order], np.arange(1, num_groups))
    return np.split(order, starts)[:num_groups]


def list_overlaps(problem: CocoProblem) -> dict[tuple[Any, Any], Any]:
    """Return overlaps [detections, ground truths] by image and category, float64; an empty list without one of them."""
    matches = problem.matches()
    groups = _groups(problem, matches)
    rows = matches.rows.numpy()

    # Pair every detection with every ground truth in its group, detection by detection.
    pairs = [np.zeros((2, 0), dtype=np.int64)]
    for places, true_rows in groups:
        pairs.append(np.array([rows[places].repeat(len(true_rows)), np.tile(true_rows, len(places))]))
    row, true_row = torch.from_numpy(np.concatenate(pairs, 1))
    is_crowd = problem.ground_truths.is_crowd
    iou = problem.detections.shapes.overlaps(
        row,
        problem.ground_truths.shapes,
        true_row,
        None if is_crowd is None else is_crowd[true_row],
    ).numpy()

    # The first pairs are none, and the part after the last group is empty.
    ends = np.cumsum([part.shape[1] for part in pairs], dtype=np.int64)
    parts = np.split(iou, ends)[1:-1]
    overlaps: dict[tuple[Any, Any], Any] = {}
    cells = product(problem.categories, problem.images)
    for (category, image), part, (places, true_rows) in zip(cells, parts, groups, strict=True):
        overlaps[image, category] = part.reshape(len(places), len(true_rows)) if len(part) else []
    return overlaps


class _MatchColumns(NamedTuple):
    """The detections, the ground truths, and their matches, from which each cell of the results takes a part.

    Columns of ground truths have one more value at the end, for the row -1: that of no ground truth.
    """

    ids: Sequence[Any]
    scores: Sequence[float]
    true_ids: Sequence[Any]
    matched_rows: Ints
    """the match of each detection as a row of the ground truths, -1 for none: [area ranges, thresholds, detections]"""
    is_outside: Sequence[Flags]
    """for each area range whether the detections are outside"""
    true_numbers: NDArray[np.float64]
    """ids as numbers"""
    is_ignored: Sequence[Flags]
    """for each area range whether it ignores the ground truths"""

    @classmethod
    def of(cls, problem: CocoProblem, matches: Matches) -> _MatchColumns:
        """Collect the columns of a problem and its matches."""
        ranges = problem.grid.area_ranges.values()
        ids = [problem.results.ids[row] for row in matches.rows.tolist()]
        matched_rows = np.full((len(ranges), len(problem.grid.iou_thresholds), len(ids)), -1)
        matched_rows[:, :, matches.columns.numpy()] = matches.ground_truths
        true_areas = np.asarray(problem.ground_truths.areas)
        is_crowd = np.asarray(problem.ground_truths.is_crowd)
        return cls(
            ids=ids,
            scores=matches.scores.tolist(),
            true_ids=problem.truth.ids,
            matched_rows=matched_rows,
            is_outside=[(matches.area_bits.numpy() >> area) & 1 == 0 for area in range(len(ranges))],
            true_numbers=np.array([*problem.truth.ids, 0], dtype=np.float64),
            is_ignored=[
                np.append(is_crowd | (true_areas < least) | (true_areas > most), False) for least, most in ranges
            ],
        )

    def cell(self, area: int, places: Ints, true_rows: Ints) -> ImageResult:
        """Return the matches of some detections and ground truths, of one image and category, in an area range."""
        # Ground truths that count come first.
        is_ignored = self.is_ignored[area]
        ordered = true_rows[is_ignored[true_rows].argsort(kind="stable")]
        matched = self.matched_rows[area][:, places]
        detection_ids = [self.ids[place] for place in places]
        matched_ids = self.true_numbers[matched]
        result: ImageResult = {
            "dtIds": detection_ids,
            "gtIds": [self.true_ids[row] for row in ordered],
            "dtMatches": matched_ids,
            "gtMatches": _match_ground_truths(matched, ordered, np.array(detection_ids, dtype=np.float64)),
            "dtScores": [self.scores[place] for place in places],
            "gtIgnore": is_ignored[ordered].astype(int),
            "dtIgnore": is_ignored[matched] | ((matched_ids == 0) & self.is_outside[area][places]),
        }
        for value in result.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False  # a change would have no effect
        return result


def list_results(problem: CocoProblem) -> list[ImageResult | None]:
    """Return the matches by category, area range and image; None without objects."""
    matches = problem.matches(keep_ground_truths=True)
    columns = _MatchColumns.of(problem, matches)
    groups = _groups(problem, matches)
    results: list[ImageResult | None] = []
    ranges = problem.grid.area_ranges.values()
    cells = product(enumerate(problem.categories), enumerate(ranges), enumerate(problem.images))
    for (category_index, category), (area, ends), (image_index, image) in cells:
        places, true_rows = groups[category_index * len(problem.images) + image_index]
        if not len(places) and not len(true_rows):
            results.append(None)
            continue
        results.append(
            {
                "image_id": image,
                "category_id": category,
                "aRng": list(ends),
                "maxDet": problem.grid.max_detection_thresholds[-1],
                **columns.cell(area, places, true_rows),
            }
        )
    return results


def _match_ground_truths(matched: Ints, ordered: Ints, detection_ids: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the id of the detection that matches each ground truth, the last one for a crowd; 0 for none.

    Args:
        matched: the match of each detection as a row of the ground truths, -1 for none, [thresholds, detections].
        ordered: rows of the ground truths.
        detection_ids: ids of the detections.
    """
    matches = np.zeros((len(matched), len(ordered)))
    threshold, place = (matched >= 0).nonzero()
    if len(place):
        column = (ordered == matched[threshold, place][:, None]).argmax(1)
        matches[threshold, column] = detection_ids[place]
    return matches


def accumulate_results(results: Any, evaluated: Any, params: Any) -> list[PrecisionGrid]:
    """Compute precision, recall and scores in each area range from matches by category, area range and image.

    Args:
        results: a dict or None for each cell, in a list or array of any shape.
        evaluated: the parameters that the matches were computed with.
        params: the parameters of the grid, with the same categories, area ranges and images.

    Raises:
        ValueError: another number of matches, dicts without keys or with values of other shapes, or other parameters.
    """
    grid = grid_of(params)
    axes = _axes(params)
    table = np.asarray(results, dtype=object)
    if axes != _axes(evaluated):
        raise ValueError("`params` must have the `catIds`, `areaRng` and `imgIds` of `_paramsEval`; got others.")
    sizes = [len(axis) for axis in axes]
    if table.size != math.prod(sizes):
        text = "{} categories, {} area ranges and {} images".format(*sizes)
        raise ValueError(f"`evalImgs` must have a dict or None for each of {text}; got {table.size}.")
    table = table.reshape(sizes)
    grids = []
    for area, (name, ends) in enumerate(grid.area_ranges.items()):
        part = replace(grid, area_ranges={name: ends})
        grids.append(evaluate_matches(_matches_of(table[:, area], part), part))
    return grids


def _axes(params: Any) -> list[list[Any]]:
    """Return the categories, area ranges and images."""
    categories = list(params.catIds) if params.useCats else [-1]
    return [categories, [tuple(ends) for ends in params.areaRng], list(params.imgIds)]


def _matches_of(table: NDArray[np.object_], grid: CocoGrid) -> Matches:
    """Return the matches in an area range, from dicts [categories, images]; every detection has a column."""
    most = grid.max_detection_thresholds[-1]
    num_thresholds = len(grid.iou_thresholds)

    # An empty cell comes first, because all others may be None.
    cells = [(0, 0)]
    no_matches = np.zeros((num_thresholds, 0))
    columns = [_Columns(np.zeros(0), no_matches, no_matches, np.zeros(0))]
    for cell, row in np.ndenumerate(table):
        if row is not None:
            cells.append(cell)
            columns.append(_read_columns(row, num_thresholds))
    counts = [min(len(part.scores), most) for part in columns]
    scores = torch.from_numpy(np.concatenate([part.scores[:most] for part in columns]))
    matches = torch.from_numpy(np.concatenate([part.matches[:, :most] for part in columns], -1))
    ignored = torch.from_numpy(np.concatenate([part.is_ignored[:, :most] for part in columns], -1))

    # The number of each detection in its cell decides which limits it is within.
    numbers = np.concatenate([np.arange(count) for count in counts])
    limits = torch.from_numpy(np.searchsorted(grid.max_detection_thresholds, numbers, side="right"))
    positions = np.array(cells)
    cell_positives = [np.count_nonzero(part.is_true_ignored == 0) for part in columns]
    num_positives = np.bincount(positions[:, 0], cell_positives, len(table))[: len(table)]
    classes, images = torch.from_numpy(positions.repeat(counts, 0)).T

    order, class_index = order_by_class_and_score(classes, scores)
    is_matched = matches[None, :, order] != 0
    is_ignored = ignored[None, :, order] != 0
    return Matches(
        classes=torch.arange(len(table), device="cpu"),
        num_positives=torch.from_numpy(num_positives)[None].long(),
        scores=scores[order],
        class_index=class_index,
        images=images[order],
        rows=order,
        limits=limits[order],
        area_bits=torch.ones_like(order),
        columns=torch.arange(len(order), device="cpu"),
        matched=is_matched | is_ignored,
        true_positive=is_matched & ~is_ignored,
    )


class _Columns(NamedTuple):
    """The values of a dict of `evalImgs` that count."""

    scores: NDArray[np.float64]
    """[detections]"""
    matches: NDArray[np.float64]
    """[thresholds, detections]"""
    is_ignored: NDArray[np.float64]
    """[thresholds, detections]"""
    is_true_ignored: NDArray[np.float64]
    """one for each ground truth"""


def _read_columns(row: Any, num_thresholds: int) -> _Columns:
    """Return the values of a dict of `evalImgs` that count; raise if they are invalid."""
    try:
        columns = _Columns(
            *(np.asarray(row[key], dtype=np.float64) for key in ("dtScores", "dtMatches", "dtIgnore", "gtIgnore"))
        )
    except (IndexError, KeyError, TypeError, ValueError):
        columns = None
    if columns is None or not _is_valid(columns, num_thresholds):
        rule = "dicts with `dtScores` [D], finite, `dtMatches` and `dtIgnore` [T, D] and `gtIgnore`"
        got = f"for the {num_thresholds} `iouThrs`; got {reprlib.repr(row)}"
        raise ValueError(f"`evalImgs` must hold {rule} {got}.")
    return columns


def _is_valid(columns: _Columns, num_thresholds: int) -> bool:
    """Return whether the shapes fit each other, and all scores are finite."""
    shape = (num_thresholds, columns.scores.size)
    has_shapes = columns.scores.ndim == 1 and columns.matches.shape == shape and columns.is_ignored.shape == shape
    return has_shapes and bool(np.isfinite(columns.scores).all())
