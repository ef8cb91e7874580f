"""Every way from samples to numbers, for queries and gallery items with labels, as `evaluate` takes them."""

import contextlib
import io
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from reid_torchmetrics import ReIDMeanAP, ReIDMetrics
from reid_torchmetrics.command import main
from reid_torchmetrics.functional.retrieval import evaluate, evaluate_scores, find_protocol
from reid_torchmetrics.tasks import RankCounter, evaluate_lists, evaluate_stream
from tests.diagnosis.retrieval.right_samples import RIGHT, Sides

KEYS = {"identities": "pids", "cameras": "camids", "positions": "positions"}
"""names of labels in files"""


def labels_of(side: str, given: dict[str, Any]) -> dict[str, Any]:
    """The labels of one side, by their names."""
    return {name.removeprefix(f"{side}_"): values for name, values in given.items() if name.startswith(f"{side}_")}


def options_of(given: dict[str, Any]) -> dict[str, Any]:
    """What is no label, such as the protocol."""
    return {name: value for name, value in given.items() if not name.startswith(("query_", "gallery_"))}


def cosines(query: Tensor, gallery: Tensor) -> Tensor:
    return normalize(query.float()) @ normalize(gallery.float()).T


def by_function(query: Tensor, gallery: Tensor, given: dict[str, Any]) -> None:
    evaluate(query, gallery, **given)


def by_scores(query: Tensor, gallery: Tensor, given: dict[str, Any]) -> None:
    evaluate_scores(cosines(query, gallery), **given)


def by_distances(query: Tensor, gallery: Tensor, given: dict[str, Any]) -> None:
    evaluate_scores(None, distances=torch.cdist(query.float(), gallery.float()), **given)


def by_lists(query: Tensor, gallery: Tensor, given: dict[str, Any]) -> None:
    evaluate_lists(cosines(query, gallery).argsort(dim=1, descending=True), **given)


def by_stream(query: Tensor, gallery: Tensor, given: dict[str, Any]) -> None:
    options = options_of(given)
    protocol = find_protocol(options.pop("protocol", "market1501")).with_options(options)
    rules = {name: value for name, value in protocol.relevance_options.items() if value is not None}
    positives = {f"positive_{name}": values for name, values in labels_of("gallery", given).items()}
    queries = {f"query_{name}": values for name, values in labels_of("query", given).items()}
    counter = RankCounter(query, gallery, **queries, **positives, **rules)
    evaluate_stream(counter, 0, protocol=protocol)


def filled(metric: Any, query: Tensor, gallery: Tensor, given: dict[str, Any]) -> Any:
    for embeddings, side in ((query, "query"), (gallery, "gallery")):
        metric.update(embeddings, **labels_of(side, given), is_query=side == "query")
    return metric


def by_metrics(query: Tensor, gallery: Tensor, given: dict[str, Any]) -> None:
    filled(ReIDMetrics(**options_of(given)), query, gallery, given).compute()


def by_results(query: Tensor, gallery: Tensor, given: dict[str, Any]) -> None:
    filled(ReIDMetrics(**options_of(given)), query, gallery, given).results()


def by_mean_ap(query: Tensor, gallery: Tensor, given: dict[str, Any]) -> None:
    filled(ReIDMeanAP(**options_of(given)), query, gallery, given).compute()


def by_command(query: Tensor, gallery: Tensor, given: dict[str, Any], *words: str) -> list[str]:
    """Call the command on two files, and return the warnings that it wrote."""
    options = options_of(given)
    for name, value in options.items():
        words = (*words, f"--{name.replace('_', '-')}", str(value))
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()) as written:
        paths = []
        for embeddings, side in ((query, "query"), (gallery, "gallery")):
            labels = {KEYS[name]: np.asarray(values) for name, values in labels_of(side, given).items()}
            paths.append(os.fspath(Path(folder) / f"{side}.npz"))
            np.savez(paths[-1], feat=embeddings.float().numpy(), **labels)
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("always")
            main(["evaluate", *paths, *words])
    return written.getvalue().splitlines()


DOORS: dict[str, Callable[[Tensor, Tensor, dict[str, Any]], object]] = {
    "evaluate": by_function,
    "evaluate_scores": by_scores,
    "distances": by_distances,
    "evaluate_lists": by_lists,
    "evaluate_stream": by_stream,
    "ReIDMetrics.compute": by_metrics,
    "ReIDMetrics.results": by_results,
    "ReIDMeanAP.compute": by_mean_ap,
}
"""functions and metrics"""


def call(door: str, draw: Callable[[], Sides]) -> None:
    """Call a function or a metric with samples."""
    DOORS[door](*draw())


def right(random: Random, kind: str) -> None:
    """Pass samples that resemble a mistake through two of the doors."""
    torch.manual_seed(random.getrandbits(32))
    query, gallery, given = RIGHT[kind](random)
    doors = ["evaluate", "evaluate_scores", "distances", "evaluate_lists"] if "self_index" in given else [*DOORS]
    for door in random.sample(doors, 2):
        DOORS[door](query, gallery, given)
    evaluate(query, gallery, **given, similarity=random.choice(("euclidean", "dot")))


def on_process(process: int, size: int, sides: Sides) -> None:
    """Compute on several processes, each of which has a part of both sides."""
    query, gallery, given = sides
    parts = {}
    for name, values in given.items():
        is_label = name.startswith(("query_", "gallery_"))
        parts[name] = values[process::size] if is_label else values
    by_metrics(query[process::size], gallery[process::size], parts)
