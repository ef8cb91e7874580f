"""Embeddings in a column of a table: every function that takes embeddings takes an array of objects, each a row.

So columns of lists come from pandas (`frame["embedding"]`), DuckDB (`fetchnumpy`), PyArrow and Polars (`to_numpy`).
Names and numbers of samples come from arrays of any dtype, too.
"""

import inspect
import re
import uuid
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse

import reid_torchmetrics
from reid_torchmetrics import evaluate, evaluate_lists, index_recall, tasks
from reid_torchmetrics.functional import retrieval
from reid_torchmetrics.tasks import RankCounter
from tests.profiles import each_row
from tests.public_calls import DOORS
from tests.test_arrays import parts

pytestmark = pytest.mark.filterwarnings("ignore:Every query has a mate")

EMBEDDINGS = {"query", "gallery", "embeddings"}
"""names of arguments with embeddings"""
ARGUMENTS = EMBEDDINGS | {"positives", "block"}
OTHERS = {
    "Duplicates": "the fields of a result",
    "RankLists": "the fields of a result",
    "RetrievalResults": "the number of a query",
    "precision_recall_curve": "the number of a query",
    "KReciprocal": "`evaluate` calls it with tensors",
    "QueryExpansion": "`evaluate` calls it with tensors",
    "EmbeddingMetric": "the base class",
    "person_search": "embeddings are items of the detections",
}
"""public names with such an argument that holds no embeddings of users, with the reason"""
RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((30, 8)).astype(np.float32)
QUERY, GALLERY = ROWS[:6], ROWS[6:]
QUERY_IDENTITIES, GALLERY_IDENTITIES = np.array([0, 1, 2, 3, 4, 9]), np.arange(24) % 6
LABELS = QUERY_IDENTITIES, GALLERY_IDENTITIES


def column(rows):
    """The rows as a column of a table."""
    values = np.empty(len(rows), object)
    values[:] = list(rows)
    return values


ENTRY_POINTS = {name: row for name, row in DOORS.items() if ARGUMENTS & {*row[1]}}
"""what users call with embeddings of queries and of a gallery, by name"""


def is_exception(value):
    return inspect.isclass(value) and issubclass(value, Exception)


def takes_embeddings(value):
    functions = [value]
    if inspect.isclass(value):
        functions += [function for name, function in inspect.getmembers(value, inspect.isfunction) if name[0] != "_"]
    return any(EMBEDDINGS & set(inspect.signature(function).parameters) for function in functions)


def test_every_public_name_that_takes_embeddings_is_called_here():
    names = set()
    for room in (reid_torchmetrics, retrieval):
        public = {name: getattr(room, name) for name in room.__all__ if not inspect.ismodule(getattr(room, name))}
        functions = {name: value for name, value in public.items() if callable(value) and not is_exception(value)}
        names |= {name for name, value in functions.items() if takes_embeddings(value)}
    assert names - ENTRY_POINTS.keys() - OTHERS.keys() == set()


@each_row("name", ENTRY_POINTS)
@pytest.mark.filterwarnings("ignore:`multi_query=True` pooled nothing")
def test_a_column_of_rows_has_the_numbers_of_its_matrix(name):
    call, given = ENTRY_POINTS[name]
    columns = {argument: column(values.numpy()) for argument, values in given.items() if argument in ARGUMENTS}
    expected = parts(call(**given))
    assert parts(call(**given | columns)) == expected
    assert parts(call(**given | dict([*columns.items()][:1]))) == expected


def test_columns_of_packages_for_tables_and_lists_of_rows_are_read():
    pandas = pytest.importorskip("pandas")
    pyarrow = pytest.importorskip("pyarrow")
    series = pandas.Series(list(GALLERY))
    arrow = pyarrow.array(GALLERY.tolist(), pyarrow.list_(pyarrow.float32())).to_numpy(zero_copy_only=False)
    lists = np.arange(12).reshape(6, 2)
    means, recall = evaluate(QUERY, GALLERY, *LABELS).means, index_recall(lists, QUERY, GALLERY).per_query.tolist()
    for rows in (series, arrow, list(GALLERY)):
        assert evaluate(QUERY, rows, *LABELS).means == means
        assert index_recall(lists, QUERY, rows).per_query.tolist() == recall


def test_rows_of_floats_of_python_are_told_how_to_be_converted():
    counter = RankCounter(QUERY, GALLERY[:6], QUERY_IDENTITIES, GALLERY_IDENTITIES[:6])
    with pytest.raises(ValueError, match=r"convert the block, such as by `numpy\.float32\(embeddings\)`"):
        counter.count(GALLERY[6:].tolist(), [100] * 18, key=0)


NAMES = {
    "int64": lambda ids: ids,
    "int32": lambda ids: ids.astype(np.int32),
    "uint64": lambda ids: ids.astype(np.uint64),
    "tensor": torch.from_numpy,
    "objects": lambda ids: ids.astype(object),
    "strings": lambda ids: ids.astype(str),
    "list of NumPy's ints": list,
    "UUIDs": lambda ids: np.array([uuid.UUID(int=int(number)) for number in ids]),
}


@pytest.mark.parametrize("form", NAMES)
def test_names_of_a_gallery_may_come_in_an_array(form):
    ids = 1000 + 7 * np.arange(24)
    names = NAMES[form](ids)
    positions = np.argsort(-QUERY @ GALLERY.T, axis=1)[:, :5]
    items = [[names[place] for place in row] for row in positions] if form in ("strings", "UUIDs") else ids[positions]
    expected = index_recall(positions, QUERY, GALLERY, k=5).per_query.tolist()
    assert index_recall(items, QUERY, GALLERY, k=5, gallery_names=names).per_query.tolist() == expected
    query_names = NAMES[form](np.arange(6))
    keys = [name.item() if hasattr(name, "item") else name for name in query_names]
    by_query = dict(zip(keys, positions.tolist(), strict=True))
    assert index_recall(by_query, QUERY, GALLERY, k=5, query_names=query_names).per_query.tolist() == expected
    if form != "tensor":  # each number of a tensor is a key of its own
        labels = {"gallery_identities": dict(zip(names, GALLERY_IDENTITIES, strict=True))}
        means = evaluate_lists(items, query_identities=QUERY_IDENTITIES, **labels).means
        right = evaluate_lists(
            positions, query_identities=QUERY_IDENTITIES, gallery_identities=GALLERY_IDENTITIES
        ).means
        assert means == right


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([Path(str(number)) for number in range(24)], r"all ints, or all strings; got \w*Path, so write `str"),
        ([*range(23), "a"], "all ints, or all strings; got int and str"),
        ([*range(23), 2**63], f"`gallery_names` must hold ints that fit int64; got {2**63}"),
        ("names", "`gallery_names` must be a list of names; got str"),
        (5, "`gallery_names` must be a list of names; got int"),
    ],
)
def test_names_of_another_kind_are_refused_by_their_argument(names, message):
    with pytest.raises((TypeError, ValueError), match=message):
        index_recall([[0]] * 6, QUERY, GALLERY, gallery_names=names)


def test_strings_in_lists_do_not_fit_names_that_are_ints():
    with pytest.raises(TypeError, match="`retrieved` must hold ints, as the names of the gallery are; got 'a'"):
        index_recall([["a"]] * 6, QUERY, GALLERY, gallery_names=np.arange(24))


def test_the_largest_unsigned_int_in_a_list_is_nothing_and_others_beyond_int64_are_told():
    expected = index_recall([[3, -1]] * 6, QUERY, GALLERY, k=2).per_query.tolist()
    for lists in (np.uint64([[3, 2**64 - 1]] * 6), [[3, 2**64 - 1]] * 6):
        assert index_recall(lists, QUERY, GALLERY, k=2).per_query.tolist() == expected
    for lists in (np.uint64([[3, 2**63 + 5]] * 6), [[3, 2**63 + 5]] * 6):
        with pytest.raises(ValueError, match=f"`retrieved` must hold ints that fit int64, .* got {2**63 + 5}"):
            index_recall(lists, QUERY, GALLERY, k=2)


IDENTITIES = {
    "unsigned beyond int64": (np.uint64([2**63, 1]), rf"ints that fit int64, below 2\*\*63; got {2**63}"),
    "ints beyond int64": ([2**64, 1], f"got list with {2**64}, which does not fit int64, so write"),
    "UUIDs": ([uuid.UUID(int=1), uuid.UUID(int=2)], "got list of UUID, so write `list\\(map\\(str"),
    "array of UUIDs": (np.array([uuid.UUID(int=1), uuid.UUID(int=2)]), "of UUID, so write `list\\(map\\(str"),
    "paths": ([Path("a"), Path("b")], "got list of \\w*Path, so write"),
    "sets": ([{"a"}, {"b"}], "got sets; write True for label"),
    "sparse tensor": (torch.eye(2).to_sparse(), "got torch.sparse_coo, so write `.to_dense"),
    "sparse vector": (torch.ones(2, dtype=torch.int64).to_sparse(), "must be a dense tensor; got torch.sparse_coo"),
    "matrix of SciPy": (sparse.csr_matrix(np.eye(2)), "so write `.toarray"),
}


@each_row("kind", IDENTITIES)
@pytest.mark.usefixtures("unannotated")
def test_identities_of_another_kind_are_told_what_to_write(kind):
    values, message = IDENTITIES[kind]
    with pytest.raises((TypeError, ValueError), match=message):
        evaluate(QUERY[:2], GALLERY[:2], values, values)


UUIDS = [uuid.UUID(int=1), uuid.UUID(int=2)]
GIVEN = {"query": QUERY[:2], "gallery": GALLERY[:2], "query_identities": [0, 1], "gallery_identities": [0, 1]}
CALLS = {
    "evaluate": (evaluate, lambda values: evaluate(**GIVEN | values)),
    "update": (
        reid_torchmetrics.ReIDMetrics().update,
        lambda values: reid_torchmetrics.ReIDMetrics().update(
            **{"embeddings": QUERY[:2], "identities": [0, 1]} | values
        ),
    ),
    "verify_pairs": (
        tasks.verify_pairs,
        lambda values: tasks.verify_pairs(**{"scores": [0.5, 0.25], "same": [True, False]} | values),
    ),
}
"""functions, and calls of them with one argument changed"""


@pytest.mark.usefixtures("unannotated")
@each_row("name", CALLS)
def test_only_arguments_that_take_names_are_told_to_write_names(name):
    function, call = CALLS[name]
    told, taken = set(), set()
    for argument, parameter in inspect.signature(function).parameters.items():
        with pytest.raises((TypeError, ValueError)) as error:
            call({argument: UUIDS})
        if "for names" in str(error.value):
            told.add(argument)
        if re.search(r"IntegersOrNames|Sequence\[str \| None\]", str(parameter.annotation)):
            taken.add(argument)
    assert told == {argument for argument in taken if not argument.endswith("labels")}  # these are mappings


@pytest.mark.parametrize("item", [None, torch.tensor(1), b"a", (1, 2), 1j])
def test_what_names_no_item_is_not_told_to_become_text(item):
    with pytest.raises(TypeError, match=r"all ints, or all strings; got \w+\.$"):
        evaluate_lists([[item]], [[1]])


@pytest.mark.parametrize("value", ["a", 5, None, 2**70])
def test_one_object_is_refused_as_labels_by_name(value):
    with pytest.raises((TypeError, ValueError), match="`query_identities` must"):
        evaluate(QUERY[:2], GALLERY[:2], np.array(value, dtype=object), [1, 2])


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.uint64])
def test_unsigned_identities_are_those_of_their_numbers(dtype):
    unsigned = [labels.astype(dtype) for labels in LABELS]
    expected = evaluate(QUERY, GALLERY, *LABELS).means
    assert evaluate(QUERY, GALLERY, *unsigned).means == expected
    assert evaluate(QUERY, GALLERY, *map(torch.from_numpy, unsigned)).means == expected
