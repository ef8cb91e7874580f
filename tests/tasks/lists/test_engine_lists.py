"""Lists of search engines: the form of ids, padding, counts and the order of distances, against a loop."""

import math
from types import SimpleNamespace
from uuid import UUID

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics import evaluate_lists, index_lists, index_recall
from tests.profiles import examples
from tests.reference import index_lists as reference

NOTHING = [math.nan, math.inf, -math.inf, float(np.finfo(np.float32).max), -float(np.finfo(np.float32).max)]
UUIDS = [UUID(int=2**100 + item) for item in range(12)]
FORMS = {
    "lists": lambda rows: rows,
    "tuples": lambda rows: tuple(map(tuple, rows)),
    "arrays": lambda rows: [np.array(row, np.uint64) for row in rows],
    "tensors": lambda rows: [torch.tensor(row, dtype=torch.int32) for row in rows],
    "strings": lambda rows: [[f"i{item}" for item in row] for row in rows],
    "strings of numpy": lambda rows: [np.array([f"i{item}" for item in row], dtype=str) for row in rows],
    "uuids": lambda rows: [[UUIDS[item] for item in row] for row in rows],
    "hits": lambda rows: [[SimpleNamespace(id=item, score=0.5) for item in row] for row in rows],
    "hits with uuids": lambda rows: [[SimpleNamespace(id=UUIDS[item]) for item in row] for row in rows],
}
NAMES = {"strings": "i{}".format, "strings of numpy": "i{}".format, "uuids": lambda item: str(UUIDS[item])}
NAMES["hits with uuids"] = NAMES["uuids"]


@st.composite
def engines(draw, *, largest=11):
    """Lists with repeated items, sorted distances in one direction, numbers and marks of padding at the ends."""
    sign = draw(st.sampled_from([1, -1]))
    lists = []
    for _ in range(draw(st.integers(1, 5))):
        items = draw(st.lists(st.integers(0, largest), max_size=6))
        distances = sorted(draw(st.lists(st.integers(-3, 3), min_size=len(items), max_size=len(items))))
        distances = [0.5 * sign * distance for distance in distances]
        num_behind = draw(st.integers(0, 3))
        items += draw(st.lists(st.integers(0, largest), min_size=num_behind, max_size=num_behind))
        distances += draw(st.lists(st.sampled_from(NOTHING), min_size=num_behind, max_size=num_behind))
        lists.append((items, distances, draw(st.integers(0, len(items)))))
    return lists


@pytest.mark.parametrize("form", FORMS)
@examples(15)
@given(lists=engines())
def test_lists_of_all_forms_end_before_their_padding_as_in_a_loop(form, lists):
    items, distances, counts = map(list, zip(*lists, strict=True))
    name = NAMES.get(form, int)
    ids = FORMS[form](items)
    for arguments, options in ((ids,), {}), ((ids, distances), {}), ((ids, distances), {"counts": counts}):
        result = index_lists(*arguments, **options)
        expected = [
            reference.index_list(row, row_distances if len(arguments) > 1 else None, count if options else None)
            for row, row_distances, count in lists
        ]
        assert result.lists == [list(map(name, row)) for row in expected]
        assert result.num_padding == sum(map(len, items)) - sum(map(len, expected))
        kept = [row[: len(items)] for row, items in zip(distances, expected, strict=True)]
        assert result.direction == (reference.direction(kept) if len(arguments) > 1 else "unknown")


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int32, torch.int64, torch.uint8])
@examples(15)
@given(lists=engines(), width=st.integers(9, 12))
def test_a_matrix_keeps_its_shape_with_minus_one_behind_each_list(dtype, lists, width):
    items = np.zeros((len(lists), width), np.int64)
    distances = np.full((len(lists), width), np.nan, np.float32)
    for row, (items_of_row, distances_of_row, _) in enumerate(lists):
        items[row, : len(items_of_row)] = items_of_row
        distances[row, : len(items_of_row)] = distances_of_row
    ids = torch.from_numpy(items).to(dtype) if isinstance(dtype, torch.dtype) else items.astype(dtype)
    matrix = index_lists(ids, distances)
    assert (matrix.lists.dtype, list(matrix.lists.shape)) == (torch.int64, [len(lists), width])
    expected = [reference.index_list(*row) for row in zip(items.tolist(), distances.tolist(), strict=True)]
    assert [row[row >= 0].tolist() for row in matrix.lists] == expected
    assert index_lists(ids.tolist(), distances).lists == expected


@examples(20)
@given(lists=engines(), seed=st.integers(0, 999))
def test_a_table_has_the_lists_of_its_queries_in_any_order_of_queries(lists, seed):
    lists = [row for row in lists if row[0]]  # a table has no row of a query without items
    queries = [f"q{number}" for number, row in enumerate(lists) for _ in row[0]]
    queries = np.random.default_rng(seed).permuted(queries).tolist()
    entries = [zip(*row[:2], strict=True) for row in lists]
    table = [next(entries[int(query[1:])]) for query in queries]  # rows of a query stay in their order
    ids, distances = [row[0] for row in table], [row[1] for row in table]
    result = index_lists(np.array(ids, np.int64), distances, queries=queries)
    assert list(result.lists) == list(dict.fromkeys(queries))
    assert result.lists == {f"q{number}": reference.index_list(*row[:2]) for number, row in enumerate(lists)}


def test_unsigned_padding_is_nothing_in_matrices_and_rows():
    ids = np.array([[3, 2**64 - 1], [2**64 - 1, 4]], np.uint64)
    assert index_lists(ids).lists.tolist() == [[3, -1], [-1, 4]]
    assert index_lists(list(ids)).lists == [[3], [-1, 4]]


def test_the_direction_of_distances_is_told():
    rising = index_lists([[1, 2], [3, 4]], [[0.0, 0.5], [1.0, 1.0]])
    assert str(rising) == "IndexLists: 2 lists; distances are rising, so that the smallest is nearest"
    falling = index_lists([[1, 2, 2]], [[0.5, 0.0, -3.4028234663852886e38]])
    text = "IndexLists: 1 list; distances are falling, so that the largest is nearest; entries of padding: 1"
    assert str(falling) == text
    assert text in falling._repr_html_()


def test_all_entry_points_take_the_lists_of_an_engine():
    generator = torch.Generator().manual_seed(0)
    query, gallery = torch.randn(4, 6, generator=generator), torch.randn(12, 6, generator=generator)
    exact = torch.cdist(query, gallery).topk(5, largest=False)
    lists = index_lists(exact.indices, exact.values)
    labels = {"query_identities": [0, 1, 2, 0], "gallery_identities": torch.arange(12) % 3}
    expected = evaluate_lists(exact.indices, **labels)["map"]
    assert evaluate_lists(lists, **labels)["map"] == expected
    assert index_recall(lists, query, gallery, k=5, similarity="euclidean").mean == 1
    hits = [[SimpleNamespace(id=UUIDS[item]) for item in row] for row in exact.indices.tolist()]
    names = dict(zip(UUIDS, labels["gallery_identities"].tolist(), strict=True))
    assert evaluate_lists(hits, **labels | {"gallery_identities": names})["map"] == expected
    table = index_lists(exact.indices.flatten(), exact.values.flatten(), queries=np.repeat(np.arange(4), 5))
    options = {"query_names": range(4), "k": 5, "similarity": "euclidean"}
    assert index_recall(table, query, gallery, **options).mean == 1
    by_query = labels | {"query_identities": dict(enumerate(labels["query_identities"]))}
    assert evaluate_lists(table, **by_query)["map"] == expected
    positives = {number: [number] for number in range(4)}
    assert evaluate_lists(table, positives)["map"] == evaluate_lists(lists, list(positives.values()))["map"]
    items = [[UUIDS[item] for item in row] for row in exact.indices.tolist()]
    recall = index_recall(items, query, gallery, k=5, similarity="euclidean", gallery_names=UUIDS)
    assert recall.mean == 1
