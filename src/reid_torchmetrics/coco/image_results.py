"""The matches of every image, category and area range in pycocotools' form, and the overlaps that they are made of."""

from __future__ import annotations

from itertools import product
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from reid_torchmetrics.functional.detection.matching import Matches

from .problem import CocoProblem

ImageResult: TypeAlias = dict[str, Any]
Ints: TypeAlias = NDArray[np.int64]


def _groups(problem: CocoProblem, matches: Matches) -> list[tuple[Ints, Ints]]:
    """Of each category and image the places of its detections in the matches, by score, and rows of ground truths."""
    num_images = len(problem.images)
    keys = (
        matches.class_index.numpy() * num_images + matches.images.numpy(),
        problem.truth.labels.numpy() * num_images + problem.truth.images.numpy(),
    )
    numbers = np.arange(len(problem.categories) * num_images)
    orders = [key.argsort(kind="stable") for key in keys]
    sides = [np.split(order, np.searchsorted(key[order], numbers[1:])) for order, key in zip(orders, keys, strict=True)]
    return [*zip(*sides, strict=True)][: len(numbers)]


def list_overlaps(problem: CocoProblem) -> dict[tuple[Any, Any], Any]:
    """By image and category, [detections, ground truths] float64; an empty list without either."""
    matches = problem.matches()
    found: dict[tuple[Any, Any], Any] = {}
    shapes, true_shapes = problem.detections.shapes, problem.ground_truths.shapes
    names = product(problem.categories, problem.images)
    for (category, image), (places, trues) in zip(names, _groups(problem, matches), strict=True):
        rows = matches.rows.numpy()[places]
        row, true_row = torch.from_numpy(np.stack(np.meshgrid(rows, trues, indexing="ij")).reshape(2, -1))
        crowds = problem.ground_truths.is_crowd
        iou = shapes.overlaps(row, true_shapes, true_row, None if crowds is None else crowds[true_row])
        found[image, category] = iou.view(len(rows), len(trues)).numpy() if len(row) else []
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
    groups, listed, step = _groups(problem, matches), [], max(len(problem.images), 1)
    for (first, category), (number, ends) in product(
        enumerate(problem.categories), enumerate(grid.area_ranges.values())
    ):
        is_ignored = (crowds != 0) | (areas < ends[0]) | (areas > ends[1])
        is_ignored[-1] = False
        is_outside = (matches.area_bits.numpy() >> number) & 1 == 0
        for image, (places, trues) in zip(problem.images, groups[first * step : (first + 1) * step], strict=True):
            ordered = trues[is_ignored[trues].argsort(kind="stable")]
            chosen = taken[number][:, places]
            dt_matches, gt_matches = true_ids[chosen], np.zeros((len(chosen), len(ordered)))
            threshold, place = (chosen >= 0).nonzero()
            column = (ordered == chosen[threshold, place][:, None]).argmax(1) if len(place) else place
            gt_matches[threshold, column] = ids[places[place]]  # of a crowd the last detection
            result = {
                "image_id": image,
                "category_id": category,
                "aRng": [*ends],
                "maxDet": grid.max_detections[-1],
                "dtIds": [rows[each]["id"] for each in places],
                "gtIds": [problem.truth.rows[each]["id"] for each in ordered],
                "dtMatches": dt_matches,
                "gtMatches": gt_matches,
                "dtScores": [rows[each]["score"] for each in places],
                "gtIgnore": is_ignored[ordered].astype(int),
                "dtIgnore": is_ignored[chosen] | ((dt_matches == 0) & is_outside[places]),
            }
            listed.append(result if len(places) or len(ordered) else None)
    return listed
