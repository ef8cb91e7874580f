"""Codes in files, as bools, integers, floats or packed bits, in each format: all entry points read the same codes."""

import json
import re
from itertools import cycle, product
from pathlib import Path

import numpy as np
import pytest
import torch

from reid_torchmetrics import evaluate, index_recall
from reid_torchmetrics.command import main
from reid_torchmetrics.data import read_samples
from tests.profiles import PROFILE

BITS = np.random.default_rng(0).integers(0, 2, (14, 16)).astype(bool)
IDS = np.arange(14) % 3
SIDES = {"query": slice(0, 4), "gallery": slice(4, 14)}
FORMS = {
    "packed": np.packbits(BITS, axis=1),
    "bool": BITS,
    "int8 of 1 and -1": 2 * BITS.astype(np.int8) - 1,
    "int64 of 0 and 1": BITS.astype(np.int64),
    "uint8": BITS.astype(np.uint8),
    "float16": BITS.astype(np.float16),
}


def in_npz(name, arrays):
    np.savez(f"{name}.npz", **arrays)


def compressed(name, arrays):
    np.savez_compressed(f"{name}.npz", **arrays)


def in_folder(name, arrays):
    Path(name).mkdir()
    for key, values in arrays.items():
        np.save(f"{name}/{key}.npy", values)


def in_torch(name, arrays):
    torch.save({key: torch.from_numpy(values) for key, values in arrays.items()}, f"{name}.pt")


def in_safetensors(name, arrays):
    pytest.importorskip("safetensors.numpy").save_file(arrays, f"{name}.safetensors")


def in_hdf5(name, arrays):
    with pytest.importorskip("h5py").File(f"{name}.h5", "w") as file:
        for key, values in arrays.items():
            file[key] = values


def in_matlab(name, arrays):
    pytest.importorskip("scipy.io").savemat(f"{name}.mat", arrays)


FORMATS = [in_npz, compressed, in_folder, in_torch, in_safetensors, in_hdf5, in_matlab]
ALL_PAIRS = list(product(FORMATS, FORMS))
SOME_PAIRS = list(zip(FORMATS, cycle(FORMS), strict=False))
"""each format, and each form of codes"""


@pytest.mark.parametrize(("write", "form"), ALL_PAIRS if PROFILE == "nightly" else SOME_PAIRS)
def test_codes_are_read_by_every_entry_point(write, form, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    query, gallery = (np.where(BITS[rows], 1, -1) for rows in SIDES.values())
    identities = [IDS[rows] for rows in SIDES.values()]
    expected = evaluate(query, gallery, *identities, similarity="hamming")["map"]
    paths = []
    for name, rows in SIDES.items():
        write(name, {"feat": np.ascontiguousarray(FORMS[form][rows]), "pids": IDS[rows]})
        paths += [str(path) for path in Path().iterdir() if path.stem == name]
    is_packed = form == "packed"
    sides = [read_samples(path) for path in paths]
    assert evaluate(*sides, similarity="hamming", packed=is_packed)["map"] == expected
    lists = np.tile(np.arange(10), (4, 1))
    np.save("lists.npy", lists)
    assert index_recall(lists, *sides, k=10, similarity="hamming", packed=is_packed).mean == 1

    options = ["--similarity", "hamming", *["--packed"] * is_packed, "--json", "out.json"]
    for way in ([], ["--stream"]):
        assert main(["evaluate", *paths, *way, *options]) == 0
        measures = json.loads(Path("out.json").read_text(encoding="utf-8"))["measures"]
        assert measures["map"]["value"] == pytest.approx(expected, abs=1e-6)
    assert main(["lists", "lists.npy", "--exact", *paths, *options]) == 0


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_quantized_embeddings_are_refused_with_what_gives_floats(dtype, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    zero_point, scale = (0, 0.5) if dtype == np.int8 else (128, 0.5)
    embeddings = np.random.default_rng(0).integers(-100, 100, (14, 16))
    for name, rows in SIDES.items():
        np.savez(f"{name}.npz", feat=(embeddings[rows] + zero_point).astype(dtype), pids=IDS[rows])
    assert main(["evaluate", "query.npz", "gallery.npz"]) == 1
    said = capsys.readouterr().err
    assert "or `--similarity hamming` for codes" in said
    line = re.search(r"Pass `(.*?)` of quantized embeddings", said)[1]
    known = {"x": (embeddings + zero_point).astype(dtype), "zero_point": zero_point, "scale": scale}
    assert (eval(line, known) == embeddings * scale).all()  # noqa: S307 - the line of the message


def test_codes_that_are_ranked_as_floats_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, rows in SIDES.items():
        np.savez(f"{name}.npz", feat=BITS[rows], pids=IDS[rows])
    with pytest.raises(TypeError, match=r"`query` must have a floating point dtype of 16 to 64 bits; got torch.bool"):
        evaluate(read_samples("query.npz"), read_samples("gallery.npz"))
    assert main(["evaluate", "query.npz", "gallery.npz"]) == 1
    assert "must have a floating point dtype of 16 to 64 bits; got torch.bool" in capsys.readouterr().err
