"""Evaluate a gallery of Parquet files with Ray Data: workers read it twice, and nobody holds it.

    python examples/ray_gallery.py             # a small gallery that is drawn, on this machine
    python examples/ray_gallery.py FOLDER      # FOLDER/query.parquet and FOLDER/gallery/*.parquet

On a cluster, which RAY_ADDRESS names, all machines see FOLDER and this script.

The items with an identity of a query are read first, wherever they are: their scores are what is counted against. Then
each task counts the others of a file, by the name of the file. If a worker dies, Ray gives its file to another one.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import ray
from ray.data.expressions import col

from reid.parquet_gallery import PROTOCOL, asked_for, gallery_files, has_query, items_of, make_counter, read_items
from reid_torchmetrics.tasks import evaluate_stream

if TYPE_CHECKING:
    from reid_torchmetrics.tasks import Counts, RankCounter


def count_gallery(folder: Path) -> tuple[RankCounter, Counts]:
    """Give the counter of a gallery, and what it counts in all files."""
    query, files = read_items(folder / "query.parquet"), gallery_files(folder)
    positives = ray.data.read_parquet(files).filter(expr=col("identity").is_in(query.identities.tolist()))
    tables = positives.iter_batches(batch_size=None, batch_format="pyarrow")
    counter, others = make_counter(query, map(items_of, tables)), ~has_query(query)

    def count(part: dict[str, str]) -> dict[str, bytes]:
        file = part["item"]
        counts = counter.count(*read_items(file, others), key=Path(file).name)
        return {"counts": pickle.dumps(counts)}  # columns of Arrow hold bytes, not objects

    counted = ray.data.from_items(files).map(count).iter_rows()
    return counter, sum(pickle.loads(part["counts"]) for part in counted)  # noqa: S301 - what the tasks have pickled


if __name__ == "__main__":
    with asked_for(__doc__) as folder:
        print(evaluate_stream(*count_gallery(folder), protocol=PROTOCOL))
