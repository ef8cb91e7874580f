"""`duplicates` prints the pairs of `find_duplicates`, of every kind of input that has embeddings."""

import numpy as np
import pytest

from reid_torchmetrics.tasks import find_duplicates

DICE = np.random.default_rng(0)
QUERY, GALLERY = (DICE.standard_normal((size, 4)).astype(np.float32) for size in (9, 30))
GALLERY[[3, 20]] = QUERY[[5, 5]] + np.float32(0.01)
GALLERY[7] = QUERY[2]
GALLERY[21] = GALLERY[20]


def two_files(folder):
    np.save(folder / "q.npy", QUERY)
    np.savez(folder / "train.npz", feat=GALLERY, pids=np.arange(30))
    return ["q.npy", "train.npz"]


def shards(folder):
    np.savez(folder / "q.npz", embs=QUERY, x=QUERY)
    for number, part in enumerate(np.split(GALLERY, 3)):
        np.savez(folder / f"g{number}.npz", embs=part, x=part)
    return ["q.npz", "g0.npz", "g1.npz", "g2.npz", "--names", "embeddings=embs"]


def arrays_of_both(folder):
    np.savez(folder / "both.npz", query_feat=QUERY, gallery_feat=GALLERY)
    return ["both.npz"]


def roles(folder):
    is_query = np.arange(39) % 4 == 1
    is_query[37:] = False
    rows = np.empty((39, 4), dtype=np.float32)
    rows[is_query], rows[~is_query] = QUERY, GALLERY
    np.savez(folder / "all.npz", feat=rows, is_query=is_query)
    return ["all.npz"]


def printed(found):
    title, values = ("distance", found.score.abs()) if "distance" in found.summary else ("score", found.score)
    pairs = zip(found.query.tolist(), found.gallery.tolist(), values.tolist(), strict=True)
    return [f"query,gallery,{title}", *(f"{query},{item},{value:.9g}" for query, item, value in pairs)]


@pytest.mark.parametrize("make", [two_files, shards, arrays_of_both, roles])
def test_pairs_of_both_sides_are_printed(command, tmp_path, make):
    said = command("duplicates", *make(tmp_path), "--threshold", "0.99")
    assert (said.status, said.out.splitlines()) == (0, printed(find_duplicates(QUERY, GALLERY, threshold=0.99)))
    assert said.out.splitlines()[1].startswith("2,7,")
    assert said.err.splitlines()[-1] == "4 pairs of cosine 0.99 or more: 2 of 9 queries have a near copy; groups: 2"


def test_several_files_whose_rows_are_numbered_through_are_one_line(command, tmp_path):
    line = "gallery: 3 files, g0.npz ... g2.npz in natural order, 10 rows each; rows are numbered through all files"
    assert line in command("duplicates", *shards(tmp_path)).err.splitlines()
    backwards = command("duplicates", "q.npz", "g2.npz", "g0.npz", "--names", "embeddings=embs")
    assert "gallery: 2 files, g2.npz ... g0.npz in the order given, 10 rows each" in backwards.err
    assert "files" not in command("duplicates", *two_files(tmp_path)).err
    for name, embeddings in {"x0": GALLERY[:8], "x1": GALLERY[:8] ** 3, "y": GALLERY[:8] + 1}.items():
        np.savez(tmp_path / f"{name}.npz", embeddings=embeddings, pids=np.arange(8) // 2)
    words = ["y.npz", "x0.npz", "x1.npz"]
    line = "gallery: 2 files, x0.npz ... x1.npz in natural order, 8 rows each; rows are numbered through all files"
    assert line in command("evaluate", *words, "--report", "page.html").err.splitlines()
    assert line not in command("evaluate", *words).err.splitlines()


def test_pairs_within_one_set_are_printed_by_every_option(command, tmp_path):
    two_files(tmp_path)
    options = {"threshold": 1.5, "similarity": "euclidean", "max_bytes": 5000}
    words = ["--threshold", "1.5", "--similarity", "euclidean", "--max-bytes", "5000"]
    said = command("duplicates", "train.npz", *words)
    found = find_duplicates(GALLERY, **options)
    assert said.out.splitlines() == printed(found)
    assert said.err.splitlines()[-1] == f"{found.summary}; groups: {len(found.groups())}"


@pytest.mark.parametrize("make", [shards, roles, two_files])
def test_two_processes_share_the_files_and_print_once(command, two_processes, tmp_path, make):
    words = ["duplicates", *make(tmp_path), "--threshold", "0.9"]
    words = words[:2] + words[3:] if make is two_files else words  # one set
    first, second = two_processes(*words)
    said = command(*words)
    assert (first.status, first.out) == (said.status, said.out)
    assert (second.status, second.out) == (0, "")
    assert first.err.splitlines()[-1] == said.err.splitlines()[-1]


def test_bad_rows_are_named_on_two_processes(two_processes, tmp_path):
    two_files(tmp_path)
    bad = QUERY.copy()
    bad[4, 1] = np.nan
    np.save(tmp_path / "bad.npy", bad)
    for said in two_processes("duplicates", "bad.npy", "train.npz"):
        assert (said.status, said.out) == (1, "")
        assert "bad.npy: embeddings must be finite; got 1 rows that are not, first 4." in said.err
