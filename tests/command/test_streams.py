"""`--stream` has the output of `evaluate` to the last digit, opens one file at a time, and refuses all else."""

from zipfile import ZipFile

import numpy as np
import pytest
import torch

from reid_torchmetrics.command import sample_sets
from reid_torchmetrics.functional.retrieval import RetrievalResults
from tests.profiles import each_row
from tests.strategies import SIMILARITIES_OF_ALL

NUM_QUERIES, NUM_ALL, NUM_SHARDS = 11, 240, 5
DICE = np.random.default_rng(5)
IDENTITIES = DICE.integers(-1, 9, NUM_ALL)
LABELS = {
    "pids": IDENTITIES,
    "camids": DICE.integers(0, 3, NUM_ALL),
    "clothes": DICE.integers(0, 2, NUM_ALL),
    "positions": 5e5 + 60 * DICE.random((NUM_ALL, 2)),
}
# Rounded, so that scores are equal.
EMBEDDINGS = np.round(2 + np.eye(9, 8)[IDENTITIES] + DICE.standard_normal((NUM_ALL, 8)), 1).astype(np.float32)
GALLERY = np.array_split(np.arange(NUM_QUERIES, NUM_ALL), NUM_SHARDS)


def side(rows, **others):
    return {"feat": EMBEDDINGS[rows], **{name: values[rows] for name, values in LABELS.items()}, **others}


def in_npz(path, arrays):
    np.savez(path.with_suffix(".npz"), **arrays)


def compressed(path, arrays):
    np.savez_compressed(path.with_suffix(".npz"), **arrays)


def in_torch(path, arrays):
    halves = {"feat": torch.from_numpy(arrays["feat"]).bfloat16()}
    torch.save({name: torch.from_numpy(each) for name, each in arrays.items()} | halves, path.with_suffix(".pt"))


def in_safetensors(path, arrays):
    pytest.importorskip("safetensors.numpy").save_file(
        {name: np.ascontiguousarray(each) for name, each in arrays.items()}, path.with_suffix(".safetensors")
    )


def shards(folder, write=in_npz, **others):
    """The words of queries in a file and a gallery in five."""
    np.savez(folder / "query.npz", **side(slice(0, NUM_QUERIES)))
    (folder / "gallery").mkdir(exist_ok=True)
    for number, rows in enumerate(GALLERY):
        write(folder / "gallery" / f"{number}", side(rows, **{name: values[rows] for name, values in others.items()}))
    return "query.npz", "gallery"


def assert_same(command, folder, *words):
    first = command("evaluate", *words, "--save", "results.npz")
    assert first.status == 0
    ours = ZipFile((folder / "results.npz").rename(folder / "whole.npz"))
    assert command("evaluate", *words, "--stream", "--save", "results.npz") == first
    theirs = ZipFile(folder / "results.npz")
    assert ours.namelist() == theirs.namelist()
    assert all(ours.read(name) == theirs.read(name) for name in ours.namelist())


@pytest.mark.parametrize("write", [in_npz, compressed, in_torch, in_safetensors])
@each_row("similarity", SIMILARITIES_OF_ALL)
def test_every_kind_of_file_and_similarity_gives_the_output_of_a_gallery_as_a_whole(
    command, tmp_path, monkeypatch, write, similarity
):
    monkeypatch.setattr(sample_sets, "_BLOCK_BYTES", 320)  # ten rows
    assert_same(command, tmp_path, *shards(tmp_path, write), "--similarity", similarity)


@pytest.mark.parametrize(
    "words",
    [
        ["--ties", "grouped", "--decimals", "5"],
        ["--ties", "expected", "--format", "csv"],
        ["--ties", "optimistic", "--max-bytes", "900"],
        ["--protocol", "pitts30k", "--radius", "9"],
        ["--protocol", "ltcc_cc"],
        ["--same-camera", "all", "--json", "-"],
        ["--search-cameras", "1", "2", "--camera-map", '{"1": 2}'],
        ["--junk-identities", "3", "4", "--empty-target-action", "neg"],
        ["--reports", "map", "ndcg_5", "--pictures", "figures"],
    ],
)
def test_options_mean_what_they_mean_without_it(command, tmp_path, words):
    assert_same(command, tmp_path, *shards(tmp_path), *words)


def test_labels_may_be_names_in_a_table(command, tmp_path):
    for number, rows in enumerate([np.arange(NUM_QUERIES), *GALLERY]):
        np.save(tmp_path / f"{'g' if number else 'q'}{number}.npy", EMBEDDINGS[rows])
    rows = (f"person {identity},{camera}" for identity, camera in zip(IDENTITIES, LABELS["camids"], strict=True))
    (tmp_path / "labels.csv").write_text("\n".join(["pid,camid", *rows]), encoding="utf-8")
    for words in ([], ["--stream"]):
        said = command("evaluate", "q0.npy", "g*.npy", "--labels", "labels.csv", "--save", f"{len(words)}.npz", *words)
        assert said.status == 0, said.err
    ours, theirs = (RetrievalResults.load(tmp_path / f"{number}.npz") for number in (0, 1))
    assert ours.to_frame().equals(theirs.to_frame())  # with names; their numbers differ


def test_the_length_of_the_curve_is_that_of_one_call(command, tmp_path):
    words = shards(tmp_path)
    np.savez(tmp_path / "whole.npz", **side(slice(NUM_QUERIES, NUM_ALL)))
    command("evaluate", "query.npz", "whole.npz", "--max-rank", "7", "--save", "a.npz")
    assert command("evaluate", *words, "--stream", "--max-rank", "7", "--save", "b.npz").status == 0
    ours, theirs = (RetrievalResults.load(tmp_path / name) for name in ("a.npz", "b.npz"))
    assert ours.cmc.equal(theirs.cmc)
    assert len(ours.cmc) == 7


def test_one_file_is_open_at_a_time(command, tmp_path):
    resource = pytest.importorskip("resource")
    words = shards(tmp_path)
    for number, row in enumerate(np.arange(NUM_QUERIES, NUM_ALL)):
        np.savez(tmp_path / "gallery" / f"{number}.npz", **side([row, row]))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, limits[1]))
    try:
        assert "Too many open files" in command("evaluate", *words).err
        assert command("evaluate", *words, "--stream").status == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("name", ["index", "groups"])
def test_labels_that_need_the_items_are_refused(command, tmp_path, name):
    said = command("evaluate", *shards(tmp_path, **{name: np.arange(NUM_ALL)}), "--stream")
    assert f"`--stream` must come without `{name}`, as it drops " in said.err
    assert said.status == 1


def test_protocols_that_need_the_items_and_files_without_a_gallery_are_refused(command, tmp_path):
    query, gallery = shards(tmp_path)
    for words, why in (
        (["--protocol", "prcc_single_shot"], "draws galleries"),
        (["--cmc-same-camera", "all"], "has two"),
    ):
        said = command("evaluate", query, gallery, "--stream", *words)
        assert said.status == 1
        assert f", which {why}." in said.err
    assert "must come with the files of a gallery; got none." in command("evaluate", query, "--stream").err
    np.savez(tmp_path / "d.npz", distmat=EMBEDDINGS, q_pids=IDENTITIES, g_pids=np.arange(8))
    assert "must come without `--distances`" in command("evaluate", "d.npz", "d.npz", "--stream").err


def broken(folder):
    """A gallery with NaN in its last file."""
    words = shards(folder)
    last = side(GALLERY[-1])
    in_npz(folder / "gallery" / "4", {**last, "feat": np.where(np.arange(8) == 3, np.nan, last["feat"])})
    return words


BAD_ROWS = f"gallery/4.npz: embeddings must be finite; got {len(GALLERY[-1])} rows that are not, first 0.\n"


def test_a_file_with_bad_rows_is_named(command, tmp_path):
    assert command("evaluate", *broken(tmp_path), "--stream").err.endswith(f"reid-torchmetrics: {BAD_ROWS}")


def test_two_processes_print_once_what_one_prints(command, two_processes, tmp_path):
    words = ["evaluate", *shards(tmp_path), "--similarity", "euclidean", "--json", "-"]
    assert [said.out for said in two_processes(*words, "--stream")] == [command(*words).out, ""]


@pytest.mark.slow
def test_an_error_of_one_process_ends_both(two_processes, tmp_path):
    both = two_processes("evaluate", *broken(tmp_path), "--stream")
    assert [(said.status, said.out) for said in both] == [(1, ""), (1, "")]
    assert all(f"reid-torchmetrics: {BAD_ROWS}" in said.err for said in both)
