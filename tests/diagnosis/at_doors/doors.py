"""Every entry point of retrieval, lists and pairs, by the kind of example that it takes."""

import contextlib
import io
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from reid_torchmetrics import PairVerification, ReIDCMC, ReIDMeanAP, ReIDMetrics
from reid_torchmetrics.command import main
from reid_torchmetrics.functional.retrieval import evaluate, evaluate_scores, find_protocol
from reid_torchmetrics.tasks import (
    RankCounter,
    accuracy_over_folds,
    evaluate_lists,
    evaluate_stream,
    index_recall,
    person_search,
    verify_pairs,
)

Data = dict[str, Any]
FILE_KEYS = {"identities": "pids", "cameras": "camids"}
"""names of labels in files, where they differ"""
OF_EMBEDDINGS = ("query", "gallery", "similarity", "multi_query")


def labels_of(side: str, data: Data) -> Data:
    """The labels of one side, by their names."""
    return {name.removeprefix(f"{side}_"): values for name, values in data.items() if name.startswith(f"{side}_")}


def options_of(data: Data) -> Data:
    """The keywords that are neither samples nor labels."""
    return {name: value for name, value in data.items() if not name.startswith(("query", "gallery"))}


def without_embeddings(data: Data) -> Data:
    return {name: value for name, value in data.items() if name not in OF_EMBEDDINGS}


def scores_of(data: Data) -> Tensor:
    """The scores of queries and gallery items, by cosine unless there is a similarity."""
    query, gallery = data["query"].float(), data["gallery"].float()
    similarity = data.get("similarity")
    if callable(similarity):
        return similarity(query, gallery)
    return (query if similarity else normalize(query)) @ (gallery if similarity else normalize(gallery)).T


def run_command(name: str, files: Mapping[str, Any], *words: Any) -> None:
    """Run the command with files that were written before: arrays by name, texts, or JSON."""
    with tempfile.TemporaryDirectory() as folder:
        for file, values in files.items():
            if file.endswith(".npz"):
                np.savez(Path(folder) / file, **values)
            else:
                text = values if isinstance(values, str) else json.dumps(values)
                path = Path(folder) / file
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")
        in_folder = {file.split("/")[0] for file in files}
        words = [str(Path(folder) / word) if word in in_folder else str(word) for word in words]
        with contextlib.redirect_stderr(io.StringIO()) as written, contextlib.redirect_stdout(io.StringIO()):
            status = main([name, *words])
    assert status == 0, written.getvalue()


def as_words(options: Data) -> list[str]:
    """Options of functions as those of the command."""
    words = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif value is not None:
            words += [flag, *(map(str, value) if isinstance(value, (list, tuple)) else [str(value)])]
    return words


def arrays_of(labels: Data) -> Data:
    return {FILE_KEYS.get(name, name): np.asarray(values) for name, values in labels.items()}


def by_command(data: Data, *words: str) -> None:
    files = {}
    for side in ("query", "gallery"):
        files[f"{side}.npz"] = {"feat": data[side].float().numpy(), **arrays_of(labels_of(side, data))}
    run_command("evaluate", files, "query.npz", "gallery.npz", *as_words(options_of(data)), *words)


def by_stream(data: Data) -> None:
    options = options_of(data)
    similarity = {"similarity": options.pop("similarity")} if "similarity" in options else {}
    protocol = find_protocol(options.pop("protocol", "market1501"))
    changed = protocol.with_options(options)
    rules = {name: value for name, value in changed.relevance_options.items() if value is not None}
    positives = {f"positive_{name}": values for name, values in labels_of("gallery", data).items()}
    queries = {f"query_{name}": values for name, values in labels_of("query", data).items()}
    counter = RankCounter(data["query"], data["gallery"], **queries, **positives, **rules, **similarity)
    evaluate_stream(counter, 0, protocol=changed if options else data.get("protocol", changed))


def filled(metric: Any, data: Data) -> Any:
    for side in ("query", "gallery"):
        metric.update(data[side], **labels_of(side, data), is_query=side == "query")
    return metric


def of_metric(kind: Callable[..., Any], method: str = "compute") -> Callable[[Data], object]:
    """A metric whose method is called twice."""

    def call(data: Data) -> None:
        metric = filled(kind(**options_of(data)), data)
        for _ in range(2):
            getattr(metric, method)()

    return call


def part_of(data: Data, process: int, size: int) -> Data:
    """What one of several processes holds."""
    return {
        name: values[process::size] if name.startswith(("query", "gallery")) else values
        for name, values in data.items()
    }


METRICS: dict[str, Callable[..., Any]] = {"ReIDMetrics": ReIDMetrics, "ReIDMeanAP": ReIDMeanAP, "ReIDCMC": ReIDCMC}
OF_SAMPLES: dict[str, Callable[[Data], object]] = {
    "evaluate": lambda data: evaluate(**data),
    "evaluate_scores": lambda data: evaluate_scores(scores_of(data), **without_embeddings(data)),
    "distances": lambda data: evaluate_scores(distances=-scores_of(data), **without_embeddings(data)),
    "evaluate_lists": lambda data: evaluate_lists(
        scores_of(data).argsort(dim=1, descending=True), **without_embeddings(data)
    ),
    "evaluate_stream": by_stream,
    **{f"{name}.compute": of_metric(kind) for name, kind in METRICS.items()},
    "ReIDMetrics.results": of_metric(ReIDMetrics, "results"),
    "command": by_command,
    "command --stream": lambda data: by_command(data, "--stream"),
}
"""queries and gallery items with labels, by the keywords of `evaluate`"""


def by_matrix_command(data: Data) -> None:
    kind = "distances" if "distances" in data else "scores"
    labels = without_embeddings(data)
    sides = {f"{side}.npz": arrays_of(labels_of(side, labels)) for side in ("query", "gallery")}
    matrix = {f"{kind}.npz": {kind: data[kind].double().numpy()}}
    words = as_words({name: value for name, value in options_of(labels).items() if name != kind})
    run_command("evaluate", {**sides, **matrix}, f"--{kind}", f"{kind}.npz", "--labels", *sides, *words)


OF_MATRICES: dict[str, Callable[[Data], object]] = {
    "evaluate_scores": lambda data: evaluate_scores(**data),
    "command --scores": by_matrix_command,
}
"""a matrix with labels, by the keywords of `evaluate_scores`"""


def updated(kind: Callable[..., Any], method: str) -> Callable[[Data], object]:
    """A metric that is updated by batches, of samples or of images; None stands for an evaluation between them."""

    def call(data: Data) -> None:
        metric = kind(**data.get("options", {}))
        for batch in [*data["batches"], None]:
            if batch is None:
                getattr(metric, method)()
            elif isinstance(batch, dict):
                metric.update(**batch)
            else:
                metric.update(*batch)

    return call


OF_BATCHES: dict[str, Callable[[Data], object]] = {
    f"{name}.{method}": updated(kind, method) for name, kind in METRICS.items() for method in ("compute", "results")
}
"""batches of a metric, with the options of the metric"""


def by_list_command(data: Data) -> None:
    run_command("lists", {"lists.json": data["retrieved"], "truth.json": data["positives"]}, "lists.json", "truth.json")


OF_LISTS: dict[str, Callable[[Data], object]] = {
    "evaluate_lists": lambda data: evaluate_lists(**data),
    "command lists": by_list_command,
}
"""ranked lists and positives"""


def by_pair_metric(method: str) -> Callable[[Data], object]:
    def call(data: Data) -> None:
        metric = PairVerification()
        metric.update(data["first"], data["second"], data["same"])
        getattr(metric, method)()

    return call


def cosines_of(data: Data) -> Tensor:
    return torch.nn.functional.cosine_similarity(data["first"].double(), data["second"].double())


def squared_distances_of(data: Data) -> Tensor:
    return ((data["first"] - data["second"]).double() ** 2).sum(1)


def by_pair_command(data: Data) -> None:
    arrays = {"scores": cosines_of(data).numpy(), "same": data["same"].numpy()}
    run_command("pairs", {"pairs.npz": arrays}, "pairs.npz")


OF_PAIRS: dict[str, Callable[[Data], object]] = {
    "verify_pairs": lambda data: verify_pairs(cosines_of(data), data["same"]),
    "verify_pairs, distances": lambda data: verify_pairs(None, data["same"], distances=squared_distances_of(data)),
    "accuracy_over_folds": lambda data: accuracy_over_folds(squared_distances_of(data), data["same"]),
    "PairVerification.compute": by_pair_metric("compute"),
    "PairVerification.results": by_pair_metric("results"),
    "command pairs": by_pair_command,
}
"""both sides of pairs, and whether they are of one identity"""

OF_PERSONS: dict[str, Callable[[Data], object]] = {"person_search": lambda data: person_search(**data)}
"""keywords of `person_search`"""
OF_INDEXES: dict[str, Callable[[Data], object]] = {"index_recall": lambda data: index_recall(**data)}
"""lists of an index, and the embeddings"""
