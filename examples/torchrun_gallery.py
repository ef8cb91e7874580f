"""Evaluate a gallery of Parquet files on the processes of torchrun: each reads its share twice, and nobody holds all.

    torchrun --nproc-per-node 2 examples/torchrun_gallery.py           # a small gallery that is drawn
    torchrun --nproc-per-node 2 examples/torchrun_gallery.py FOLDER    # query.parquet and gallery/*.parquet in it

The items with an identity of a query are read first, wherever they are: their scores are what is counted against. Then
each process counts the others of its files, by their names.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import distributed

from reid.parquet_gallery import PROTOCOL, asked_for, gallery_files, has_query, make_counter, read_items
from reid_torchmetrics.tasks import evaluate_stream

if TYPE_CHECKING:
    from reid_torchmetrics.tasks import Counts, RankCounter


def gather(value: Any) -> list[Any]:
    """Give the values of all processes."""
    values = [None] * distributed.get_world_size()
    distributed.all_gather_object(values, value)
    return values


def count_gallery(folder: Path) -> tuple[RankCounter, Counts]:
    """Give the counter of a gallery, and what it counts in all files."""
    query = read_items(folder / "query.parquet")
    files = gallery_files(folder)[distributed.get_rank() :: distributed.get_world_size()]
    known = has_query(query)
    positives = chain.from_iterable(gather([read_items(file, known) for file in files]))
    counter = make_counter(query, positives)
    parts = (counter.count(*read_items(file, ~known), key=Path(file).name) for file in files)
    return counter, sum(gather(sum(parts)))


if __name__ == "__main__":
    distributed.init_process_group("gloo")
    with asked_for(__doc__) as folder:
        results = evaluate_stream(*count_gallery(folder), protocol=PROTOCOL)
    if distributed.get_rank() == 0:
        print(results)
    distributed.destroy_process_group()
