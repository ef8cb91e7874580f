"""`duplicates`: near duplicates of embeddings in files, by a metric, as a table of pairs (CSV)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from reid_torchmetrics.metrics.reid import ReIDMeanAP

from .evaluate import naming_bad_rows, read_sides
from .processes import joined, telling_errors
from .sides import batches
from .terminal import say


def run(arguments: SimpleNamespace, options: dict[str, Any]) -> int:
    """Print pairs of near duplicates; return the exit status."""
    # Without labels, all that counts is which embeddings there are.
    without_labels: dict[str, Any] = {"labels": [], "file_names": None, "captions": None, "stream": False}
    sides = read_sides(SimpleNamespace(**vars(arguments), **without_labels))
    threshold = options.pop("threshold", 0.95)
    files = [file for side in sides.values() for file in side.files]
    if files[0].kind != "embeddings":
        raise ValueError(f"{files[0].path}: `query` must be embeddings; got {files[0].kind}.")
    flags = sides["query"].columns.get("roles", np.eye(2, dtype=bool))
    if not (flags.sum(axis=1) == 1).all():
        raise ValueError(
            f"{files[0].path}: each row must be a query or a gallery item; got rows of both, or of neither."
        )
    with joined() as share, naming_bad_rows(files), telling_errors(share):
        metric = ReIDMeanAP(**options)
        for embeddings, is_query, _ in batches(sides, share):
            metric.update(embeddings, np.zeros(len(embeddings), dtype=np.int64), is_query=is_query)
        found = metric.duplicates(threshold)
    if share.process == 0:
        columns = found.query.tolist(), found.gallery.tolist(), found.score.tolist()
        rows = (f"{query},{item},{score:.9g}" for query, item, score in zip(*columns, strict=True))
        print("query,gallery,score", *rows, sep="\n")  # noqa: T201
    what = "items" if found.within else "queries"
    affected = f"{what} with a near copy: {len(found.affected_queries)}"
    say(f"pairs: {len(found)}, groups: {len(found.groups())}, {affected}")
    return 0
