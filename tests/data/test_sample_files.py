"""Files of embeddings: what libraries write is what is read, mapped where it can be, under the names of the field."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torch

from reid_torchmetrics.data import read_labels, read_samples
from reid_torchmetrics.data.array_names import FIELD_NAMES, MATRICES
from reid_torchmetrics.data.foreign_forms import Unread
from reid_torchmetrics.data.mat_files import read_mat
from reid_torchmetrics.functional.retrieval import evaluate
from reid_torchmetrics.functional.retrieval.relevance import LABELS

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 4)).astype(np.float32)
IDS, CAMERAS = np.array([3, -1, 0, 3, 5, 5, 0]), np.array([1, 2, 3, 1, 2, 3, 1])
WIDE = RNG.normal(size=(4096, 256)).astype(np.float32)  # 4 MiB


def safetensors_file(path, tensors):
    pytest.importorskip("safetensors.torch").save_file(tensors, path)


WRITERS = {
    "own.npz": lambda path: np.savez(path, embeddings=X, identities=IDS, cameras=CAMERAS),
    "hashing.npz": lambda path: np.savez(path, codes=X, labels=IDS, cams=CAMERAS),
    "small.npz": lambda path: np.savez_compressed(path, feat=X, pids=IDS.astype(np.int32), camids=CAMERAS),
    "fortran.npz": lambda path: np.savez(path, qf=np.asfortranarray(X), q_pids=IDS, q_camids=CAMERAS.astype(np.uint8)),
    "reid.pt": lambda path: torch.save(
        {"features": torch.tensor(X, requires_grad=True), "pids": torch.tensor(IDS), "camids": [*CAMERAS.tolist()]},
        path,
    ),
    "before_1_6.pth": lambda path: torch.save(
        {"feats": torch.tensor(X), "labels": torch.tensor(IDS).float(), "cams": torch.tensor(CAMERAS), "epoch": 60},
        path,
        _use_new_zipfile_serialization=False,
    ),
    "reid.safetensors": lambda path: safetensors_file(
        path, {"emb": torch.tensor(X), "id": torch.tensor(IDS), "camera_id": torch.tensor(CAMERAS)}
    ),
    "result.mat": lambda path: scipy.io.savemat(path, {"x": X, "label": IDS, "cam": CAMERAS, "note": "text", "z": 1j}),
    "packed.mat": lambda path: scipy.io.savemat(path, {"f": X, "id": IDS, "cam": CAMERAS}, do_compression=True),
}


@pytest.mark.parametrize("name", WRITERS)
def test_written_values_are_read_again(name, tmp_path):
    WRITERS[name](tmp_path / name)
    (file,) = read_samples(tmp_path / name)
    assert file.path == str(tmp_path / name)
    assert isinstance(file.embeddings, np.ndarray)
    assert (file.embeddings.dtype, file.embeddings.tolist()) == (np.float32, X.tolist())
    assert {key: values.dtype for key, values in file.labels.items()} == dict.fromkeys(
        ("identities", "cameras"), np.int64
    )
    assert (file.labels["identities"].tolist(), file.labels["cameras"].tolist()) == (IDS.tolist(), CAMERAS.tolist())


MATLABS_OWN = sorted((Path(scipy.io.__file__).parent / "matlab/tests/data").glob("*_[567].*.mat"))
NOT_REAL = ("sparse", "complex", "hdf5", "multi")


@pytest.mark.skipif(not MATLABS_OWN, reason="SciPy is installed without its tests")
@pytest.mark.filterwarnings("ignore")  # of SciPy
def test_files_that_matlab_wrote_are_read_as_scipy_reads_them():
    num_arrays = num_texts = 0
    for path in MATLABS_OWN:
        if not any(each in path.name for each in NOT_REAL):
            theirs = {name: values for name, values in scipy.io.loadmat(path).items() if not name.startswith("__")}
            ours = {name: values for name, values in read_mat(path).items() if not isinstance(values, Unread)}
            texts = {name: ours.pop(name) for name in [*ours] if ours[name].dtype.kind == "U"}
            assert all(values.tolist() == texts_of(theirs[name]) for name, values in texts.items())
            num_texts += len(texts)
            numbers = {name: values for name, values in theirs.items() if values.dtype.kind in "iuf"}
            assert ours.keys() == numbers.keys()
            assert all(np.array_equal(ours[name], values) for name, values in numbers.items())
            assert all(values.dtype.kind == "f" for values in ours.values())  # SciPy reads whole ones as integers
            num_arrays += len(ours)
    assert (num_arrays > 10, num_texts) == (True, 4)


def texts_of(values):
    """Texts as SciPy returns them: with blanks behind those of a matrix of characters, and in cells."""
    cells = values.ravel("F").tolist()
    return [str(cell.item() if isinstance(cell, np.ndarray) else cell).rstrip() for cell in cells]


def test_values_without_a_reader_are_named_with_their_types(tmp_path):
    cells = np.array(["a", 1], dtype=object)
    scipy.io.savemat(tmp_path / "side.mat", {"query": {"feat": X}, "label": cells})
    with pytest.raises(ValueError, match="got none, and without a reader `query`, a structure, `label`, a cell array"):
        read_samples(tmp_path / "side.mat")
    scipy.io.savemat(tmp_path / "named.mat", {"feat": X, "label": cells})
    assert read_samples(tmp_path / "named.mat")[0].guesses[1:] == (
        f"{tmp_path / 'named.mat'}: `label` is passed over, a cell array",
    )
    with pytest.raises(ValueError, match="got feat, and without a reader `label`, a cell array"):
        read_labels(tmp_path / "named.mat")


def test_a_guess_is_said(tmp_path):
    np.savez(tmp_path / "guessed.npz", feat=X, identities=IDS, Camera_ID=CAMERAS)
    np.save(tmp_path / "alone.npy", X)
    path = tmp_path / "guessed.npz"
    assert read_samples(path)[0].guesses == (f"{path}: `feat` as embeddings", f"{path}: `Camera_ID` as cameras")
    assert read_samples(path, names={"embeddings": "feat", "cameras": "Camera_ID"})[0].guesses == ()
    assert read_samples(tmp_path / "alone.npy")[0].guesses == ()


def test_a_folder_of_arrays_by_name_is_one_file(tmp_path):
    for name, values in {"features": X, "Pids": IDS, "camids": CAMERAS, "note": X[0]}.items():
        np.save(tmp_path / f"{name}.npy", values)
    (file,) = read_samples(tmp_path)
    assert (file.embeddings.tolist(), file.labels["cameras"].tolist()) == (X.tolist(), CAMERAS.tolist())
    assert file.guesses[1] == f"{tmp_path}: `Pids` as identities"
    assert read_labels(tmp_path)["identities"].tolist() == IDS.tolist()


def test_a_folder_is_of_shards_unless_an_array_is_called_like_a_label(tmp_path):
    for name in ("0", "1"):
        np.save(tmp_path / f"{name}.npy", X)
    assert [len(each.embeddings) for each in read_samples(tmp_path)] == [7, 7]
    np.save(tmp_path / "zoo.npy", IDS)
    (file,) = read_samples(tmp_path, names={"embeddings": "1", "identities": "zoo"})
    assert file.labels["identities"].tolist() == IDS.tolist()


@pytest.mark.parametrize(("name", "kind"), [("distmat", "distances"), ("sims", "scores"), ("D", "distances")])
def test_distances_and_scores_are_read_for_each_side(tmp_path, name, kind):
    matrix = X[:3] @ X[3:].T
    np.savez(tmp_path / "d.npz", q_pids=IDS[:3], g_pids=IDS[3:], **{name: matrix})
    names = {kind: name} if name == "D" else {}
    query, gallery = (read_samples(tmp_path / "d.npz", role=role, names=names)[0] for role in ("query", "gallery"))
    assert (query.kind, query.embeddings.tolist()) == (kind, matrix.tolist())
    assert (gallery.kind, gallery.embeddings.tolist()) == (kind, matrix.T.tolist())
    assert gallery.labels["identities"].tolist() == IDS[3:].tolist()


def test_embeddings_count_beside_scores_unless_these_are_asked_for(tmp_path):
    np.savez(tmp_path / "a.npz", feat=X, scores=X[:, :1], sims=X)
    assert read_samples(tmp_path / "a.npz")[0].kind == "embeddings"
    with pytest.raises(ValueError, match="one array must be the embeddings, distances or scores by its name"):
        read_samples(tmp_path / "a.npz", names={"scores": "sims"})


def test_every_label_has_names_and_no_name_has_two_meanings():
    labels = [name for name, label in LABELS.items() if not label.is_extra]
    assert FIELD_NAMES.keys() == {*MATRICES, *labels, "roles", "names"}
    assert all(key in names.split() for key, names in FIELD_NAMES.items())
    every = [prefix + name for names in FIELD_NAMES.values() for name in names.split() for prefix in ("", "q", "g")]
    assert len({*every}) == len(every)


def test_a_file_of_both_sides_has_roles(tmp_path):
    """As layumi's test.py writes it: labels are lists, which MATLAB's files hold as rows."""
    path, half = tmp_path / "pytorch_result.mat", {"query": slice(3), "gallery": slice(3, None)}
    columns = {"f": X, "label": IDS, "cam": CAMERAS}
    scipy.io.savemat(path, {f"{side}_{name}": c[rows] for side, rows in half.items() for name, c in columns.items()})
    query, gallery = (read_samples(path, role=role)[0] for role in half)
    assert query.labels["identities"].tolist() == IDS[:3].tolist()
    assert gallery.labels["identities"].tolist() == IDS[3:].tolist()
    assert (query.embeddings.tolist(), gallery.embeddings.tolist()) == (X[:3].tolist(), X[3:].tolist())
    assert gallery.guesses[1] == f"{path}: `gallery_label` as identities"


def test_names_say_what_cannot_be_guessed(tmp_path):
    np.savez(tmp_path / "mine.npz", a=X, b=X * 2, who=IDS, label=CAMERAS)
    (file,) = read_samples(tmp_path / "mine.npz", names={"embeddings": "b", "identities": "who"})
    assert file.embeddings.tolist() == (X * 2).tolist()
    assert {key: values.tolist() for key, values in file.labels.items()} == {"identities": IDS.tolist()}


def test_all_labels_are_read(tmp_path):
    places = RNG.normal(size=(7, 2)).astype(np.float32)
    labels = {"tracks": IDS, "clothid": CAMERAS, "utm": places, "place": IDS, "idx": np.arange(7)}
    np.savez(tmp_path / "all.npz", feats=X, pid=np.array([*"abcabc-"]), **labels)
    read = read_samples(tmp_path / "all.npz")[0].labels
    assert read.keys() == LABELS.keys() - {"cameras", "labels"}
    assert read["identities"].tolist() == [*"abcabc-"]
    assert (read["positions"].dtype, read["positions"].tolist()) == (np.float64, places.tolist())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_dtype_stays(dtype, tmp_path):
    torch.save(torch.tensor(X).to(dtype), tmp_path / "x.pt")
    safetensors_file(tmp_path / "x.safetensors", {"f": torch.tensor(X).to(dtype)})
    for name in ("x.pt", "x.safetensors"):
        values = torch.as_tensor(read_samples(tmp_path / name)[0].embeddings)
        assert (values.dtype, values.tolist()) == (dtype, torch.tensor(X).to(dtype).tolist())


MAPPED = {
    "wide.npy": lambda path: np.save(path, WIDE),
    "half.npz": lambda path: np.savez(path, pid=np.zeros(len(WIDE), np.int64), feature=np.tile(WIDE.astype("f2"), 2)),
    "wide.mat": lambda path: scipy.io.savemat(path, {"f": WIDE}),
    "wide.pt": lambda path: torch.save({"f": torch.tensor(WIDE)}, path),
    "wide.safetensors": lambda path: safetensors_file(path, {"f": torch.tensor(WIDE)}),
}


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux")
@pytest.mark.parametrize("name", MAPPED)
def test_embeddings_are_mapped_and_not_copied(name, tmp_path):
    MAPPED[name](tmp_path / name)
    before = allocated()
    tracemalloc.start()
    (file,) = read_samples(tmp_path / name)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert file.embeddings.nbytes == WIDE.nbytes
    assert peak < WIDE.nbytes / 8
    assert allocated() - before < WIDE.nbytes / 2
    assert any(line.endswith(name) for line in mapped_files())


def allocated():
    """Bytes of anonymous memory, of any library."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def mapped_files():
    return Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()


def test_a_map_gives_the_bits_of_the_array(tmp_path):
    """An array in an archive begins at any byte, here at an odd one."""
    np.savez(tmp_path / "odd.npz", f=WIDE)
    mapped = read_samples(tmp_path / "odd.npz")[0].embeddings
    labels = np.arange(len(WIDE)) % 50
    assert isinstance(mapped, np.memmap)
    assert not mapped.flags.aligned
    theirs, ours = (evaluate(x[:200], x[200:], labels[:200], labels[200:]) for x in (WIDE, mapped))
    assert torch.equal(theirs.per_query["map"], ours.per_query["map"])
    assert theirs.means == ours.means


def test_shards_are_in_natural_order(tmp_path):
    folder = tmp_path / "ein Ordner: [1] ü"
    folder.mkdir()
    for number in (10, 2, 1):
        np.savez(folder / f"gallery-{number}.npz", f=X * number, pid=IDS)
    np.save(folder / "query.npy", X)
    (folder / "labels.csv").write_text("pid\n1\n", encoding="utf-8")
    shards = read_samples(tmp_path / "*" / "gallery-*.npz")
    assert [file.embeddings[0, 0] / X[0, 0] for file in shards] == [1, 2, 10]
    assert [file.path for file in shards] == [str(folder / f"gallery-{number}.npz") for number in (1, 2, 10)]
    (folder / "query.npy").unlink()
    assert [file.path for file in read_samples(folder)] == [file.path for file in shards]
    in_my_order = [shards[2].path, shards[0].path]
    assert [file.path for file in read_samples(in_my_order)] == in_my_order


def test_a_file_is_opened_again_for_each_look_at_its_rows(tmp_path):
    np.savez(tmp_path / "g.npz", f=X, pid=IDS)
    (file,) = read_samples(tmp_path / "g.npz", reopen=True)
    assert (len(file.embeddings), file.embeddings.shape, file.embeddings.dtype) == (7, (7, 4), np.float32)
    np.savez(tmp_path / "g.npz", f=X + 1, pid=IDS + 1)
    assert np.array_equal(file.embeddings[2:5], X[2:5] + 1)
    assert np.array_equal(file.labels["identities"], IDS)


@pytest.mark.parametrize("kind", ["distances", "scores"])
def test_a_matrix_alone_is_what_it_is_said_to_be(tmp_path, kind):
    np.save(tmp_path / "a.npy", X)
    query, gallery = (read_samples(tmp_path / "a.npy", role=role, kind=kind)[0] for role in ("query", "gallery"))
    assert (query.kind, query.embeddings.tolist()) == (kind, X.tolist())
    assert (gallery.kind, gallery.embeddings.tolist()) == (kind, X.T.tolist())
    assert isinstance(query.embeddings, np.memmap)


def test_a_matrix_of_one_row_is_one_also_beside_rows_of_labels(tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", {"D": np.ones((2, 3)), "who": [1, 2], "when": [1, 2, 3]})
    (file,) = read_samples(tmp_path / "a.mat", kind="distances")
    assert (file.embeddings.shape, file.guesses) == ((2, 3), (f"{tmp_path / 'a.mat'}: `D` as distances",))
    np.savez(tmp_path / "one.npz", D=np.ones((1, 3)))
    assert read_samples(tmp_path / "one.npz", kind="distances")[0].embeddings.shape == (1, 3)


def test_several_matrices_need_a_name(tmp_path):
    np.savez(tmp_path / "a.npz", one=X, two=X)
    with pytest.raises(ValueError, match=r"a.npz: one array must be the distances by its name, .*; got `one`, `two`\."):
        read_samples(tmp_path / "a.npz", kind="distances")
    named = read_samples(tmp_path / "a.npz", kind="distances", names={"distances": "two"})
    assert named[0].kind == "distances"
    with pytest.raises(ValueError, match=r"`kind` must be one of 'embeddings', 'distances', 'scores'; got 'distmat'"):
        read_samples(tmp_path / "a.npz", kind="distmat")


@pytest.mark.parametrize("reopen", [False, True])
def test_files_of_one_sample_each_are_one_file_with_their_names(tmp_path, reopen):
    embeddings = np.arange(12.0).reshape(4, 3)
    for row, place in enumerate(["b/x.jpg", "a/x.jpg", "a/10.jpg", "a/9.jpg"]):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        np.savez(tmp_path / f"{place}.npz", feat=embeddings[row], pid=row)
    (file,) = read_samples(tmp_path / "**" / "*.npz", reopen=reopen)
    assert file.path == str(tmp_path)
    assert file.names.tolist() == ["a/9.jpg", "a/10.jpg", "a/x.jpg", "b/x.jpg"]
    assert np.array_equal(file.embeddings, embeddings[[3, 2, 1, 0]])
    assert file.labels["identities"].tolist() == [3, 2, 1, 0]


def test_files_of_one_sample_in_the_current_folder_have_it_as_their_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        np.save(f"{name}.npy", np.zeros(3))
    (file,) = read_samples("*.npy")
    assert (file.path, file.names.tolist()) == (".", ["a", "b"])


def test_files_of_one_sample_may_be_named_by_relative_and_absolute_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").mkdir()
    for name in "ab":
        np.save(f"x/{name}.npy", np.zeros(3))
    (file,) = read_samples(["x/a.npy", tmp_path / "x" / "b.npy"])
    assert (file.path, file.names.tolist()) == (str(tmp_path / "x"), ["a", "b"])


def test_a_file_of_one_sample_alone_must_have_two_dimensions(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3))
    with pytest.raises(ValueError, match=r"a.npy: `embeddings` must have shape \[N, D\]; got \[3\]"):
        read_samples(tmp_path / "a.npy")
    np.save(tmp_path / "b.npy", np.zeros((1, 4)))
    with pytest.raises(ValueError, match=r"b.npy: a shard must have the form of .*a.npy"):
        read_samples(tmp_path)
