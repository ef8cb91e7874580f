"""`duplicates`: near duplicates of embeddings in files, by a metric, as a table of pairs (CSV)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from reid_torchmetrics.metrics.reid import ReIDMeanAP

from .evaluate import naming_bad_rows
from .label_tables import log_positions
from .processes import join_processes, share_errors
from .sample_reading import read_sample_sets
from .terminal import log


def run(arguments: SimpleNamespace, options: dict[str, Any]) -> int:
    """Print pairs of near duplicates; return the exit status."""
    # Embeddings are compared without labels.
    without_labels = SimpleNamespace(**vars(arguments), labels=[], file_names=None, captions=None, stream=False)
    sample_sets = read_sample_sets(without_labels, needs_identities=False)
    threshold = options.pop("threshold", 0.95)
    files = sample_sets.files
    path = files[0].path
    if files[0].kind != "embeddings":
        raise ValueError(f"{path}: `query` must be embeddings; got {files[0].kind}.")
    roles = sample_sets.query.roles
    if roles is not None and not (roles.sum(axis=1) == 1).all():
        raise ValueError(f"{path}: each row must be a query or a gallery item; got rows of both, or of neither.")

    with join_processes() as share, naming_bad_rows(files), share_errors(share):
        metric = ReIDMeanAP(**options)
        for embeddings, is_query, _ in sample_sets.batches(share):
            metric.update(embeddings, np.zeros(len(embeddings), dtype=np.int64), is_query=is_query)
        pairs = metric.duplicates(threshold)

    if share.process == 0:
        log_positions(sample_sets)
        title, values = pairs.column
        lines = [f"query,gallery,{title}"]
        for query, item, value in zip(pairs.query.tolist(), pairs.gallery.tolist(), values.tolist(), strict=True):
            lines.append(f"{query},{item},{value:.9g}")
        print("\n".join(lines))  # noqa: T201
    log(f"{pairs.summary}; groups: {len(pairs.groups()):,}")
    return 0
