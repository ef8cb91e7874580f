"""Embeddings and lists in HDF5 and in vectors, as the projects that are named write them."""

import re
import struct
import sys

import numpy as np
import pytest

from reid_torchmetrics.command import main
from reid_torchmetrics.data import read_ground_truth, read_labels, read_retrieved, read_samples
from reid_torchmetrics.data.foreign_forms import CONVERSIONS

X = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
IDS = np.array([3, 3, 5, 5, 7, 7])


@pytest.fixture
def h5py():
    return pytest.importorskip("h5py")


def write_matlab_73(h5py, path, arrays):
    """As MATLAB's `save -v7.3`: HDF5 behind a header, with rows and columns exchanged."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, values in arrays.items():
            matlab_class = {"f4": "single", "f8": "double"}.get(values.dtype.str[1:], values.dtype.name)
            file[name] = np.atleast_2d(values).T
            file[name].attrs["MATLAB_class"] = np.bytes_(matlab_class)
        file["note"] = np.array([[116], [101]], np.uint16)
        file["note"].attrs["MATLAB_class"] = np.bytes_("char")
        file["nothing"] = np.zeros(2, np.uint64)
        file["nothing"].attrs.update({"MATLAB_class": np.bytes_("double"), "MATLAB_empty": np.uint8(1)})
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")


def write_vectors(path, rows, code):
    """As TEXMEX: the length of each vector, and then its values."""
    parts = [struct.pack(f"<i{len(row)}{code}", len(row), *row) for row in rows]
    path.write_bytes(b"".join(parts))


@pytest.mark.parametrize("options", [{}, {"chunks": (2, 4)}, {"compression": "gzip"}], ids=str)
def test_the_embeddings_of_triplet_reid_are_read_with_a_table_of_labels(h5py, options, tmp_path):
    with h5py.File(tmp_path / "market1501_query_embeddings.h5", "w") as file:
        file.create_dataset("emb", data=X, **options)
    (samples,) = read_samples(tmp_path / "market1501_query_embeddings.h5")
    assert samples.embeddings.tolist() == X.tolist()
    assert isinstance(samples.embeddings, np.memmap) == (options == {})


def test_groups_and_references_are_named(h5py, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["query/feat"] = np.eye(2)
        file["pid"] = np.array([file["query"].ref] * 2, dtype=h5py.ref_dtype)
    rule = "got none, and without a reader `pid`, an array of object, `query`, a group"
    with pytest.raises(ValueError, match=rule):
        read_samples(tmp_path / "a.h5")


def test_labels_of_numbers_and_of_texts_are_read_from_hdf5(h5py, tmp_path):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["feat"], file["pids"] = X, IDS
        file["camids"] = np.array([*"abcabc"], "S1")
        file["paths"] = [f"{place}.jpg" for place in range(6)]  # objects to h5py
        file.create_group("more")["feat"] = X
    (samples,) = read_samples(tmp_path / "a.hdf5")
    assert samples.labels["identities"].tolist() == IDS.tolist()
    assert samples.labels["cameras"].tolist() == [*"abcabc"]
    assert samples.names.tolist() == [f"{place}.jpg" for place in range(6)]
    assert read_labels(tmp_path / "a.hdf5")["identities"].tolist() == IDS.tolist()


@pytest.mark.parametrize("shape", [(6, 1), (1, 6), (3, 2)])
def test_texts_of_another_shape_are_named_with_it(h5py, tmp_path, shape):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["feat"], file["paths"] = X, np.array([*"abcdef"], object).reshape(shape)
    (samples,) = read_samples(tmp_path / "a.h5")
    assert (samples.names, samples.unread_names) == (None, f"`paths`, texts of shape {list(shape)}")


def ann_benchmark(h5py, path):
    """A file of ann-benchmarks, and the recall of the first two neighbors of its queries."""
    train, test = X, X[:2] + np.float32(0.01)
    distances = np.linalg.norm(test[:, None] - train, axis=-1)
    neighbors = distances.argsort(axis=1)[:, :2]
    with h5py.File(path, "w") as file:
        file.attrs["distance"] = "euclidean"
        file["train"], file["test"] = train, test
        file["neighbors"] = neighbors.astype(np.int32)
        file["distances"] = np.take_along_axis(distances, neighbors, axis=1)
    return neighbors


def test_a_file_of_ann_benchmarks_has_queries_gallery_and_lists(h5py, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "sift.hdf5"
    neighbors = ann_benchmark(h5py, path)
    (query,), (gallery,) = (read_samples(path, role=role) for role in ("query", "gallery"))
    assert (query.kind, query.embeddings.shape) == ("embeddings", (2, 4))
    assert gallery.embeddings.tolist() == X.tolist()
    assert read_retrieved(path).tolist() == neighbors.tolist()
    assert read_ground_truth(path) == neighbors.tolist()
    words = ["--similarity", "euclidean", "--reports", "recall_2"]
    assert main(["evaluate", "sift.hdf5", "--ground-truth", "sift.hdf5", *words]) == 0
    assert "100" in capsys.readouterr().out
    np.save("I.npy", neighbors[:, ::-1].copy())
    assert main(["lists", "I.npy", "sift.hdf5", "--reports", "recall_2", "map"]) == 0


def test_the_arrays_of_matlab_7_3_are_those_that_matlab_shows(h5py, tmp_path):
    write_matlab_73(h5py, tmp_path / "result.mat", {"gallery_f": X, "gallery_label": IDS.astype(float)})
    (samples,) = read_samples(tmp_path / "result.mat", role="gallery")
    assert samples.embeddings.tolist() == X.tolist()
    assert samples.labels["identities"].tolist() == IDS.tolist()


def test_no_other_file_is_read_by_way_of_hdf5(h5py, tmp_path):
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["secret"] = X
    X.tofile(tmp_path / "secret.bin")
    layout = h5py.VirtualLayout(shape=X.shape, dtype="f4")
    layout[:] = h5py.VirtualSource(tmp_path / "secret.h5", "secret", shape=X.shape)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["external"] = h5py.ExternalLink("secret.h5", "secret")
        file["soft"] = h5py.SoftLink("/external")
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("raw", X.shape, "f4", external=[(str(tmp_path / "secret.bin"), 0, X.nbytes)])
        file["plain"] = X
    for name in ("external", "soft", "virtual", "raw"):
        with pytest.raises(ValueError, match=f"`{name}`, named as embeddings, must be in the file; got `plain`"):
            read_samples(tmp_path / "a.h5", names={"embeddings": name})


def test_a_small_file_of_hdf5_does_not_fill_the_memory(h5py, tmp_path):
    with h5py.File(tmp_path / "zeros.h5", "w") as file:
        file.create_dataset("feat", (2**22, 512), "f4", chunks=(1024, 512), compression="gzip")
    with pytest.raises(ValueError, match=r"zeros\.h5: the file must be a whole file of HDF5; got `feat` of 8589934592"):
        read_samples(tmp_path / "zeros.h5")


def test_damaged_hdf5_is_refused_in_one_line(h5py, tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["feat"], file["pid"] = X, IDS
    contents = path.read_bytes()
    for size in range(0, len(contents), 97):
        path.write_bytes(contents[:size])
        with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: [^\n]*$"):
            read_samples(path)


def test_hdf5_without_h5py_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    (tmp_path / "a.h5").write_bytes(b"")
    with pytest.raises(ModuleNotFoundError, match=r"^This file needs h5py: pip install '\.\[files\]'") as raised:
        read_samples(tmp_path / "a.h5")
    assert f"`{CONVERSIONS['.h5']}` converts it" in str(raised.value)


def test_the_line_for_hdf5_converts_it(h5py, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with h5py.File("a.h5", "w") as file:
        file["feat"], file["pids"] = X, IDS
    with h5py.File("a.h5") as file:
        exec(CONVERSIONS[".h5"], {"numpy": np, "file": file})  # noqa: S102 - the line of the message
    (samples,) = read_samples("arrays.npz")
    assert samples.embeddings.tolist() == X.tolist()


def test_vectors_of_floats_are_embeddings_that_are_mapped(tmp_path):
    write_vectors(tmp_path / "sift_base.fvecs", X, "f")
    (samples,) = read_samples(tmp_path / "sift_base.fvecs")
    assert samples.embeddings.tolist() == X.tolist()
    assert isinstance(samples.embeddings, np.memmap)


def test_vectors_of_bytes_are_embeddings_of_floats(tmp_path):
    write_vectors(tmp_path / "bigann.bvecs", [[0, 255, 3], [1, 2, 4]], "B")
    (samples,) = read_samples(tmp_path / "bigann.bvecs")
    assert samples.embeddings.tolist() == [[0, 255, 3], [1, 2, 4]]


def test_vectors_of_integers_are_lists(tmp_path):
    write_vectors(tmp_path / "sift_groundtruth.ivecs", [[3, 1, -1], [0, 2, 5]], "i")
    assert read_retrieved(tmp_path / "sift_groundtruth.ivecs").tolist() == [[3, 1, -1], [0, 2, 5]]
    assert read_ground_truth(tmp_path / "sift_groundtruth.ivecs") == [[3, 1], [0, 2, 5]]


def test_the_files_of_sift_are_evaluated(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_vectors(tmp_path / "query.fvecs", X[:2], "f")
    write_vectors(tmp_path / "base.fvecs", X, "f")
    write_vectors(tmp_path / "groundtruth.ivecs", [[0], [1]], "i")
    words = ["--ground-truth", "groundtruth.ivecs", "--similarity", "euclidean", "--reports", "rank_1"]
    assert main(["evaluate", "query.fvecs", "base.fvecs", *words]) == 0
    assert "100" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "0 bytes where the first vector has 0 values"),
        (struct.pack("<i", -1), "4 bytes where the first vector has -1 values"),
        (struct.pack("<iff", 2, 1, 2) + b"\x00", "13 bytes where the first vector has 2 values"),
        (struct.pack("<iffif", 2, 1, 2, 1, 1) + bytes(4), "1 values in vector 1 where the first has 2"),
        (struct.pack("<i", 2**31 - 1), "4 bytes where the first vector has 2147483647 values"),
    ],
)
@pytest.mark.parametrize(("read", "name"), [(read_samples, "a.fvecs"), (read_retrieved, "a.ivecs")])
def test_vectors_that_do_not_fit_the_file_are_refused(read, name, contents, message, tmp_path):
    (tmp_path / name).write_bytes(contents)
    with pytest.raises(ValueError, match=rf"{name}: the file must be vectors of \w+, all of one length; got {message}"):
        read(tmp_path / name)
