"""Samples with two roles, one or none: rankings without the query itself, in one file, in two, and as a matrix.

Positions on a line, identities, and whether a sample is a query and a gallery item:

    sample     a     b     c     d     e     f
    place      0.0   1.0   0.4   3.5   4.0   1.9
    identity   1     1     2     2     1     1
    query      yes   no    no    yes   no    yes
    gallery    yes   yes   yes   yes   no    no

The gallery is a b c d. Query a, without itself, finds c b d, with b right: 1/2. Query d finds b c a, with c right: 1/2.
Query f finds b c d a, with b and a right: (1 + 2/4) / 2 = 3/4. The mean is 7/12; 29/36 if queries found themselves.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from reid_torchmetrics import evaluate
from reid_torchmetrics.data import read_samples

PLACES = np.array([[0.0], [1.0], [0.4], [3.5], [4.0], [1.9]])
IDENTITIES = np.array([1, 1, 2, 2, 1, 1])
IS_QUERY = np.array([1, 0, 0, 1, 0, 1], dtype=bool)
IS_GALLERY = np.array([1, 1, 1, 1, 0, 0], dtype=bool)
BOTH_MAP = 7 / 12
# a b c d, each among the others: ranks 2, 2, 3 and 2 of the one that is right.
AMONG_OTHERS = (1 / 2 + 1 / 2 + 1 / 3 + 1 / 2) / 4
SET = slice(0, 4)
OPTIONS = ["--similarity", "euclidean", "--same-camera", "keep", "--json", "-"]


def write_table(target, **columns):
    rows = [columns.keys(), *zip(*columns.values(), strict=True)]
    Path(target).write_text("\n".join(",".join(map(str, row)) for row in rows), encoding="utf-8")
    return target


FLAGS = {"pid": IDENTITIES, "is_query": IS_QUERY, "is_gallery": IS_GALLERY}


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("all.npy", PLACES)
    np.save("query.npy", PLACES[IS_QUERY])
    np.save("gallery.npy", PLACES[IS_GALLERY])
    np.save("set.npy", PLACES[SET])
    write_table("labels.csv", **FLAGS)
    return tmp_path


def map_of(printed):
    assert printed.status == 0, printed.err
    return json.loads(printed.out)["measures"]["map"]["value"]


def one_file(_folder):
    return ["all.npy", "--labels", "labels.csv"]


def numbers_with_a_split(_folder):
    """As Open Metric Learning has them, with empty flags of training samples."""
    is_known = IS_QUERY | IS_GALLERY
    columns = {
        name: [int(value) if known else "" for value, known in zip(values, is_known, strict=True)]
        for name, values in (("is_query", IS_QUERY), ("is_gallery", IS_GALLERY))
    }
    split = np.where(is_known, "validation", "train")
    write_table("oml.csv", label=IDENTITIES, split=split, **columns)
    return ["all.npy", "--labels", "oml.csv"]


def arrays(_folder):
    np.savez("all.npz", feat=PLACES, **FLAGS)
    return ["all.npz"]


def shards(_folder):
    for number, rows in enumerate(np.array_split(np.arange(6), 3)):
        np.save(f"part-{number}.npy", PLACES[rows])
    return ["part-*.npy", "--labels", "labels.csv"]


def two_files(_folder):
    return ["query.npy", "gallery.npy", "--labels", "labels.csv"]


def named_rows(_folder):
    """Rows in another order than those of the table, joined by their names."""
    names = np.array([f"{name}.jpg" for name in "abcdef"])
    write_table("named.csv", path=names, **FLAGS)
    for side, is_of_side in (("q", IS_QUERY), ("g", IS_GALLERY)):
        rows = np.flatnonzero(is_of_side)[::-1]
        np.savez(f"{side}.npz", feat=PLACES[rows], paths=names[rows])
    return ["q.npz", "g.npz", "--labels", "named.csv"]


def roles_of_their_own(_folder):
    """Roles in one file and identities in another, each of all rows."""
    write_table("roles.csv", is_query=IS_QUERY, is_gallery=IS_GALLERY)
    np.save("identities.npy", IDENTITIES)
    return ["query.npy", "gallery.npy", "--labels", "identities=identities.npy", "roles.csv"]


INPUTS = [one_file, numbers_with_a_split, arrays, shards, two_files, named_rows, roles_of_their_own]


@pytest.mark.parametrize("make", INPUTS)
def test_a_query_that_is_a_gallery_item_does_not_find_itself(command, in_folder, make):
    printed = command("evaluate", *make(in_folder), *OPTIONS)
    assert map_of(printed) == pytest.approx(BOTH_MAP, abs=1e-12)
    assert "queries that are gallery items, too, left out of their own ranking: 2 of 3" in printed.err
    assert "warning" not in printed.err
    assert json.loads(printed.out)["counts"]["total"] == 3


@pytest.mark.parametrize("make", [two_files, named_rows])
def test_a_stream_leaves_a_query_out_of_its_own_ranking(command, in_folder, make):
    printed = command("evaluate", *make(in_folder), *OPTIONS, "--stream")
    assert map_of(printed) == pytest.approx(BOTH_MAP, abs=1e-12)


def test_a_stream_of_queries_that_are_all_gallery_items_follows_leave_one_out(command, in_folder):
    write_table("set.csv", pid=IDENTITIES[SET], is_query=[True] * 4, is_gallery=[True] * 4)
    words = ["set.npy", "copy.npy", "--labels", "set.csv", "--similarity", "euclidean", "--json", "-"]
    np.save(in_folder / "copy.npy", PLACES[SET])
    for more in (["--protocol", "sop", "--reports", "map"], ["--same-camera", "keep"]):
        assert map_of(command("evaluate", *words, *more, "--stream")) == pytest.approx(AMONG_OTHERS, abs=1e-12)
    assert map_of(command("evaluate", *words, "--same-camera", "keep")) == pytest.approx(AMONG_OTHERS, abs=1e-12)


@pytest.mark.parametrize("make", [one_file, arrays, two_files])
@pytest.mark.parametrize("ties", ["pessimistic", "stable", "expected"])
def test_one_call_gives_the_numbers_of_metrics(command, in_folder, make, ties):
    words = ["evaluate", *make(in_folder), *OPTIONS, "--ties", ties]
    expected = map_of(command(*words))
    assert map_of(command(*words, "--max-rank", "3")) == expected


def test_two_processes_give_the_numbers_of_one(two_processes, in_folder):
    for make in (one_file, shards):
        first, second = two_processes("evaluate", *make(in_folder), *OPTIONS)
        assert map_of(first) == pytest.approx(BOTH_MAP, abs=1e-12)
        assert (second.status, second.out) == (0, "")


def test_lists_number_the_items_of_each_role(command, in_folder):
    # Queries a d f, gallery a b c d: the positives of the labels.
    (in_folder / "truth.json").write_text("[[1], [2], [0, 1]]", encoding="utf-8")
    np.savez(in_folder / "flags.npz", feat=PLACES, is_query=IS_QUERY, is_gallery=IS_GALLERY)
    words = ["--ground-truth", "truth.json", "--similarity", "euclidean", "--json", "-"]
    assert map_of(command("evaluate", "flags.npz", *words)) == pytest.approx(BOTH_MAP, abs=1e-12)


@pytest.mark.parametrize("shape", ["whole", "sides"])
def test_a_matrix_has_the_rows_and_columns_of_the_roles(command, in_folder, shape):
    distances = np.abs(PLACES - PLACES.T)
    np.save(in_folder / "d.npy", distances if shape == "whole" else distances[IS_QUERY][:, IS_GALLERY])
    words = ["--distances", "d.npy", "--labels", "labels.csv", "--same-camera", "keep", "--json", "-"]
    assert map_of(command("evaluate", *words)) == pytest.approx(BOTH_MAP, abs=1e-12)


ONE_SET = {
    "test": {"split": ["test"] * 4},
    "query": {"split": ["query"] * 4},
    "val": {"split": ["val"] * 4},
    "flags": {"is_query": [True] * 4, "is_gallery": [True] * 4},
}


@pytest.mark.parametrize("columns", ONE_SET.values(), ids=ONE_SET.keys())
@pytest.mark.parametrize("protocol", ["market1501", "sop"])
@pytest.mark.parametrize("form", ["csv", "npz"])
def test_one_role_in_every_row_searches_each_item_among_the_others(command, in_folder, columns, protocol, form):
    words = ["set.npy", "--labels", write_table("set.csv", pid=IDENTITIES[SET], **columns)]
    if form == "npz":
        np.savez(in_folder / "set.npz", feat=PLACES[SET], pid=IDENTITIES[SET], **columns)
        words = ["set.npz"]
    printed = command("evaluate", *words, *OPTIONS, "--protocol", protocol, "--reports", "map")
    assert map_of(printed) == pytest.approx(AMONG_OTHERS, abs=1e-12)
    assert printed.err.count("each item is searched among all others") == 1
    assert "one role in every row" in printed.err


def test_rows_of_both_roles_are_searched_among_each_other_without_rows_of_no_role(command, in_folder):
    is_of_set = np.arange(6) < 4
    write_table("set.csv", pid=IDENTITIES, is_query=is_of_set, is_gallery=is_of_set)
    for more in ([], ["--max-rank", "3"], ["--protocol", "sop", "--reports", "map"]):
        printed = command("evaluate", "all.npy", "--labels", "set.csv", *OPTIONS, *more)
        assert map_of(printed) == pytest.approx(AMONG_OTHERS, abs=1e-12)
        assert "every row is a query and a gallery item: each item is searched among all others" in printed.err
        assert "rows without a role, which are left out: 2 of 6" in printed.err
    np.save(in_folder / "d.npy", np.abs(PLACES - PLACES.T))
    words = ["--distances", "d.npy", "--labels", "set.csv", "--same-camera", "keep", "--json", "-"]
    assert map_of(command("evaluate", *words)) == pytest.approx(AMONG_OTHERS, abs=1e-12)


def test_one_role_in_a_table_of_both_files_tells_no_sides_apart(command, in_folder):
    rows = np.r_[np.flatnonzero(IS_QUERY), np.flatnonzero(IS_GALLERY & ~IS_QUERY)]
    np.save(in_folder / "g.npy", PLACES[IS_GALLERY & ~IS_QUERY])
    write_table("both.csv", pid=IDENTITIES[rows], split=["test"] * len(rows))
    printed = command("evaluate", "query.npy", "g.npy", "--labels", "both.csv", *OPTIONS)
    # Gallery b c: a finds c b, 1/2; d finds b c, 1/2; f finds b c, 1.
    assert map_of(printed) == pytest.approx((1 / 2 + 1 / 2 + 1) / 3, abs=1e-12)
    assert "one role in every row of the labels: it does not tell queries and gallery apart" in printed.err


WILD = np.array([[0.0], [1.0], [0.4], [1.9], [0.6]])
WILD_IDENTITIES = [1, 1, 2, 1, 2]
# The gallery is the first three: the fourth finds them in the order 2 3 1, (1 + 2/3) / 2; the last has 3 first.
WILD_MAP = (5 / 6 + 1) / 2


@pytest.mark.parametrize(
    ("split", "note"),
    [
        (["train"] * 3 + ["test"] * 2, "train in `split` as the gallery, test as the queries"),
        (["database"] * 3 + ["query"] * 2, ""),
    ],
)
@pytest.mark.parametrize("form", ["csv", "npz"])
def test_train_is_the_gallery_of_test(command, in_folder, split, note, form):
    np.save(in_folder / "wild.npy", WILD)
    words = ["wild.npy", "--labels", write_table("wild.csv", identity=WILD_IDENTITIES, split=split)]
    if form == "npz":
        np.savez(in_folder / "wild.npz", feat=WILD, identity=WILD_IDENTITIES, split=split)
        words = ["wild.npz"]
    printed = command("evaluate", *words, *OPTIONS)
    assert map_of(printed) == pytest.approx(WILD_MAP, abs=1e-12)
    assert note in printed.err


def test_train_of_other_identities_than_test_is_an_error(command, in_folder):
    np.save(in_folder / "wild.npy", WILD)
    write_table("cub.csv", label=[1, 1, 2, 3, 3], split=["train"] * 3 + ["test"] * 2)
    printed = command("evaluate", "wild.npy", "--labels", "cub.csv", *OPTIONS)
    assert printed.status == 1
    assert "cub.csv: `split` must have a common identity in train, the gallery, and in test, the queries" in printed.err


def test_rows_of_both_roles_in_tables_of_each_side_are_an_error(command, in_folder):
    for side, rows in (("q", IS_QUERY), ("g", IS_GALLERY)):
        write_table(f"{side}.csv", **{name: values[rows] for name, values in FLAGS.items()})
    printed = command("evaluate", "query.npy", "gallery.npy", "--labels", "q.csv", "g.csv", *OPTIONS)
    assert printed.status == 1
    assert "`roles` of queries and gallery must come in one table of all rows" in printed.err
    assert "got 2 rows that are queries and gallery items with query.npy." in printed.err


def test_duplicates_need_one_role_in_each_row(command, in_folder):
    printed = command("duplicates", *arrays(in_folder))
    assert printed.status == 1
    assert "all.npz: each row must be a query or a gallery item; got rows of both, or of neither." in printed.err


def test_many_samples_of_all_roles_give_the_numbers_of_the_definition(command, in_folder):
    random = np.random.default_rng(4)
    embeddings, identities = random.normal(size=(80, 5)), random.integers(0, 6, 80)
    flags = random.random((80, 2)) < 0.6
    np.savez("many.npz", feat=embeddings, pid=identities, is_query=flags[:, 0], is_gallery=flags[:, 1])
    precisions = []
    for row in np.flatnonzero(flags[:, 0]):
        items = [item for item in np.flatnonzero(flags[:, 1]) if item != row]
        items.sort(key=lambda item: np.linalg.norm(embeddings[item] - embeddings[row]))
        ranks = [rank for rank, item in enumerate(items, start=1) if identities[item] == identities[row]]
        precisions.append(np.mean([hits / rank for hits, rank in enumerate(ranks, start=1)]))
    printed = command("evaluate", "many.npz", *OPTIONS)
    assert map_of(printed) == pytest.approx(np.mean(precisions), abs=1e-12)


def test_files_with_roles_give_the_numbers_of_the_command_in_one_call(in_folder):
    options = {"similarity": "euclidean", "same_camera": "keep"}
    samples = read_samples(arrays(in_folder)[0])
    assert evaluate(samples, **options)["map"] == pytest.approx(BOTH_MAP, abs=1e-12)
    query, gallery = (read_samples("all.npz", role=role) for role in ("query", "gallery"))
    assert evaluate(query, gallery, **options)["map"] == pytest.approx(BOTH_MAP, abs=1e-12)
    with pytest.raises(ValueError, match=r"^`self_index` must be left out for files with roles, which decide it;"):
        evaluate(samples, self_index=[0, 1, 2], **options)
    for number, rows in enumerate(np.array_split(np.arange(6), 3)):
        np.savez(f"shard-{number}.npz", feat=PLACES[rows], **{name: values[rows] for name, values in FLAGS.items()})
    assert evaluate(read_samples("shard-*.npz"), **options)["map"] == pytest.approx(BOTH_MAP, abs=1e-12)


def test_files_of_one_role_are_searched_among_each_other_in_one_call(in_folder):
    options = {"similarity": "euclidean", "same_camera": "keep"}
    for columns in ONE_SET.values():
        np.savez("set.npz", feat=PLACES[SET], pid=IDENTITIES[SET], **columns)
        assert evaluate(read_samples("set.npz"), **options)["map"] == pytest.approx(AMONG_OTHERS, abs=1e-12)
    is_of_set = np.arange(6) < 4
    np.savez("set.npz", feat=PLACES, pid=IDENTITIES, is_query=is_of_set, is_gallery=is_of_set)
    assert evaluate(read_samples("set.npz"), **options)["map"] == pytest.approx(AMONG_OTHERS, abs=1e-12)
    np.savez("none.npz", feat=PLACES, pid=IDENTITIES, is_query=IS_QUERY, is_gallery=np.zeros(6, dtype=bool))
    with pytest.raises(
        ValueError, match=r"^`roles` of the files must have queries and gallery items; got 3 queries and"
    ):
        evaluate(read_samples("none.npz"), **options)
