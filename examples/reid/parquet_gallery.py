"""A gallery as a folder of Parquet files: how the examples that count it read it, and draw one.

`query.parquet` holds the queries and `gallery/*.parquet` the gallery, each file as much as a worker has room for. Their
columns are `embedding`, a list of fixed size, `identity` and `camera`.
"""

from __future__ import annotations

import argparse
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import compute, parquet

from reid_torchmetrics.functional.retrieval import find_protocol
from reid_torchmetrics.tasks import RankCounter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PROTOCOL = "market1501"
NUM_QUERIES, NUM_FILES, ITEMS_OF_FILE = 60, 6, 500
NUM_IDENTITIES, NUM_CAMERAS, DIMENSION = 400, 6, 32
JUNK = -1


class Items(NamedTuple):
    """Embeddings, and who was seen where."""

    embeddings: np.ndarray
    identities: np.ndarray
    cameras: np.ndarray


def items_of(table: pa.Table) -> Items:
    """Give the rows of a table."""
    lists = table["embedding"].combine_chunks()
    embeddings = lists.flatten().to_numpy().reshape(-1, lists.type.list_size)
    return Items(embeddings, table["identity"].to_numpy(), table["camera"].to_numpy())


def read_items(file: str | Path, where: compute.Expression | None = None) -> Items:
    """Read a file, or its rows for which `where` holds."""
    return items_of(parquet.read_table(file, filters=where))


def has_query(query: Items) -> compute.Expression:
    """Tell the items with an identity of a query."""
    return compute.field("identity").isin(query.identities)


def gallery_files(folder: Path) -> list[str]:
    """Give the paths of a gallery's files."""
    return sorted(map(str, folder.glob("gallery/*.parquet")))


def make_counter(query: Items, positives: Iterable[Items]) -> RankCounter:
    """Make a counter from the items with an identity of a query, part by part.

    Raises:
        ValueError: there is no such item in any part.
    """
    parts = [part for part in positives if len(part.identities)]
    if not parts:
        raise ValueError("The gallery must have an item with the identity of a query; got none in any of its files.")
    found = Items(*map(np.concatenate, zip(*parts, strict=True)))
    labels = query.identities, found.identities, query.cameras, found.cameras
    return RankCounter(query.embeddings, found.embeddings, *labels, **find_protocol(PROTOCOL).relevance_options)


def draw_gallery(folder: Path) -> None:
    """Write a gallery: what is each person's, and noise."""
    random = np.random.default_rng(0)
    people = random.normal(size=(NUM_IDENTITIES, DIMENSION))

    def write(file: Path, identities: np.ndarray) -> None:
        seen = people[identities] + 1.5 * random.normal(size=(len(identities), DIMENSION))
        lists = pa.FixedSizeListArray.from_arrays(pa.array(seen.astype(np.float32).ravel()), DIMENSION)
        cameras = random.integers(0, NUM_CAMERAS, len(identities))
        parquet.write_table(pa.table({"embedding": lists, "identity": identities, "camera": cameras}), file)

    write(folder / "query.parquet", np.arange(NUM_QUERIES))
    (folder / "gallery").mkdir()
    for number in range(NUM_FILES):
        write(folder / f"gallery/part-{number}.parquet", random.integers(JUNK, NUM_IDENTITIES, ITEMS_OF_FILE))


@contextmanager
def asked_for(description: str | None) -> Iterator[Path]:
    """Give the folder that the command line names, or one with a gallery that is drawn."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="with query.parquet and gallery/*.parquet; drawn without")
    if folder := parser.parse_args().folder:
        yield folder
        return
    with TemporaryDirectory() as drawn:
        draw_gallery(Path(drawn))
        yield Path(drawn)
