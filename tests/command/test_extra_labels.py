"""Labels that users name, in files of every kind: the command has the numbers of the function."""

import numpy as np
import pytest
import torch

from reid_torchmetrics.data import read_labels, read_samples
from reid_torchmetrics.functional.retrieval import RetrievalResults, evaluate
from tests.extra_labels import ranks_in

DICE = np.random.default_rng(5)
NUM_QUERIES, TOTAL = 12, 70
EMBEDDINGS = DICE.standard_normal((TOTAL, 8)).astype(np.float32)
IDENTITIES = DICE.integers(0, 5, TOTAL)
CAMERAS = DICE.integers(0, 3, TOTAL)
SIDE = np.array(["left", "right"])[DICE.integers(0, 2, TOTAL)]
BATCH = DICE.integers(0, 3, TOTAL)
ROWS = {"query": slice(0, NUM_QUERIES), "gallery": slice(NUM_QUERIES, TOTAL)}
RULES = ("--must-agree", "side", "--must-differ", "batch")
SAVED = ("--save", "saved.npz")


def expected(**options):
    labels = {}
    for role, rows in ROWS.items():
        labels[f"{role}_identities"] = IDENTITIES[rows]
        labels[f"{role}_cameras"] = CAMERAS[rows]
        labels[f"{role}_labels"] = {"side": SIDE[rows], "batch": BATCH[rows]}
    sides = [EMBEDDINGS[rows] for rows in ROWS.values()]
    return evaluate(*sides, **labels, must_agree=("side",), must_differ=("batch",), **options)


def write_arrays(folder, role, rows=None, name=None):
    """A file of one side with all labels."""
    rows = ROWS[role] if rows is None else rows
    labels = {"pids": IDENTITIES[rows], "camids": CAMERAS[rows], "side": SIDE[rows], "batch": BATCH[rows]}
    np.savez(folder / f"{name or role}.npz", features=EMBEDDINGS[rows], **labels)
    return f"{name or role}.npz"


def write_table(folder, role, rows, header="pid,camid,side,batch"):
    lines = [header]
    lines += [f"{IDENTITIES[row]},{CAMERAS[row]},{SIDE[row]},{BATCH[row]}" for row in range(TOTAL)[rows]]
    (folder / f"{role}.csv").write_text("\n".join(lines), encoding="utf-8")
    return f"{role}.csv"


def check(folder, command, *words):
    status, _, error = command("evaluate", *words, *SAVED)
    assert (status, "Traceback" in error) == (0, False), error
    found = RetrievalResults.load(folder / "saved.npz")
    assert found.means == expected().means
    assert found.protocol.must_agree == ("side",)


def test_arrays_of_a_file_are_labels_by_their_names(tmp_path, command):
    files = [write_arrays(tmp_path, role) for role in ROWS]
    check(tmp_path, command, *files, *RULES)


def test_columns_of_another_name_are_said_to_be_labels(tmp_path, command):
    words = []
    for role, rows in ROWS.items():
        np.save(tmp_path / f"{role}.npy", EMBEDDINGS[rows])
        words.append(f"{role}.npy")
    tables = [write_table(tmp_path, role, rows, "pid,camid,flank,well") for role, rows in ROWS.items()]
    check(tmp_path, command, *words, "--labels", *tables, "--names", "side=flank", "batch=well", *RULES)


def test_a_file_for_each_label_has_its_name(tmp_path, command):
    words, labels = [], []
    columns = {"identities": IDENTITIES, "cameras": CAMERAS, "side": SIDE, "batch": BATCH}
    for role, rows in ROWS.items():
        np.save(tmp_path / f"{role}.npy", EMBEDDINGS[rows])
        words.append(f"{role}.npy")
    for name, values in columns.items():
        for role, rows in ROWS.items():
            np.save(tmp_path / f"{role}_{name}.npy", values[rows])
            labels.append(f"{name}={role}_{name}.npy")
    check(tmp_path, command, *words, "--labels", *labels, *RULES)


def test_a_stream_and_a_mean_of_queries_follow_the_rules(tmp_path, command):
    write_arrays(tmp_path, "query")
    (tmp_path / "shards").mkdir()
    parts = np.array_split(np.arange(NUM_QUERIES, TOTAL), 3)
    for number, rows in enumerate(parts):
        write_arrays(tmp_path / "shards", "gallery", rows, name=f"part{number}")
    check(tmp_path, command, "query.npz", "shards", "--stream", *RULES)


def test_distances_with_labels_follow_the_rules(tmp_path, command):
    distances = np.linalg.norm(EMBEDDINGS[ROWS["query"], None] - EMBEDDINGS[None, ROWS["gallery"]], axis=2)
    arrays = {"distances": distances}
    for role, rows in ROWS.items():
        arrays |= {f"{role}_pids": IDENTITIES[rows], f"{role}_camids": CAMERAS[rows]}
        arrays |= {f"{role}_side": SIDE[rows], f"{role}_batch": BATCH[rows]}
    np.savez(tmp_path / "distances.npz", **arrays)
    status, _, error = command("evaluate", "distances.npz", *RULES, *SAVED)
    assert status == 0, error
    found = RetrievalResults.load(tmp_path / "saved.npz")
    assert found.means == pytest.approx(expected(similarity="euclidean").means)


def test_lists_with_tables_follow_the_rules(tmp_path, command):
    similarity = torch.nn.functional.normalize(torch.from_numpy(EMBEDDINGS))
    scores = similarity[ROWS["query"]] @ similarity[ROWS["gallery"]].T
    np.save(tmp_path / "lists.npy", scores.argsort(dim=1, descending=True).numpy())
    tables = [write_table(tmp_path, role, rows) for role, rows in ROWS.items()]
    words = ("--protocol", "market1501", "--labels", *tables, *RULES, *SAVED)
    status, _, error = command("lists", "lists.npy", *words)
    assert status == 0, error
    assert RetrievalResults.load(tmp_path / "saved.npz").means == pytest.approx(expected().means)


def test_a_label_that_no_file_has_is_named(tmp_path, command):
    files = [write_arrays(tmp_path, role) for role in ROWS]
    status, _, error = command("evaluate", *files, "--must-agree", "plate")
    assert status == 1
    said = "plate must be given for `--must-agree` ('plate',), as an array or a column of that name, by `--labels"
    assert said in error


def test_a_label_that_one_side_lacks_is_named(tmp_path, command):
    files = [write_arrays(tmp_path, "query"), "gallery.npz"]
    rows = ROWS["gallery"]
    np.savez(tmp_path / "gallery.npz", features=EMBEDDINGS[rows], pids=IDENTITIES[rows], camids=CAMERAS[rows])
    status, _, error = command("evaluate", *files, "--must-agree", "side")
    assert status == 1
    assert "side must be given for queries and gallery; got none in the files of the gallery." in error


def test_names_of_the_field_are_no_labels_of_a_user(tmp_path):
    write_arrays(tmp_path, "query")
    with pytest.raises(ValueError, match="`labels` must hold names other than embeddings, distances"):
        read_samples(tmp_path / "query.npz", labels=("cameras",))
    with pytest.raises(TypeError, match="`labels` must be a tuple or list of names; got 'side', so write"):
        read_samples(tmp_path / "query.npz", labels="side")


def test_a_label_of_a_user_is_nothing_else(tmp_path):
    np.savez(tmp_path / "cells.npz", features=EMBEDDINGS[:3], pids=IDENTITIES[:3], track=BATCH[:3])
    (file,) = read_samples(tmp_path / "cells.npz", labels=("track",))
    assert set(file.labels) == {"identities", "track"}
    (file,) = read_samples(tmp_path / "cells.npz")
    assert set(file.labels) == {"identities", "sequences"}


def test_labels_of_opened_files_are_given_to_the_function(tmp_path):
    for role in ROWS:
        write_arrays(tmp_path, role)
    query, gallery = (read_samples(tmp_path / f"{role}.npz", labels=("side", "batch")) for role in ROWS)
    found = evaluate(query, gallery, must_agree=("side",), must_differ=("batch",))
    assert ranks_in(found) == ranks_in(expected())


def test_a_missing_cell_of_a_label_is_refused(tmp_path):
    (tmp_path / "table.csv").write_text("pid,side\n1,left\n2,\n", encoding="utf-8")
    with pytest.raises(ValueError, match="`side` must hold whole numbers or strings; got '' for sample 1"):
        read_labels(tmp_path / "table.csv", labels=("side",))


def test_an_array_without_a_name_is_the_only_label_that_is_asked_for(tmp_path):
    np.save(tmp_path / "side.npy", SIDE)
    assert read_labels(tmp_path / "side.npy", labels=("side",))["side"].tolist() == SIDE.tolist()
    assert [*read_labels(tmp_path / "side.npy", labels=("side", "batch"))] == ["identities"]
