"""Tables and engines that carry a gallery in blocks: each row of the page on streams is run."""

from pathlib import Path

import numpy as np
import pytest
import torch

from reid_torchmetrics.tasks import RankCounter
from tests.test_docs import tables

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]

PAGE = (Path(__file__).parents[2] / "docs" / "how_to" / "streams.md").read_text(encoding="utf-8")
(TABLE,) = (table for table in tables(PAGE) if "carrier" in table.header)
ROWS = {row["carrier"]: row["blocks"].strip("`") for row in TABLE.rows}
EMBEDDINGS = np.random.default_rng(0).standard_normal((60, 8)).astype(np.float32)
IDENTITIES = np.full(60, 9)


def arrow_table(*, fixed=True):
    pyarrow = pytest.importorskip("pyarrow")
    kind = pyarrow.list_(pyarrow.float32(), 8) if fixed else pyarrow.list_(pyarrow.float32())
    return pyarrow.table({"embedding": pyarrow.array(EMBEDDINGS.tolist(), kind), "identity": IDENTITIES})


def pandas_frame():
    return pytest.importorskip("pandas").DataFrame({"embedding": list(EMBEDDINGS), "identity": IDENTITIES})


def duckdb_connection(table):
    connection = pytest.importorskip("duckdb").connect()
    connection.register("gallery", table)
    return connection


def dask_frame():
    dask = pytest.importorskip("dask")
    dataframe = pytest.importorskip("dask.dataframe")
    with dask.config.set({"dataframe.convert-string": False}):
        return dataframe.from_pandas(pandas_frame(), npartitions=3)


def ray_dataset():
    ray = pytest.importorskip("ray")
    data = pytest.importorskip("ray.data")
    ray.init(num_cpus=1, include_dashboard=False, logging_level="ERROR", object_store_memory=100 << 20)
    return data.from_arrow(arrow_table())


def spark_frame():
    sql = pytest.importorskip("pyspark.sql")
    session = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", value=False).getOrCreate()
    return session.createDataFrame(arrow_table(fixed=False))


SOURCES = {
    "PyArrow 25": lambda: {"table": arrow_table()},
    "PyArrow 25, lists": lambda: {"table": arrow_table(fixed=False)},
    "pandas 3.1": lambda: {"frame": pandas_frame()},
    "Polars 2.1": lambda: {"polars_frame": pytest.importorskip("polars").from_arrow(arrow_table())},
    "Polars 2.1, lists": lambda: {"polars_frame": pytest.importorskip("polars").from_arrow(arrow_table(fixed=False))},
    "DuckDB 2.0": lambda: {"connection": duckdb_connection(arrow_table())},
    "DuckDB 2.0, lists": lambda: {"connection": duckdb_connection(arrow_table(fixed=False))},
    "Daft 0.7": lambda: {"daft_frame": pytest.importorskip("daft").from_arrow(arrow_table())},
    "Ray Data 2.60": lambda: {"dataset": ray_dataset()},
    "Dask 2026.8": lambda: {"dask_frame": dask_frame()},
    "PySpark 4.3": lambda: {"spark_frame": spark_frame()},
}
"""by the name in the page, and by the kind of lists: what the code of a row reads"""


def test_each_row_is_run():
    assert list(dict.fromkeys(name.split(", ")[0] for name in SOURCES)) == list(ROWS)


@pytest.mark.parametrize("name", SOURCES)
def test_blocks_of_a_carrier_have_the_ranks_of_one_array(name):
    counter = RankCounter(EMBEDDINGS[:2], EMBEDDINGS[2:4], [1, 2], [1, 2])
    expected = counter.ranks(counter.count(EMBEDDINGS, IDENTITIES, key="all"))
    blocks = eval(ROWS[name.split(", ")[0]], SOURCES[name]())  # noqa: S307
    counts = sum(
        counter.count(block["embedding"], block["identity"], key=number) for number, block in enumerate(blocks)
    )
    ranks = counter.ranks(counts)
    assert torch.equal(ranks.rank, expected.rank)
    assert torch.equal(ranks.num_candidates, expected.num_candidates)
