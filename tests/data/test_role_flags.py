"""Roles of samples are two flags: query, and gallery item. Samples may have both, one or neither."""

import re

import numpy as np
import pytest
import torch

from reid_torchmetrics.data import find_self_index, read_labels, read_samples

QUERY, GALLERY, BOTH, NEITHER = [True, False], [False, True], [True, True], [False, False]


def csv_of(path, **columns):
    rows = [columns.keys(), *zip(*columns.values(), strict=True)]
    path.write_text("\n".join(",".join(map(str, row)) for row in rows), encoding="utf-8")
    return path


def npz_of(path, **columns):
    np.savez(path, **{name: np.array(values) for name, values in columns.items()})
    return path


def parquet_of(path, **columns):
    pyarrow, parquet = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet"))
    parquet.write_table(pyarrow.table({name: list(values) for name, values in columns.items()}), path)
    return path


WRITERS = {".csv": csv_of, ".npz": npz_of, ".parquet": parquet_of}
FLAG_COLUMNS = {
    "both columns": ({"is_query": [True, False, True, False], "is_gallery": [False, True, True, False]}, "pair"),
    "numbers": ({"is_query": [1, 0, 1, 0], "is_gallery": [0, 1, 1, 0]}, "pair"),
    "beside a split": (
        {"split": ["val", "val", "val", "train"], "is_query": [1, 0, 1, 0], "is_gallery": [0, 1, 1, 0]},
        "pair",
    ),
    "query alone": ({"is_query": [True, False, True, False]}, "query"),
    "gallery alone": ({"is_gallery": [False, True, False, True]}, "query"),
    "query, gallery": ({"split": ["query", "gallery", "query", "gallery"]}, "query"),
    "query, test": ({"split": ["Query", "test", "query", "Test"]}, "query"),
    "train, test": ({"split": ["test", "train", "test", "train"]}, "query"),
    "query, gallery, train": ({"split": ["query", "gallery", "query", "train"]}, "left out"),
    "one word": ({"split": ["train"] * 4}, "all"),
    "test alone": ({"split": ["test"] * 4}, "gallery"),
}
ROLES = {
    "pair": [QUERY, GALLERY, BOTH, NEITHER],
    "query": [QUERY, GALLERY, QUERY, GALLERY],
    "left out": [QUERY, GALLERY, QUERY, NEITHER],
    "all": [BOTH] * 4,
    "gallery": [GALLERY] * 4,
}


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize(("columns", "roles"), FLAG_COLUMNS.values(), ids=FLAG_COLUMNS.keys())
def test_roles_are_two_flags_in_every_kind_of_table(columns, roles, suffix, tmp_path):
    path = WRITERS[suffix](tmp_path / f"a{suffix}", pid=[7, 7, 7, 7], **columns)
    labels = read_labels(path)
    assert labels["roles"].dtype == bool
    assert labels["roles"].tolist() == ROLES[roles]


@pytest.mark.parametrize(("columns", "roles"), FLAG_COLUMNS.values(), ids=FLAG_COLUMNS.keys())
def test_files_of_embeddings_have_the_same_flags(columns, roles, tmp_path):
    path = npz_of(tmp_path / "a.npz", feat=np.eye(4), pid=[7, 7, 7, 7], **columns)
    for role in (None, "query", "gallery"):
        assert read_samples(path, role=role)[0].roles.tolist() == ROLES[roles]


@pytest.mark.parametrize("suffix", [".npz", ".pt"])
def test_a_number_of_queries_says_that_the_first_samples_are_queries(suffix, tmp_path):
    arrays = {"feats": torch.eye(4), "pids": [7, 7, 7, 7], "num_query": torch.tensor(2)}
    path = tmp_path / f"a{suffix}"
    if suffix == ".pt":
        torch.save(arrays, path)
    else:
        np.savez(path, feats=np.eye(4), pids=arrays["pids"], num_query=2)
    assert read_samples(path)[0].roles.tolist() == [QUERY, QUERY, GALLERY, GALLERY]
    assert read_labels(path)["roles"].tolist() == [QUERY, QUERY, GALLERY, GALLERY]


@pytest.mark.parametrize("number", [[2, 2], "two", 2.5, -1, 5])
def test_a_number_of_queries_must_be_one_number_of_the_samples(number, tmp_path):
    path = npz_of(tmp_path / "a.npz", feats=np.eye(4), pids=[7, 7, 7, 7], num_query=number)
    with pytest.raises(ValueError, match=r"a\.npz: `num_query` must be the number .* queries, from 0 to 4; got \["):
        read_samples(path)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_an_empty_cell_of_a_flag_is_false(suffix, tmp_path):
    """Open Metric Learning leaves the flags of training samples empty."""
    empty = "" if suffix == ".csv" else None
    columns = {"label": [1, 1, 2], "is_query": [True, False, empty], "is_gallery": [True, True, empty]}
    labels = read_labels(WRITERS[suffix](tmp_path / f"a{suffix}", **columns))
    assert labels["roles"].tolist() == [BOTH, GALLERY, NEITHER]
    columns.pop("is_gallery")
    labels = read_labels(WRITERS[suffix](tmp_path / f"b{suffix}", **columns))
    assert labels["roles"].tolist() == [QUERY, GALLERY, NEITHER]


def test_numbers_with_an_empty_cell_are_flags(tmp_path):
    path = csv_of(tmp_path / "a.csv", is_query=["1.0", "0.0", ""], is_gallery=["1", "", "0"])
    assert read_labels(path)["roles"].tolist() == [BOTH, NEITHER, NEITHER]


def notes(path, **options):
    guesses = []
    read_labels(path, guesses=guesses, **options)
    return [line.removeprefix(f"{path}: ") for line in guesses]


def test_guesses_of_names_are_noted(tmp_path):
    path = tmp_path / "a.csv"
    labels = {"identities": [7, 7, 7]}
    assert notes(csv_of(path, **labels, split=["query", "test", "test"])) == ["`split` as roles"]
    assert notes(csv_of(path, **labels, split=["test", "train", "train"])) == [
        "`split` as roles",
        "train in `split` as the gallery, test as the queries",
    ]
    assert notes(csv_of(path, **labels, split=["query", "gallery", "train"]))[1:] == ["train in `split` as left out"]
    assert notes(csv_of(path, **labels, split=["val"] * 3))[1:] == [
        "val in every row of `split` as queries and gallery"
    ]
    flags = csv_of(path, **labels, split=["val"] * 3, is_query=[1, 1, 0], is_gallery=[1, 0, 1])
    assert notes(flags) == ["`is_query/is_gallery` as roles", "no roles from `split`, as there are flags"]


def test_roles_that_are_named_count(tmp_path):
    path = csv_of(tmp_path / "a.csv", split=["query", "gallery"], is_query=[0, 1], is_gallery=[1, 1], role=["x", "y"])
    assert read_labels(path, names={"roles": "split"})["roles"].tolist() == [QUERY, GALLERY]
    for name in ("is_query", "is_gallery"):
        # The other flag is never left out.
        assert read_labels(path, names={"roles": name})["roles"].tolist() == [GALLERY, BOTH]


def test_train_without_an_identity_of_test_is_no_gallery(tmp_path):
    path = csv_of(tmp_path / "a.csv", pid=[1, 2], split=["train", "test"])
    message = f"{path}: `split` must have a common identity in train, the gallery, and in test, the queries; got none."
    with pytest.raises(ValueError, match=re.escape(message)):
        read_labels(path)
    csv_of(path, split=["train", "test"])
    assert read_labels(path)["roles"].tolist() == [GALLERY, QUERY]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"split": ["train", "gallery"]}, "`split` must have queries and a gallery beside train; got gallery, train."),
        ({"split": ["query", "zoo"]}, "database, db, index only, or train and test; got 'zoo'."),
        ({"split": ["train", "val"]}, "database, db, index only, or train and test; got 'train'."),
        ({"is_query": [1, 2], "is_gallery": [1, 1]}, "`is_query` must hold true, 1, false, 0 only; got '2'."),
        ({"is_query": [1, 1], "is_gallery": ["yes", "no"]}, "`is_gallery` must hold true, 1, false, 0 only; got 'no'."),
    ],
)
def test_other_roles_are_refused(columns, message, tmp_path):
    with pytest.raises(ValueError, match=re.escape(message)):
        read_labels(csv_of(tmp_path / "a.csv", **columns))


def test_flags_of_unequal_length_are_refused(tmp_path):
    path = npz_of(tmp_path / "a.npz", is_query=[True, False], is_gallery=[True])
    with pytest.raises(ValueError, match=r"`is_query` and `is_gallery` must have one length; got 2 and 1\."):
        read_labels(path)


def test_the_place_of_a_query_in_the_gallery_is_its_own():
    roles = np.array([BOTH, GALLERY, NEITHER, QUERY, BOTH])
    # Gallery items are the rows 0, 1 and 4; queries are the rows 0, 3 and 4.
    assert find_self_index(roles).tolist() == [0, -1, 2]
    assert find_self_index(np.array([QUERY, GALLERY])).tolist() == [-1]


@pytest.mark.parametrize("roles", [np.array([True, False]), np.eye(2), np.ones((2, 3), dtype=bool)])
def test_the_place_of_a_query_needs_two_flags(roles):
    with pytest.raises(ValueError, match=r"^`roles` must be bool of shape \[N, 2\]; got "):
        find_self_index(roles)
