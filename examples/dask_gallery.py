"""Evaluate a gallery of Parquet files with Dask: workers read it twice, and nobody holds it.

    python examples/dask_gallery.py            # a small gallery that is drawn, on this machine
    python examples/dask_gallery.py FOLDER     # FOLDER/query.parquet and FOLDER/gallery/*.parquet

For a cluster give `Client` its address; its workers see FOLDER, and have this script's folder on their PYTHONPATH.

The items with an identity of a query are read first, wherever they are: their scores are what is counted against. Then
each task counts the others of a file, by the name of the file. If a worker dies, Dask does its tasks again.
"""

from __future__ import annotations

from operator import add
from pathlib import Path
from typing import TYPE_CHECKING

import dask
from dask import bag, delayed
from dask.distributed import Client

from reid.parquet_gallery import PROTOCOL, asked_for, gallery_files, has_query, make_counter, read_items
from reid_torchmetrics.tasks import evaluate_stream

if TYPE_CHECKING:
    from pyarrow.compute import Expression

    from reid_torchmetrics.tasks import Counts, RankCounter


def count(file: str, counter: RankCounter, others: Expression) -> Counts:
    """Count the items of a file that have no identity of a query."""
    return counter.count(*read_items(file, others), key=Path(file).name)


def count_gallery(folder: Path) -> tuple[RankCounter, Counts]:
    """Give the counter of a gallery, and what it counts in all files."""
    files = bag.from_sequence(gallery_files(folder), partition_size=1)
    query = delayed(read_items)(folder / "query.parquet")
    known = delayed(has_query)(query)
    counter = delayed(make_counter)(query, files.map(read_items, known))
    return dask.compute(counter, files.map(count, counter, ~known).fold(add))


if __name__ == "__main__":
    with asked_for(__doc__) as folder, Client():
        print(evaluate_stream(*count_gallery(folder), protocol=PROTOCOL))
