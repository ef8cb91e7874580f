"""Evaluate a gallery of Parquet files with Spark: workers read it twice, and nobody holds it.

    python examples/spark_gallery.py           # a small gallery that is drawn, on this machine
    python examples/spark_gallery.py FOLDER    # FOLDER/query.parquet and FOLDER/gallery/*.parquet

On a cluster all machines see FOLDER, and have this script's folder on their PYTHONPATH. Spark needs Java 17 or newer.

The items with an identity of a query are read first, wherever they are: their scores are what is counted against. Then
each task counts the others of some files, each by its name. If a worker dies, Spark does its tasks again.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from reid.parquet_gallery import PROTOCOL, asked_for, gallery_files, has_query, items_of, make_counter, read_items
from reid_torchmetrics.tasks import evaluate_stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from reid_torchmetrics.tasks import Counts, RankCounter


def count_gallery(folder: Path) -> tuple[RankCounter, Counts]:
    """Give the counter of a gallery, and what it counts in all files."""
    spark = SparkSession.builder.getOrCreate()
    query, files = read_items(folder / "query.parquet"), gallery_files(folder)
    rows = spark.read.parquet(*files).where(col("identity").isin(query.identities.tolist()))
    table = rows.toArrow()
    place = table.column_names.index("embedding")
    row_type = pa.list_(pa.float32(), query.embeddings.shape[1])  # Spark has no lists of fixed size
    positives = table.set_column(place, "embedding", table["embedding"].cast(row_type))
    counter, others = make_counter(query, [items_of(positives)]), ~has_query(query)

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for file in batch["file"].to_pylist():
                counts = counter.count(*read_items(file, others), key=Path(file).name)
                yield pa.record_batch({"counts": pa.array([pickle.dumps(counts)], pa.binary())})

    tasks = spark.createDataFrame([(file,) for file in files], "file string").repartition(len(files))
    counted = tasks.mapInArrow(count, "counts binary").toLocalIterator()
    return counter, sum(pickle.loads(part.counts) for part in counted)  # noqa: S301 - what the tasks have pickled


if __name__ == "__main__":
    with asked_for(__doc__) as folder:
        print(evaluate_stream(*count_gallery(folder), protocol=PROTOCOL))
