"""Small files that would cost minutes or gigabytes are refused by any reader, in one line that names the file."""

import io
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest
import scipy.io
import torch

from reid_torchmetrics.data import read_ground_truth, read_labels, read_pairs, read_retrieved, read_samples
from reid_torchmetrics.functional.retrieval import RetrievalResults

READERS = (read_samples, read_labels, read_pairs, read_retrieved, read_ground_truth, RetrievalResults.load)
MIB = 2**20
SIZE = 150 * MIB
PEAK = 100 * MIB


def npy_header(descr, shape):
    """An .npy file that promises an array, without its contents."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return file.getvalue()


def write_npz(path, names):
    """A compressed archive of 0.3 MB whose members inflate to 150 MiB of zeros each."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in names:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                member.write(npy_header("<f4", (SIZE // 512, 128)))
                for _ in range(SIZE // MIB):
                    member.write(bytes(MIB))


def write_mat(path):
    """A .mat of 0.3 MB: a compressed element of 150 MiB of zeros, which is millions of empty elements."""
    packed = zlib.compress(bytes(SIZE), 1)
    header = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<HH", 0x0100, 0x4D49)
    path.write_bytes(header + struct.pack("<II", 15, len(packed)) + packed)


def write_empty_rows(path):
    """A .mat of 128 bytes and one array: a text of 2 ** 31 - 1 rows without characters."""
    parts = [(6, struct.pack("<II", 4, 0)), (5, struct.pack("<ii", 2**31 - 1, 0)), (1, b"feat"), (16, b"")]
    matrix = b"".join(
        struct.pack("<II", kind, len(data)) + data.ljust(-(-len(data) // 8) * 8, b"\0") for kind, data in parts
    )
    header = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<HH", 0x0100, 0x4D49)
    path.write_bytes(header + struct.pack("<II", 14, len(matrix)) + matrix)


def write_uneven_cells(path):
    """A .mat of 40 KB: a long text among short ones, all of which would take as much as the long one."""
    scipy.io.savemat(path, {"feat": np.array(["a" * 10**5, *"b" * 10**3], dtype=object)}, do_compression=True)


def write_repeated_texts(path):
    """An HDF5 file in which a long text is in the same row as many short ones."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file["feat"] = np.array(["a" * 10**5, *"b" * 10**3], dtype=object)


def write_small_npz(path, contents):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("feat.npy", contents)


def write_twice(path):
    file = io.BytesIO()
    np.save(file, np.ones((3, 4), np.float32))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("feat.npy", file.getvalue())
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("feat.npy", file.getvalue())


def write_expanded_tensor(path):
    torch.save({"feat": torch.zeros(1).expand(SIZE // 512, 128)}, path)


FILES = {
    "zeros.npz": lambda path: write_npz(path, ["feat"]),
    "several.npz": lambda path: write_npz(path, ["feat", "pids"]),
    "twice.npz": write_twice,
    "zeros.mat": write_mat,
    "rows.mat": write_empty_rows,
    "cells.mat": write_uneven_cells,
    "texts.h5": write_repeated_texts,
    "expanded.pt": write_expanded_tensor,
    **{
        f"{descr[1:]}_{number}.npy": lambda path, descr=descr, shape=shape: path.write_bytes(npy_header(descr, shape))
        for descr in ("|S0", "|V0", "<U0", "<f4", "|O")
        for number, shape in enumerate([(2**50, 2), (2**62, 2**62), (10,)])
    },
    "header.npz": lambda path: write_small_npz(path, npy_header("<f4", (2**40, 128))),
    "loop.npy": lambda path: path.symlink_to(path),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("costly")
    for name, write in FILES.items():
        write(place / name)
    return place


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__qualname__)
@pytest.mark.parametrize("name", FILES)
def test_a_costly_file_is_refused_in_one_line_without_much_memory(folder, reader, name):
    tracemalloc.start()
    try:
        with pytest.raises((ValueError, OSError)) as raised:
            reader(str(folder / name))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    message = str(raised.value)
    assert name in message
    assert "\n" not in message
    assert peak < PEAK


def test_the_bound_can_be_raised_by_the_environment(tmp_path, monkeypatch):
    path = tmp_path / "zeros.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        file = io.BytesIO()
        np.save(file, np.zeros((2**15, 1024), np.float32))  # 128 MiB
        archive.writestr("feat.npy", file.getvalue())
    with pytest.raises(ValueError, match=r"zeros\.npz"):
        read_samples(path)
    monkeypatch.setenv("REID_TORCHMETRICS_MAX_INFLATED", str(200 * MIB))
    (samples,) = read_samples(path)
    assert samples.embeddings.shape == (2**15, 1024)
    monkeypatch.setenv("REID_TORCHMETRICS_MAX_INFLATED", "many")
    with pytest.raises(ValueError, match="REID_TORCHMETRICS_MAX_INFLATED='many'"):
        read_samples(path)
