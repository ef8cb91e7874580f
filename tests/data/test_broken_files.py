"""Broken files: one line that names the file and what is wrong, whatever is wrong, and never a wrong number of rows."""

import csv
import io
import json
import pickle
import random
import re

import numpy as np
import pytest
import scipy.io
import torch

from reid_torchmetrics.data import read_ground_truth, read_labels, read_retrieved, read_samples

X, IDS = np.eye(5, 3, dtype=np.float32), np.arange(5)


class Backbone(torch.nn.Linear):
    """A class that a checkpoint may need."""


def saved(save, *arguments, **options):
    """The bytes that a function writes to a file."""
    file = io.BytesIO()
    save(file, *arguments, **options)
    return file.getvalue()


def npz(**arrays):
    return saved(np.savez, **arrays)


def spoiled(contents, old, new):
    assert old in contents
    return contents.replace(old, new)


NPZ, SAMPLES = npz(feat=X, pid=IDS), "the file must be"
TENSORS = "a tensor or a dict of tensors of torch.save, without other classes; got"
TREC, JSON = (
    "a line must be query Q0 item rank score name; got",
    "the file must be JSON of queries with their lists; got",
)
BROKEN = [
    # Arrays.
    (read_samples, "a.npz", NPZ[:200], f"{SAMPLES} a whole archive of numpy.savez without pickle; got BadZipFile: File is"),
    (read_samples, "a.npz", b"", f"{SAMPLES} a whole archive of numpy.savez without pickle; got BadZipFile: File is not"),
    (read_samples, "a.npz", npz(feat=np.array([None, 1])), "the embeddings must be numbers or strings, as Python objects are only read by pickle; got `feat` of objects: convert it by `numpy.save('embeddings.npy', numpy.stack(list(array)))`."),
    (read_samples, "a.npz", spoiled(NPZ, b"(5, 3)", b"(4, 3)"), f"{SAMPLES} a whole archive of numpy.savez without pickle; got `feat` of shape [4, 3] and dtype float32 in 188 bytes."),
    (read_samples, "a.npz", npz(), "one array must be the embeddings, distances or scores by its name, or by `names={'embeddings': NAME}`; got none."),
    (read_samples, "a.npz", npz(a=X, b=X), "one array must be the embeddings, distances or scores by its name, or by `names={'embeddings': NAME}`; got `a`, `b`."),
    (read_samples, "a.npz", npz(feat=X, emb=X), "one array must be the embeddings, or be named by `names={'embeddings': NAME}` or `role='query'`; got `feat`, `emb`."),
    (read_samples, "a.npz", npz(query_f=X, gallery_f=X), "one array must be the embeddings, or be named by `names={'embeddings': NAME}` or `role='query'`; got `query_f`, `gallery_f`."),
    (read_samples, "a.npz", npz(f=X, id=IDS, pid=IDS), "one array must be the identities, or be named by `names={'identities': NAME}` or `role='query'`; got `id`, `pid`."),
    (read_samples, "a.npz", npz(f=X, pid=IDS[:4]), "`pid` must have shape [5]; got [4]."),
    (read_samples, "a.npz", npz(f=X, pid=IDS + 0.5), "`pid` must hold whole numbers or strings; got 0.5 for sample 0."),
    (read_samples, "a.npz", npz(f=X, pid=[1, 2, np.nan, 3, 4]), "`pid` must hold whole numbers or strings; got nan for sample 2."),
    (read_samples, "a.npz", npz(f=X, pid=np.full(5, 2**24, np.float32)), "`pid` must hold whole numbers or strings; got 16777216.0 for sample 0."),
    (read_samples, "a.npz", npz(f=X, pid=IDS.astype(np.uint64) + 2**63), "`pid` must hold whole numbers or strings; got 9223372036854775808 for"),
    (read_samples, "a.npz", npz(f=X, pid=IDS > 2), "`pid` must hold whole numbers or strings; got bool."),
    (read_samples, "a.npz", npz(f=X, pid=[*"abc", "", "d"]), "`pid` must hold whole numbers or strings; got '' for sample 3."),
    (read_samples, "a.npz", npz(f=X, idx=[*"abcde"]), "`idx` must hold whole numbers; got <U1."),
    (read_samples, "a.npz", npz(f=X, utm=np.zeros((5, 4))), "`utm` must have shape [5] or [5, 1 to 3]; got [5, 4]."),
    (read_samples, "a.npz", npz(f=X, utm=[*"abcde"]), "`utm` must hold numbers; got <U1."),
    (read_samples, "a.npz", npz(f=X[0]), "`f` must have shape [N, D]; got [3]."),
    (read_samples, "a.npz", npz(f=X[:, :0]), "`f` must have at least one dimension per sample; got [5, 0]."),
    (read_samples, "a.npz", npz(f=X[0].astype(int)), "`f` must have shape [N, bits]; got [3]."),
    (read_samples, "a.npz", npz(f=X.astype(np.complex128)), "`f` must have a floating point dtype of 16 to 64 bits; got torch.complex128."),
    (read_samples, "a.npy", saved(np.save, X[:, None]), "`embeddings` must have shape [N, D]; got [5, 1, 3]. Pass `x.reshape(len(x), -1)`, without axes of length 1."),
    (read_samples, "a.npy", saved(np.save, X[None]), "`embeddings` must have shape [N, D]; got [1, 5, 3]."),
    (read_samples, "a.npy", saved(np.save, X)[:-1], f"{SAMPLES} a whole array of numpy.save without pickle; got the array of shape [5, 3] and dtype float32 in 187 bytes."),
    (read_samples, "a.npy", saved(np.save, X) + b"x", f"{SAMPLES} a whole array of numpy.save without pickle; got the array of shape [5, 3]"),
    (read_samples, "a.npy", b"\x93NUMPY\x09\x00", f"{SAMPLES} a whole array of numpy.save without pickle; got the array in version 9.0 of the format."),
    (read_samples, "a.npy", pickle.dumps(X), f"{SAMPLES} a whole array of numpy.save without pickle; got "),
    (read_samples, "a.pt", saved(lambda file: torch.save(Backbone(2, 2), file)), f"{SAMPLES} {TENSORS} the class tests.data.test_broken_files.Backbone."),
    (read_samples, "a.pt", saved(lambda file: torch.save([torch.eye(2)], file)), f"{SAMPLES} {TENSORS} a list: convert it by `torch.save(torch.vstack(tensors), path)`."),
    (read_samples, "a.pt", saved(lambda file: torch.save({"f": torch.eye(3).to_sparse()}, file)), "`f` must be a dense tensor; got torch.sparse_coo."),
    (read_samples, "a.pt", saved(lambda file: torch.save({"f": torch.eye(3)}, file))[:600], f"{SAMPLES} {TENSORS} "),
    (read_samples, "a.safetensors", b"\x08\x00\x00\x00\x00\x00\x00\x00{}", f"{SAMPLES} whole tensors of safetensors; got SafetensorError: "),
    (read_samples, "a.mat", saved(scipy.io.savemat, {"f": X})[:200], f"{SAMPLES} a whole MATLAB file of version 5 to 7.3; got "),
    (read_samples, "a.mat", b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM" + b"\x00" * 384, f"{SAMPLES} a whole MATLAB file of version 5 to 7.3; got OSError: "),
    (read_samples, "a.json", b"{}", "the suffix must be one of .npy, .npz, .pt, .pth, .safetensors, .mat, .h5, .hdf5, .fvecs, .bvecs and 3 more; got '.json': convert it by `numpy.savez('arrays.npz', **json.load(file))`."),
    # Tables.
    (read_labels, "a.csv", b"", "the file must be comma-separated values in UTF-8, rows as long as the first, which names them; got 0 rows of nothing."),
    (read_labels, "a.csv", b"pid,camid\n", "the file must be comma-separated values in UTF-8, rows as long as the first, which names them; got 0 rows of pid, camid."),
    (read_labels, "a.csv", b"pid,camid\n1,2\n\n3\n", "the file must be comma-separated values in UTF-8, rows as long as the first, which names them; got 1 cells for 2 names in line 4."),
    (read_labels, "a.csv", b"pid,pid\n1,2\n", "the file must be comma-separated values in UTF-8, rows as long as the first, which names them; got 1 rows of pid, pid."),
    (read_labels, "a.csv", b'pid\n"1', "the file must be comma-separated values in UTF-8, rows as long as the first, which names them; got Error: unexpected end of data."),
    (read_labels, "a.csv", b"pid\n\xff\xfe", "the file must be comma-separated values in UTF-8, rows as long as the first, which names them; got UnicodeDecodeError:"),
    (read_labels, "a.csv", b"height\n1\n", "a column must be a label by its name, or by `names={'identities': NAME}`; got height, the name of the only column; a file of values alone must be .txt."),
    (read_labels, "a.csv", b"id,pid\n1,2\n", "one array must be the identities, or be named by `names={'identities': NAME}`; got `id`, `pid`."),
    (read_labels, "a.csv", b"pid\n1.5\n", "`pid` must hold whole numbers or strings; got 1.5 for sample 0."),
    (read_labels, "a.csv", b"pid,x\n99999999999999999999,1\n", "`pid` must hold whole numbers or strings; got 1e+20 for sample 0."),
    (read_labels, "a.csv", b"x,y\n1,2\nhere,3\n", "`x/y` must hold numbers; got <U"),
    (read_labels, "a.csv", b"pid,split\n1,zoo\n", "`split` must hold query, queries, q, probe, gallery, g, test, database, db, index only, or train and test; got 'zoo'."),
    (read_labels, "a.csv", b"pid,split\n1,1\n", "`split` must hold query, queries, q, probe, gallery, g, test, database, db, index only, or train and test; got '1'."),
    (read_labels, "a.npz", npz(pid=IDS, cam=IDS[:4]), "`cam` must have shape [5]; got [4]."),
    (read_labels, "a.npz", npz(pid=IDS, is_query=IDS[:4] > 2), "`is_query` must have shape [5]; got [4]."),
    (read_labels, "a.parquet", b"PAR1", "the file must be a whole table of Parquet; got ArrowInvalid: "),
    (read_labels, "a.xlsx", b"1", "the suffix must be one of .csv, .tsv, .parquet, .txt, .npy, .npz,"),
    (read_labels, "a.csv", b"0002,a/0002_c1.jpg\n0003,a/0003_c1.jpg\n", "the first row must name the columns, or an argument such as `names={'identities': 'column 2'}` must; got 0002, a/0002_c1.jpg."),
    (read_labels, "a.txt", b"0014132 1234\n0014133 1234\n", "the first row must name the columns, or an argument such as `names={'identities': 'column 2'}` must; got column 1, column 2."),
    (read_labels, "a.txt", b"a.jpg 3\nb.jpg\n", "the file must be text in UTF-8, a row in each line, all of one length; got 1 cells for 2 names in line 2."),
    (read_labels, "a.txt", b"", "the file must be text in UTF-8, a row in each line, all of one length; got 0 rows of nothing."),
    # Lists.
    (read_retrieved, "a.run", b"q Q0 d 1 0.5 x\nq Q0 e 2 0.4\n", "2: a line must be query Q0 item rank score name, and not be cut off; got 'q Q0 e 2 0.4'."),
    (read_retrieved, "a.run", b"\nq Q0 d 1 nan x\n", f"2: {TREC} 'q Q0 d 1 nan x'."),
    (read_retrieved, "a.run", b"q Q0 d 1 2 x\nq Q0 d 2 1 x\n", "2: a query must have an item once; got 'd' again for 'q'."),
    (read_retrieved, "a.txt", b"a\nb c\n", "2: a line must be one item; got 'b c'."),
    (read_retrieved, "a.txt", b"\xff", "the file must be text in UTF-8; got UnicodeDecodeError: "),
    (read_retrieved, "a.npy", saved(np.save, X), "the array must hold integers of shape [queries, items]; got [5, 3] of float32."),
    (read_retrieved, "a.npy", saved(np.save, IDS), "the array must hold integers of shape [queries, items]; got [5] of int64."),
    (read_retrieved, "a.json", b'{"q": [1,', f"{JSON} JSONDecodeError: "),
    (read_retrieved, "a.json", b'{"q": [1], "q": [2]}', f"{JSON} a name that stands twice among ['q', 'q']."),
    (read_retrieved, "a.json", b'{"q": 1}', JSON + " {'q': 1}."),
    (read_retrieved, "a.csv", b"query_id,doc_id,score\nq,a,1\n", "the file must be comma-separated values, a query and its items by white space, below a row of names; got query_id, doc_id, score: convert it by `pandas.read_csv(path).to_csv('lists.txt', sep=' ', index=False)`."),
    (read_retrieved, "a.gz", b"\x1f\x8b", "lists must be text, .json, .csv or one of .npy, .h5, .hdf5, .ivecs; got '.gz': convert it by `Path('lists.txt').write_bytes(gzip.open(path).read())`."),
    (read_retrieved, "a.trec", b"q Q0 a 0 1e400 x\n", "1: a line must be query Q0 item rank score name; got 'q Q0 a 0 1e400 x'."),
    (read_labels, "a.tsv", b"anna\nben\n", "a column must be a label by its name, or by `names={'identities': NAME}`; got anna, the name of the only column; a file of values alone must be .txt."),
    (read_labels, "a.csv", b"pid,camid\n1,2\0\n", "the file must be comma-separated values in UTF-8, rows as long as the first, which names them; got a null character."),
    (read_retrieved, "a.json", b'{"q": ["a", 1]}', JSON + " ['a', 1] for 'q'."),
    (read_retrieved, "a.json", b'{"q": {"a": "0.5"}}', JSON + " ['0.5'] for 'q'."),
    (read_retrieved, "a.json", b'[[["a", 0.5]]]', JSON + " [['a', 0.5]] for 0: convert"),
    (read_retrieved, "a.json", b"[" * 100_000, f"{JSON} RecursionError: "),
    (read_ground_truth, "a.qrels", b"q 0 d 1.5\n", "1: a line must be query 0 item grade; got 'q 0 d 1.5'."),
    (read_ground_truth, "a.qrels", b"\n", "the file must have lines of query 0 item grade; got none."),
    (read_ground_truth, "a.pkl", pickle.dumps({"imlist": []}), "the file must be the ground truth of the revisited Oxford and Paris, without other classes; got KeyError: 'qimlist'."),
    (read_ground_truth, "a.pkl", pickle.dumps({"imlist": ["a"], "qimlist": ["q"], "gnd": [{"easy": [1]}]}), "the file must be the ground truth of the revisited Oxford and Paris, without other classes; got the item 1 of 1."),
    (read_ground_truth, "a.pkl", b"", "the file must be the ground truth of the revisited Oxford and Paris, without other classes; got pickle exhausted before seeing STOP."),
    (read_ground_truth, "a.pkl", b"\x80\x05\x96" + (2**34).to_bytes(8, "little") + b".", "the file must be the ground truth of the revisited Oxford and Paris, without other classes; got expected 17179869184 bytes in a bytearray8"),
    (read_ground_truth, "a.pkl", b"\x80\x02]r\xff\xff\xff\x7f.", "the file must be the ground truth of the revisited Oxford and Paris, without other classes; got place 2147483647 in 9 bytes."),
]  # fmt: skip


@pytest.mark.parametrize(("read", "name", "contents", "message"), BROKEN)
def test_a_broken_file_is_named_in_one_line(read, name, contents, message, tmp_path):
    for package, suffix in (("safetensors", ".safetensors"), ("pyarrow", ".parquet"), ("h5py", ".mat")):
        if name.endswith(suffix):
            pytest.importorskip(package)
    path = tmp_path / name
    path.write_bytes(contents)
    with pytest.raises(ValueError, match=re.escape(str(path))) as raised:
        read(path)
    said = str(raised.value)
    assert said.startswith((f"{path}: {message}", f"{path}:{message}"))
    assert "\n" not in said


@pytest.mark.parametrize(
    ("files", "arguments", "message"),
    [
        ({"a1.npy": X, "a2.npy": X[:, :2]}, "a*.npy", "a2.npy: a shard must have the form of {}/a1.npy, [N, 3] of float32 with no labels; got [N, 2] of"),
        ({"a1.npy": X, "a2.npy": X.astype("f2")}, "a*.npy", "a2.npy: a shard must have the form of {}/a1.npy, [N, 3] of float32 with no labels; got [N, 3] of float16"),
        ({"1.npz": {"f": X, "id": IDS}, "2.npz": {"f": X, "cam": IDS}}, "", "2.npz: a shard must have the form of {}/1.npz, [N, 3] of float32 with identities; got [N, 3] of float32 with cameras"),
        ({"1.npz": {"f": X, "id": IDS}, "2.npz": {"f": X, "id": [*"abcde"]}}, "", "2.npz: a shard must have the form of {}/1.npz, [N, 3] of float32 with identities; got [N, 3] of float32 with identities as strings"),
    ],
)  # fmt: skip
def test_shards_are_alike(files, arguments, message, tmp_path):
    for name, arrays in files.items():
        np.savez(tmp_path / name, **arrays) if isinstance(arrays, dict) else np.save(tmp_path / name, arrays)
    with pytest.raises(ValueError, match="^" + re.escape(f"{tmp_path}/" + message.format(tmp_path))):
        read_samples(tmp_path / arguments)


def test_a_missing_file_is_named(tmp_path):
    for read in (read_samples, read_labels, read_retrieved, read_ground_truth):
        with pytest.raises(FileNotFoundError, match=r"q 1\.npy'"):
            read(tmp_path / "q 1.npy")
    with pytest.raises(FileNotFoundError, match=r"^There is no file '.*/q-\*.npy'.$"):
        read_samples(tmp_path / "q-*.npy")
    with pytest.raises(FileNotFoundError, match=r"^There is no file of .npy, .* in '.*'.$"):
        read_samples(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"^There is no .txt file in '.*'.$"):
        read_retrieved(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"^There is no file \*_good.txt in '.*'.$"):
        read_ground_truth(tmp_path)
    (tmp_path / "tower_1_ok.txt").write_text("a\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r": a query must have the lists good, ok, junk; got ok alone for 'tower_1'.$"):
        read_ground_truth(tmp_path)


def test_arguments_are_checked(tmp_path):
    np.savez(tmp_path / "a.npz", f=X)
    with pytest.raises(ValueError, match=r"^`source` must name files, none of them twice; got \['"):
        read_samples([tmp_path / "a.npz", tmp_path / "*.npz"])
    with pytest.raises(ValueError, match=r"^`source` must name files, none of them twice; got \[\]"):
        read_samples([])
    with pytest.raises(ValueError, match=r"^`role` must be one of 'query', 'gallery'; got 'probe'."):
        read_samples(tmp_path, role="probe")
    with pytest.raises(ValueError, match=r"^`names` must be one of .*'distances', .* and 2 more; got 'pid'."):
        read_labels(tmp_path / "a.npz", names={"pid": "f"})
    with pytest.raises(ValueError, match=r"a.npz: `g`, named as cameras, must be in the file; got `f`.$"):
        read_samples(tmp_path / "a.npz", names={"cameras": "g"})


@pytest.mark.parametrize(("name", "package"), [("a.safetensors", "safetensors"), ("a.parquet", "pyarrow")])
def test_a_package_that_is_missing_is_named(name, package, tmp_path, monkeypatch):
    (tmp_path / name).write_bytes(b"")
    for module in ("safetensors", "pyarrow"):
        monkeypatch.setitem(__import__("sys").modules, module, None)
    said = rf"^This file needs {package}: pip install '\.\[files\]' in a clone of the repository\.$"
    with pytest.raises(ModuleNotFoundError, match=said) as caught:
        read_labels(tmp_path / name)
    assert caught.value.name == package


def parquet(file):
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table({"pid": IDS, "path": [*"abcde"]}), file)


def safetensors(file):
    file.write(pytest.importorskip("safetensors.torch").save({"f": torch.tensor(X), "pid": torch.tensor(IDS)}))


def hdf5(file):
    h5py = pytest.importorskip("h5py")
    with h5py.File(file, "w") as arrays:
        arrays["feat"], arrays["pid"] = X, IDS
        arrays.create_dataset("cam", data=IDS, compression="gzip")


def vectors(file):
    rows = np.zeros(5, [("length", "<i4"), ("values", "<f4", 3)])
    rows["length"], rows["values"] = 3, X
    file.write(rows.tobytes())


def old_torch(file):
    torch.save({"f": torch.tensor(X)}, file, _use_new_zipfile_serialization=False)


def table(file):
    rows = [("path", "pid", "x", "y"), *(("é.jpg", str(number), "1.5", "2") for number in range(9))]
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    file.write(text.getvalue().encode())


VARIANTS = 200
GND = {"imlist": [*"abcde"] * 60, "qimlist": ["q"], "gnd": [{"bbx": [1.5], "easy": IDS, "hard": [np.int64(3)]}]}
WHOLE = {
    "a.npy": (read_samples, lambda file: np.save(file, X)),
    "a.npz": (read_samples, lambda file: np.savez(file, f=X, pid=IDS, cam=[*"abcde"])),
    "packed.npz": (read_samples, lambda file: np.savez_compressed(file, f=X, pid=IDS, utm=X)),
    "a.pt": (read_samples, lambda file: torch.save({"f": torch.tensor(X), "pid": torch.tensor(IDS)}, file)),
    "old.pth": (read_samples, old_torch),
    "a.safetensors": (read_samples, safetensors),
    "a.mat": (read_samples, lambda file: scipy.io.savemat(file, {"query_f": X, "query_label": [*IDS]})),
    "packed.mat": (read_samples, lambda file: scipy.io.savemat(file, {"f": X, "pid": IDS}, do_compression=True)),
    "a.parquet": (read_labels, parquet),
    "a.h5": (read_samples, hdf5),
    "a.fvecs": (read_samples, vectors),
    "a.txt": (read_labels, lambda file: file.write(b"path pid\na/1.jpg 3\nb/2.jpg 4\n")),
    "b.run": (read_retrieved, lambda file: file.write(b"q1 d2 1\nq1 d1 2\nq2 d1 1\n")),
    "a.csv": (read_labels, table),
    "a.run": (read_retrieved, lambda file: file.write(b"q1 Q0 d2 1 0.9 x\nq1 Q0 d1 2 -1e-3 x\n")),
    "a.json": (read_retrieved, lambda file: file.write(json.dumps({"q": {"a": 0.5, "b": 1}, "r": {}}).encode())),
    "a.pkl": (read_ground_truth, lambda file: pickle.dump(GND, file, 2)),
    "b.pkl": (read_ground_truth, lambda file: pickle.dump(GND, file, 5)),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.filterwarnings("ignore")  # of what a library finds odd in a file
def test_a_damaged_file_is_read_or_refused_in_one_line(name, tmp_path):
    read, write = WHOLE[name]
    file, rng, refused = io.BytesIO(), random.Random(name), 0  # noqa: S311 - no secret
    write(file)
    contents = file.getvalue()
    (tmp_path / name).write_bytes(contents)
    assert read(tmp_path / name)
    for variant in range(VARIANTS):
        damaged = bytearray(contents)
        if variant % 4 == 0:
            del damaged[rng.randrange(len(damaged)) :]
        else:
            for _ in range(rng.choice((1, 1, 4, 16))):
                damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        path = tmp_path / f"{variant}{name}"
        path.write_bytes(damaged)
        said, found = "", []
        try:
            found = read(path)
        except ValueError as error:
            said = str(error)
        assert "\n" not in said
        refused += bool(said)
        if read is read_samples:
            assert all(len(values) == len(file.embeddings) for file in found for values in file.labels.values())
        path.unlink()
    assert refused > VARIANTS / 8
