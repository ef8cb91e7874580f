"""`duplicates`: near duplicates of embeddings in files, by a metric, as a table of pairs (CSV)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reid_torchmetrics.functional.world import DistributedMetricError
from reid_torchmetrics.metrics.reid import ReIDMeanAP

from . import say
from .evaluate import name_bad_rows, read_sides
from .options import parsed
from .processes import joined
from .sides import batches


def run(words: Sequence[str]) -> int:
    """Print the pairs that the words of the command line ask for; return the exit status."""
    arguments, options = parsed("duplicates", words, labels=(), file_names=None, captions=None, stream=False)
    sides = read_sides(arguments)
    files = [file for side in sides.values() for file in side.files]
    if files[0].kind != "embeddings":
        raise ValueError(f"{files[0].path}: `query` must be embeddings; got {files[0].kind}.")
    threshold = options.pop("threshold", 0.95)
    with joined() as share:
        metric = ReIDMeanAP(**options)
        for embeddings, is_query, _ in batches(sides, share):
            metric.update(embeddings, np.zeros(len(embeddings), dtype=np.int64), is_query=is_query)
        try:
            found = metric.duplicates(threshold)
        except (ValueError, DistributedMetricError):
            name_bad_rows(files)
            raise
    if share.process == 0:
        pairs = zip(found.query.tolist(), found.gallery.tolist(), found.score.tolist(), strict=True)
        rows = (f"{query},{item},{score:.9g}" for query, item, score in pairs)
        print("query,gallery,score", *rows, sep="\n")  # noqa: T201
    what, query = "items" if found.within else "queries", sides["query"]
    copied = f"{len(found.copied)} of {int(np.sum(query.columns.get('roles', np.ones(len(query)))))}"
    say(f"pairs: {len(found)}, groups: {len(found.groups())}, {what} with a near copy: {copied}")
    return 0
