"""The page on trackers: other packages take its lists, and give the numbers that are counted by hand."""

import math

import numpy as np
import pytest

from reid_torchmetrics.functional.detection import pairwise_iou


def by_trackers(gt_ids, tracker_ids, overlaps):
    tracking = pytest.importorskip("trackers.eval")
    problem = gt_ids, tracker_ids, overlaps
    return {
        "HOTA": tracking.compute_hota_metrics(*problem)["HOTA"],
        "IDF1": tracking.compute_identity_metrics(*problem)["IDF1"],
        "MOTA": tracking.compute_clear_metrics(*problem)["MOTA"],
    }


def by_trackeval(gt_ids, tracker_ids, overlaps):
    metrics = pytest.importorskip("trackeval").metrics
    data = {"similarity_scores": overlaps, "num_timesteps": len(overlaps)}
    for side, ids in (("gt", gt_ids), ("tracker", tracker_ids)):
        known, places = np.unique(np.concatenate(ids), return_inverse=True)
        data[f"{side}_ids"] = np.split(places, np.cumsum([*map(len, ids)])[:-1])
        data |= {f"num_{side}_ids": len(known), f"num_{side}_dets": len(places)}
    quiet = {"PRINT_CONFIG": False}
    return {
        "HOTA": metrics.HOTA().eval_sequence(data)["HOTA"].mean(),
        "IDF1": metrics.Identity(quiet).eval_sequence(data)["IDF1"],
        "MOTA": metrics.CLEAR(quiet).eval_sequence(data)["MOTA"],
    }


def by_motmetrics(gt_ids, tracker_ids, overlaps):
    motmetrics = pytest.importorskip("motmetrics")
    events = motmetrics.MOTAccumulator(auto_id=True)
    for objects, tracks, iou in zip(gt_ids, tracker_ids, overlaps, strict=True):
        events.update(objects, tracks, np.where(iou < 0.5, np.nan, 1 - iou))
    numbers = motmetrics.metrics.create().compute(events, metrics=["idf1", "mota"])
    return {name.upper(): numbers[name].item() for name in numbers}


@pytest.mark.parametrize("package", [by_trackers, by_trackeval, by_motmetrics])
def test_a_package_takes_ids_and_overlaps_of_frames(package):
    # Of two persons one is found in all of three frames, by track 7, 7 and 9, the other never; track 8 is nobody.
    persons, found = np.array([[0, 0, 9, 10], [50, 0, 60, 10]]), np.array([[3, 0, 12, 10], [0, 50, 10, 60]])
    iou = pairwise_iou(persons, found, box_format="xyxy").numpy()
    assert iou.tolist() == [[0.5, 0], [0, 0]]
    numbers = package([np.array([1, 2])] * 3, [np.array([track, 8]) for track in (7, 7, 9)], [iou] * 3)
    detection, association = 3 / (3 + 3 + 3), (2 / 3 + 2 / 3 + 1 / 3) / 3
    expected = {
        "HOTA": 10 / 19 * math.sqrt(detection * association),  # at 0.05, 0.1, ..., 0.5
        "IDF1": 2 * 2 / (6 + 6),
        "MOTA": 1 - (3 + 3 + 1) / 6,
    }
    assert numbers == pytest.approx({name: expected[name] for name in numbers}, abs=1e-12)
    assert {"IDF1", "MOTA"} <= numbers.keys()
