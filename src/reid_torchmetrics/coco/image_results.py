"""The matches of every image, category and area range in pycocotools' form, and the overlaps that they are made of."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from reid_torchmetrics.functional.detection.matching import Matches

from .problem import CocoProblem

ImageResult: TypeAlias = dict[str, Any]
Ints: TypeAlias = NDArray[np.int64]


class _Group(NamedTuple):
    """The objects of an image and category."""

    image: int
    category: int
    detections: Ints
    """places in the matches, by descending score"""
    ground_truths: Ints
    """rows"""


def _groups(problem: CocoProblem, matches: Matches) -> Iterator[_Group]:
    """All images of the first category, of the second, and so on."""
    num_images = len(problem.images)
    keys = (
        matches.class_index.numpy() * num_images + matches.images.numpy(),
        problem.truth.labels.numpy() * num_images + problem.truth.images.numpy(),
    )
    orders = [key.argsort(kind="stable") for key in keys]
    last = np.arange(1, len(problem.categories) * num_images)
    sides = [np.split(order, np.searchsorted(key[order], last)) for order, key in zip(orders, keys, strict=True)]
    for number, (category, image) in enumerate(product(range(len(problem.categories)), range(num_images))):
        yield _Group(image, category, sides[0][number], sides[1][number])


def list_overlaps(problem: CocoProblem) -> dict[tuple[Any, Any], Any]:
    """By image and category, [detections, ground truths] float64; an empty list without either."""
    matches, found = problem.matches(), {}
    shapes, true_shapes = problem.detections.shapes, problem.ground_truths.shapes
    for each in _groups(problem, matches):
        rows = matches.rows.numpy()[each.detections]
        pairs = np.stack(np.meshgrid(rows, each.ground_truths, indexing="ij")).reshape(2, -1)
        row, true_row = torch.from_numpy(pairs)
        crowds = problem.ground_truths.is_crowd
        iou = shapes.overlaps(row, true_shapes, true_row, None if crowds is None else crowds[true_row])
        table: Any = iou.view(len(rows), len(each.ground_truths)).numpy() if len(row) else []
        found[problem.images[each.image], problem.categories[each.category]] = table
    return found


def list_results(problem: CocoProblem) -> list[ImageResult | None]:
    """By category, area range and image; None without objects."""
    matches, grid = problem.matches(keep_ground_truths=True), problem.grid
    rows = [problem.results.rows[row] for row in matches.rows.tolist()]
    ids = np.array([row["id"] for row in rows], dtype=np.float64)
    # By area range: of a detection the row of its ground truth, and whether it is outside; the last value of a column
    # of ground truths is that of none, read at row -1.
    taken = np.full((len(grid.area_ranges), len(grid.iou_thresholds), len(rows)), -1)
    taken[:, :, matches.columns.numpy()] = matches.ground_truths
    true_ids = np.array([*(row["id"] for row in problem.truth.rows), 0], dtype=np.float64)
    objects = problem.ground_truths
    areas, crowds = (np.append(np.asarray(each), 0) for each in (objects.areas, objects.is_crowd))
    groups, listed = [*_groups(problem, matches)], []
    starts = range(0, len(groups), max(len(problem.images), 1))
    for start, (number, ends) in product(starts, enumerate(grid.area_ranges.values())):
        is_ignored = (crowds != 0) | (areas < ends[0]) | (areas > ends[1])
        is_ignored[-1] = False
        is_outside = (matches.area_bits.numpy() >> number) & 1 == 0
        for group in groups[start : start + len(problem.images)]:
            places, trues = group.detections, group.ground_truths
            trues = trues[is_ignored[trues].argsort(kind="stable")]
            chosen = taken[number][:, places]
            dt_matches, gt_matches = true_ids[chosen], np.zeros((len(chosen), len(trues)))
            threshold, place = (chosen >= 0).nonzero()
            column = (trues == chosen[threshold, place][:, None]).argmax(1) if len(place) else place
            gt_matches[threshold, column] = ids[places[place]]  # of a crowd the last detection
            result = {
                "image_id": problem.images[group.image],
                "category_id": problem.categories[group.category],
                "aRng": [*ends],
                "maxDet": grid.max_detections[-1],
                "dtIds": [rows[each]["id"] for each in places],
                "gtIds": [problem.truth.rows[each]["id"] for each in trues],
                "dtMatches": dt_matches,
                "gtMatches": gt_matches,
                "dtScores": [rows[each]["score"] for each in places],
                "gtIgnore": is_ignored[trues].astype(int),
                "dtIgnore": is_ignored[chosen] | ((dt_matches == 0) & is_outside[places]),
            }
            listed.append(result if len(places) or len(trues) else None)
    return listed
