"""Evaluations that take more than one call; every name is looked for in the package of the checkout."""

import contextlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from .answers import public


def generator() -> torch.Generator:
    """Return a generator with a fixed seed."""
    return torch.Generator().manual_seed(7)


def on_device(metric: Any, device: str) -> Any:
    """Return a metric that computes on a device."""
    return metric.to(device)


FUNCTIONS_OF_RANKS: dict[str, tuple[Mapping[str, Any], ...]] = {
    "average_precision": (
        {},
        *({"rule": rule} for rule in ("trapezoid", "interpolated_11", "interpolated_101")),
        *({"k": 3, "normalizer": divisor} for divisor in ("positives", "attainable", "hits", "k")),
    ),
    "average_precision_at_r": ({},),
    "binary_preference": ({},),
    "cmc_at": ({"k": 2}, {"k": 2, "mode": "all_shots"}),
    "cmc_curve": ({"max_rank": 5}, {"max_rank": 5, "empty_target_action": "neg"}),
    "cumulative_gain_at": ({"k": 3},),
    "first_rank": ({},),
    "hit_rate_at": ({"k": 2},),
    "inverse_negative_penalty": ({},),
    "mean_precision_recall_curve": ({"num_points": 11},),
    "normalized_dcg": ({}, {"k": 3}, {"gain": "exponential"}),
    "precision_at": tuple({"k": 4, "divisor": name} for name in ("k", "attainable", "last_positive", "calibrated")),
    "r_precision": ({}, {"k": 2}),
    "recall_at": ({"k": 3},),
    "reciprocal_rank": ({}, {"k": 3}),
    "retrieval_rank": ({}, {"variant": "shrec22"}),
}


def functions_of_ranks(k: int, arguments: Mapping[str, Any]) -> dict[str, object]:
    """Return ranks from a matrix of scores, and the values of all functions of ranks."""
    ranks = public("rank_positives_from_scores")(**arguments)
    values: dict[str, object] = {"rank": ranks.rank, "num_candidates": ranks.num_candidates}
    for name, calls in FUNCTIONS_OF_RANKS.items():
        for number, options in enumerate(calls):
            try:
                more = {"k": k} if "k" in options else {}
                values[f"{name}_{number}"] = public(name)(ranks, **options | more)
            except Exception as error:  # noqa: BLE001, PERF203 - the other checkout must raise the same one
                values[f"{name}_{number}"] = f"raises {type(error).__name__}: {error}"
    return values


def stream(
    parts: Sequence[Mapping[str, Any]], counting: Mapping[str, Any], protocol: Mapping[str, Any], *, statistics: bool
) -> Any:
    """Return the results of a gallery whose items come in blocks; the first two parts are queries and positives."""
    query, positives, *blocks = parts
    arguments = {f"query_{name}": values for name, values in query.items() if name != "embeddings"}
    arguments |= {f"positive_{name}": values for name, values in positives.items() if name != "embeddings"}
    make = public("RankCounter")
    counter = make(query["embeddings"], positives["embeddings"], **arguments, **counting)
    if statistics:
        total = sum(counter.statistics(**block, key=number) for number, block in enumerate(blocks))
        counter = make(query["embeddings"], positives["embeddings"], **arguments, **counting, statistics=total)
    counts = sum(counter.count(**block, key=number) for number, block in enumerate(blocks))
    rules = {name: value for name, value in counting.items() if name not in ("similarity", "ties", "max_bytes")}
    rules |= {"camera_map": tuple(rules["camera_map"].items())} if "camera_map" in rules else {}
    return public("evaluate_stream")(counter, counts, protocol=public("Protocol")("own", "", **rules, **protocol))


def verified(relevance: Mapping[str, Any], scores: Any) -> Any:
    """Return the verification of all pairs of queries and gallery items."""
    pairs = public("find_relevance")(**relevance)
    return public("verify")(public("scores_from_matrix")(scores, pairs), pairs)


def without_duplicates(evaluation: Mapping[str, Any], threshold: float) -> object:
    """Return the means without the queries that have a near duplicate in the gallery."""
    results = public("evaluate")(**evaluation)
    duplicates = public("find_duplicates")(evaluation["query"], evaluation["gallery"], threshold=threshold)
    return results.means_without(duplicates)


def saved(function: str, arguments: Mapping[str, Any]) -> object:
    """Return the numbers of results that are saved and loaded."""
    results = public(function)(**arguments)
    results.save("saved.npz")
    loaded = type(results).load("saved.npz")
    return {"before": dict(results.means), "after": dict(loaded.means), "per_query": loaded.per_query}


def models(function: str, arguments: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> Any:
    """Return the comparison of models that are evaluated by the same function."""
    results = [public(function)(**arguments_of_model) for arguments_of_model in arguments]
    return public("compare")(*results, generator=generator(), **options)


def detectors(arguments: Sequence[tuple[Any, Any]], evaluation: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Return the comparison of detectors on the same images."""
    results = [public("evaluate_images")(*pair, **evaluation) for pair in arguments]
    return public("compare")(*results, generator=generator(), **options)


def coco_files(iou_type: str) -> dict[str, object]:
    """Return the arrays and numbers of the classes of `coco` for the files gt.json and dt.json."""
    data_set = public("COCO")("gt.json")
    evaluation = public("COCOeval")(data_set, data_set.loadRes("dt.json"), iou_type)
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return {"stats": evaluation.stats} | {name: evaluation.eval[name] for name in ("precision", "recall", "scores")}


def coco_metric(iou_type: str, options: Mapping[str, Any]) -> object:
    """Return the numbers of `DetectionMAP` for the files gt.json and dt.json."""
    make = public("DetectionMAP")
    preds, target = make.coco_to_tm("dt.json", "gt.json", iou_type=iou_type, **options)
    metric = make(iou_type=iou_type, box_format="xywh")
    metric.update(preds, target)
    return metric.compute()


def read_and_evaluated(
    reader: str, words: Sequence[Any], reading: Mapping[str, Any], metric: str, options: Mapping[str, Any]
) -> object:
    """Return the numbers of detection files that a reader of `data` reads."""
    preds, target = public(reader)(*words, **reading)
    metric_of_files = public(metric)(**options)
    metric_of_files.update(preds, target)
    return metric_of_files.compute()


def sample_files(words: Sequence[str], options: Mapping[str, Any]) -> Any:
    """Return the results of files of embeddings."""
    sides = [public("read_samples")(word) for word in words]
    return public("evaluate")(*sides, **options)


def command(words: Sequence[str]) -> dict[str, object]:
    """Return the status of a command, its errors and the numbers that it writes as JSON to out.json."""
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            status: object = public("main")(list(words))
        except SystemExit as end:
            status = end.code
    values: dict[str, object] = {"status": status}
    lines = [line for line in errors.getvalue().splitlines() if "error" in line]
    if lines:
        values["raises"] = f"raises {lines[-1]}"
    if Path("out.json").exists():
        values["json"] = json.loads(Path("out.json").read_text(encoding="utf-8"))
    else:
        values["printed"] = printed.getvalue()
    return values
