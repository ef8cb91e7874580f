"""Files with several labels for each sample have the numbers of the function."""

import numpy as np
import pytest

from reid_torchmetrics.data import read_labels, read_samples
from reid_torchmetrics.functional.retrieval import RetrievalResults, evaluate

DICE = np.random.default_rng(3)
QUERIES, ALL, LABELS = 9, 60, 5
CODES = np.sign(DICE.standard_normal((ALL, 16))).astype(np.float32)
MATRIX = DICE.random((ALL, LABELS)) < 0.3
WORDS = ("--protocol", "hashing", "--ties", "expected", "--reports", "map", "acg_3", "--save", "saved.npz")
SIDES = {"query": slice(0, QUERIES), "gallery": slice(QUERIES, ALL)}
KINDS = [bool, np.uint8, np.int64, np.float64]


def expected():
    sides = [values[rows] for values in (CODES, MATRIX) for rows in SIDES.values()]
    return evaluate(*sides, protocol="hashing", ties="expected", reports=("map", "acg_3"))


def in_npy(folder, name, rows, dtype):
    np.save(folder / f"{name}.npy", CODES[rows])
    np.save(folder / f"{name}_labels.npy", MATRIX[rows].astype(dtype))
    return f"{name}.npy"


def in_npz(folder, name, rows, dtype):
    np.savez(folder / f"{name}.npz", features=CODES[rows], labels=MATRIX[rows].astype(dtype))
    return f"{name}.npz"


def in_mat(folder, name, rows, dtype):
    arrays = {"features": CODES[rows], "labels": MATRIX[rows].astype(dtype)}
    pytest.importorskip("scipy.io").savemat(folder / f"{name}.mat", arrays)
    return f"{name}.mat"


@pytest.mark.parametrize("write", [in_npz, in_npy, in_mat])
@pytest.mark.parametrize("dtype", KINDS)
def test_the_command_reads_matrices_of_labels(write, dtype, tmp_path, command):
    files = [write(tmp_path, name, rows, dtype) for name, rows in SIDES.items()]
    labels = ["--labels", "query_labels.npy", "gallery_labels.npy"] if write is in_npy else []
    status, _, error = command("evaluate", *files, *labels, *WORDS)
    assert (status, "Traceback" in error) == (0, False), error
    assert RetrievalResults.load(tmp_path / "saved.npz").means == expected().means


def test_a_stream_has_the_same_numbers(tmp_path, command):
    in_npz(tmp_path, "query", SIDES["query"], bool)
    (tmp_path / "gallery").mkdir()
    for number, rows in enumerate(np.array_split(np.arange(QUERIES, ALL), 4)):
        in_npz(tmp_path / "gallery", str(number), rows, bool)
    status, _, error = command("evaluate", "query.npz", "gallery", "--stream", *WORDS)
    assert status == 0, error
    assert RetrievalResults.load(tmp_path / "saved.npz").means == expected().means


def test_readers_return_bools(tmp_path):
    in_npz(tmp_path, "query", SIDES["query"], np.uint8)
    (file,) = read_samples(tmp_path / "query.npz")
    assert file.labels["identities"].dtype == bool
    assert np.array_equal(file.labels["identities"], MATRIX[:QUERIES])
    np.save(tmp_path / "labels.npy", MATRIX)
    assert np.array_equal(read_labels(tmp_path / "labels.npy")["identities"], MATRIX)


def test_a_matrix_of_other_numbers_names_the_file_and_what_is_accepted(tmp_path):
    np.save(tmp_path / "labels.npy", np.arange(12).reshape(3, 4))
    with pytest.raises(ValueError, match=r"labels.npy: .*0 and 1 for each sample and label, \[N, labels\]; got 2 in a"):
        read_labels(tmp_path / "labels.npy")


def test_the_function_takes_files_with_matrices(tmp_path):
    in_npz(tmp_path, "query", SIDES["query"], bool)
    (tmp_path / "gallery").mkdir()
    for number, rows in enumerate(np.array_split(np.arange(QUERIES, ALL), 3)):
        in_npz(tmp_path / "gallery", str(number), rows, np.uint8)
    files = read_samples(tmp_path / "query.npz"), read_samples(tmp_path / "gallery")
    results = evaluate(*files, protocol="hashing", ties="expected", reports=("map", "acg_3"))
    assert results.means == expected().means


def test_files_with_other_numbers_of_labels_are_told_in_one_line(tmp_path, command):
    in_npz(tmp_path, "query", SIDES["query"], bool)
    np.savez(tmp_path / "gallery.npz", features=CODES[QUERIES:], labels=MATRIX[QUERIES:, :3])
    status, _, error = command("evaluate", "query.npz", "gallery.npz", "--protocol", "hashing")
    assert status != 0
    message = "`identities` of the gallery must have the labels of `identities` of the query; got a matrix of 3 labels"
    assert message in error
