"""Search engines that are installed: each row of the page "Bring your own index" is run, and its columns are checked.

`nox -s search_engines` installs all of them, in the versions of the page.
"""

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from reid_torchmetrics import index_lists, index_recall
from tests.search_engines.engines import COSINE, ENGINES, IP, L2, SIMILARITIES, stop_postgres
from tests.test_docs import tables

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how_to" / "bring_your_own_index.md").read_text(encoding="utf-8")
(TABLE,) = (table for table in tables(PAGE) if "lists" in table.header)
ROWS = {row["engine"].split()[0]: row for row in TABLE.rows}
COLUMNS = dict(zip(SIMILARITIES, ("L2", "IP", "cosine"), strict=True))
PACKAGES = {
    "faiss": "faiss-cpu",
    "SVS": "scalable-vs",
    "Qdrant": "qdrant-client",
    "Chroma": "chromadb",
    "Milvus": "milvus-lite",
}
K = 10


def cosine(query, item):
    return query @ item / np.linalg.norm(query) / np.linalg.norm(item)


NUMBERS = {
    "d²": lambda query, item: np.sum((query - item) ** 2),
    "d": lambda query, item: np.sqrt(np.sum((query - item) ** 2)),
    "q·g": lambda query, item: query @ item,
    "-q·g": lambda query, item: -query @ item,
    "1 - q·g": lambda query, item: 1 - query @ item,
    "cos": cosine,
    "1 - cos": lambda query, item: 1 - cosine(query, item),
    "√(2 - 2 cos)": lambda query, item: np.sqrt(2 - 2 * cosine(query, item)),
}
"""numbers that engines return, by the words of the page"""
PADDING = {
    "-1": lambda ids, _: ids == -1,
    "2**64 - 1": lambda ids, _: ids == 2**64 - 1,
    "item 0, NaN": lambda ids, distances: (ids == 0) & np.isnan(distances),
    "an item, infinite": lambda ids, distances: (ids >= 0) & np.isinf(distances),
}
"""entries behind the items that were found, by the words of the page"""


class Search(NamedTuple):
    """What the code of a row has made."""

    lists: Any
    names: dict[str, Any]
    """values of the names in the code"""

    def rows(self, num_queries):
        lists = self.lists.lists
        by_query = [lists[number] for number in range(num_queries)]
        return [[int(item) for item in row if item not in (-1, "-1")] for row in by_query]

    def recall(self, query, gallery, similarity, k=K):
        lists = self.lists.lists
        options = {"query_names": range(len(query))} if isinstance(lists, dict) else {}
        if isinstance(lists, list) and isinstance(lists[0][0], str):
            options["gallery_names"] = list(map(str, range(len(gallery))))
        return index_recall(self.lists, query, gallery, k=k, similarity=similarity, tolerance=1e-6, **options).mean


def search(name, similarity, folder, query, gallery, k=K):
    """Search by the code of a row."""
    row = ROWS[name]
    names = {"q": query, "k": k, "ef": 400, "search_k": 10_000, "index_lists": index_lists}
    names |= ENGINES[name](gallery, similarity, folder)
    if name == "hnswlib":
        names["index"].set_ef(400)
    exec(row["call"].strip("`"), names)  # noqa: S102
    return Search(eval(row["lists"].strip("`"), names), names)  # noqa: S307


def embeddings(number, similarity, seed):
    rows = np.random.default_rng(seed).standard_normal((number, 16)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) if similarity == COSINE else rows


@pytest.fixture(scope="module", autouse=True)
def _stop_servers():
    yield
    stop_postgres()


def searches():
    """Engines and their similarities."""
    return [
        pytest.param(name, similarity, id=f"{name}-{COLUMNS[similarity]}")
        for name in ENGINES
        for similarity in SIMILARITIES
        if ROWS[name][COLUMNS[similarity]] != "none"
    ]


def test_each_row_is_an_engine_in_the_version_that_is_installed_for_it():
    assert list(ROWS) == list(ENGINES)
    pins = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for name, row in ROWS.items():
        if name != "pgvector":  # which comes with PostgreSQL
            package = PACKAGES.get(name, name.lower())
            assert f'"{package}=={row["engine"].split()[1]}"' in pins


@pytest.mark.parametrize(("name", "similarity"), searches())
def test_the_code_of_a_row_gives_all_exact_neighbors_and_the_number_that_it_says(name, similarity, tmp_path):
    query, gallery = embeddings(12, similarity, 0), embeddings(300, similarity, 1)
    result = search(name, similarity, tmp_path, query, gallery)
    assert result.recall(query, gallery, similarity) > 0.95
    word = ROWS[name][COLUMNS[similarity]]
    is_similarity = word in ("q·g", "cos")
    assert result.lists.direction == ("falling" if is_similarity else "rising")
    number = NUMBERS[word]
    rows = result.rows(len(query))
    assert [len(row) for row in rows] == [K] * len(query)
    expected = [[number(vector, gallery[item]) for item in row] for vector, row in zip(query, rows, strict=True)]
    np.testing.assert_allclose(distances_of(result.names, len(query)), expected, rtol=1e-4, atol=1e-4)


def distances_of(names, num_queries):
    """The numbers of an engine, by the names in the code of its row."""
    if "D" in names:
        distances = names["D"]
    elif "m" in names:
        distances = names["m"].distances
    elif "t" in names:
        distances = names["t"]["_distance"].to_numpy()
    elif isinstance(names["r"], dict):
        distances = names["r"]["distances"]
    else:
        hits = [getattr(hits, "points", hits) for hits in names["r"]]
        distances = [[hit["distance"] if isinstance(hit, dict) else hit.score for hit in row] for row in hits]
    return np.asarray(distances, dtype=np.float64).reshape(num_queries, -1)


@pytest.mark.parametrize(("name", "similarity"), searches())
def test_equal_scores_are_in_the_order_that_the_row_says_and_lose_no_recall(name, similarity, tmp_path):
    query, gallery = embeddings(3, similarity, 0), embeddings(60, similarity, 1)
    copies = np.sort(np.random.default_rng(2).permutation(60)[:20])
    gallery[copies] = 3 * query[0] if similarity == IP else query[0]
    result = search(name, similarity, tmp_path, query, gallery)
    assert result.recall(query, gallery, similarity) > 0.95
    (first, *_) = result.rows(len(query))
    assert set(first) <= set(copies.tolist())
    order, *others = ROWS[name]["equal scores"].split("; ")
    if similarity == IP and others:
        order = others[0].removeprefix("IP: ")
    if order != "any":
        assert first == sorted(first, reverse=order == "highest")
    if order == "lowest":
        assert first == copies[:K].tolist()


@pytest.mark.parametrize("name", ENGINES)
def test_lists_of_a_small_gallery_end_as_the_row_says(name, tmp_path):
    similarity = L2 if ROWS[name]["L2"] != "none" else COSINE
    query, gallery = embeddings(3, similarity, 0), embeddings(6, similarity, 1)
    if name == "txtai":
        query = np.abs(query)
        gallery = np.abs(gallery)  # whose scores are above 0
    ending = ROWS[name]["fewer than `k` items"]
    if ending == "error":
        with pytest.raises(Exception, match=r"Cannot return|Fewer than expected"):
            search(name, similarity, tmp_path, query, gallery)
        return
    result = search(name, similarity, tmp_path, query, gallery)
    assert [sorted(row) for row in result.rows(3)] == [[*range(6)]] * 3
    assert result.recall(query, gallery, similarity) == 1
    assert result.lists.num_padding == (0 if ending == "shorter" else 3 * (K - 6))
    if ending != "shorter":
        ids = result.names["I"] if "I" in result.names else result.names["m"].keys
        is_padding = PADDING[ending](np.asarray(ids), distances_of(result.names, 3))
        assert is_padding[:, 6:].all()


@pytest.mark.parametrize("name", ["pgvector", "DuckDB", "sqlite-vec"])
def test_the_statements_of_the_page_are_those_that_are_run(name, tmp_path):
    similarity = L2
    names = ENGINES[name](embeddings(6, similarity, 1), similarity, tmp_path)
    statement = re.sub(r"gallery_\w+", "gallery", names["sql"])
    assert f"\n{statement}\n" in PAGE
