"""`evaluate --distances` and `--scores`: a matrix and label files give the numbers of the function.

Two queries of identities 1 and 2, three gallery items of identities 1, 2 and 1:

    distances   1 2 3    the positives of the first query are at ranks 1 and 3: (1/1 + 2/3) / 2 = 5/6
                1 3 2    that of the second is at rank 3: 1/3, so that mAP is 7/12
    the same as scores   ranks 1 and 3, 5/6; rank 1, 1: mAP is 11/12
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from reid_torchmetrics import evaluate_scores

MATRIX = np.array([[1.0, 2.0, 3.0], [1.0, 3.0, 2.0]])
QUERY_IDENTITIES, GALLERY_IDENTITIES = [1, 2], [1, 2, 1]
MAP = {"distances": 7 / 12, "scores": 11 / 12}
SAME_CAMERA = ["--same-camera", "keep"]


def write_lines(path, header, values):
    lines = [*([header] if header else []), *map(str, values)]
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    """A folder with the labels of the example in every form."""
    monkeypatch.chdir(tmp_path)
    for side, identities in (("q", QUERY_IDENTITIES), ("g", GALLERY_IDENTITIES)):
        write_lines(f"{side}.csv", "pid", identities)
        write_lines(f"{side}.txt", "", identities)
        np.save(f"{side}.npy", np.array(identities))
    write_lines("both.csv", "pid", [*QUERY_IDENTITIES, *GALLERY_IDENTITIES])
    np.save("distmat.npy", MATRIX)
    return tmp_path


def numbers(printed):
    assert printed.status == 0, printed.err
    return {name: row["value"] for name, row in json.loads(printed.out)["measures"].items()}


def save_npy(matrix):
    np.save("matrix.npy", matrix)
    return "matrix.npy"


def save_compressed(matrix):
    np.savez_compressed("matrix.npz", D=matrix, epoch=3)
    return "matrix.npz"


SAVES = [save_npy, save_compressed]


@pytest.mark.usefixtures("in_folder")
@pytest.mark.parametrize("save", SAVES)
@pytest.mark.parametrize("kind", MAP)
def test_a_matrix_alone_is_evaluated_from_every_kind_of_file(command, save, kind):
    words = [f"--{kind}", save(MATRIX), "--labels", "q.csv", "g.csv", *SAME_CAMERA, "--json", "-"]
    assert numbers(command("evaluate", *words))["map"] == pytest.approx(MAP[kind], abs=1e-12)


@pytest.mark.parametrize("name", ["distances", "distmat", "dist", "distance_matrix"])
def test_a_matrix_is_found_by_its_name_among_other_arrays(command, in_folder, name):
    np.savez(in_folder / "all.npz", **{name: MATRIX}, features=np.eye(3), q_pids=[1, 2], g_pids=[1, 2, 1])
    found = numbers(command("evaluate", "--distances", "all.npz", *SAME_CAMERA, "--json", "-"))
    assert found["map"] == pytest.approx(7 / 12, abs=1e-12)
    np.savez(in_folder / "two.npz", **{name: MATRIX}, scores=-MATRIX, mine=MATRIX[::-1])
    words = ["--labels", "q.csv", "g.csv", *SAME_CAMERA, "--json", "-"]
    found = numbers(command("evaluate", "--distances", "two.npz", *words))
    assert found["map"] == pytest.approx(7 / 12, abs=1e-12)
    # Rows exchanged: 1/2 for an only positive at rank 2 of the last query's row, and (1/1 + 2/2) / 2 of the other.
    printed = command("evaluate", "--distances", "two.npz", "--names", "distances=mine", *words)
    assert numbers(printed)["map"] == pytest.approx((1 + 1 / 2) / 2, abs=1e-12)


def test_a_column_of_roles_tells_the_rows_of_a_table_apart(command, in_folder):
    rows = ["pid,split", "1,gallery", "1,query", "2,gallery", "2,query", "1,gallery"]
    (in_folder / "mixed.csv").write_text("\n".join(rows), encoding="utf-8")
    words = ["--labels", "mixed.csv", *SAME_CAMERA, "--json", "-"]
    assert numbers(command("evaluate", "--distances", "distmat.npy", *words))["map"] == pytest.approx(7 / 12, abs=1e-12)
    # All five items against all: the same distances at the queries' rows and the gallery items' columns.
    square = np.full((5, 5), 9.0)
    square[np.ix_([1, 3], [0, 2, 4])] = MATRIX
    np.save(in_folder / "square.npy", square)
    assert numbers(command("evaluate", "--distances", "square.npy", *words))["map"] == pytest.approx(7 / 12, abs=1e-12)


def test_lists_of_positives_replace_labels(command, in_folder):
    (in_folder / "truth.json").write_text("[[0, 2], [1]]", encoding="utf-8")
    words = ["--ground-truth", "truth.json", "--protocol", "sop", "--no-leave-one-out", "--reports", "map"]
    printed = command("evaluate", "--distances", "distmat.npy", *words, "--json", "-")
    assert numbers(printed)["map"] == pytest.approx(7 / 12, abs=1e-12)


SQUARE = np.array([[0.0, 1.0, 2.0, 3.0], [1.0, 0.0, 3.0, 2.0], [2.0, 1.0, 0.0, 3.0], [1.0, 2.0, 3.0, 0.0]])
SET = [1, 1, 2, 2]
# Of the others the positive of each item is at rank 1, 1, 3 and 3.
MAP_OF_SET = (1 + 1 + 1 / 3 + 1 / 3) / 4


@pytest.fixture
def of_set(in_folder):
    """A square matrix of four items, with their labels."""
    np.save(in_folder / "square.npy", SQUARE)
    write_lines(in_folder / "set.csv", "pid", SET)
    write_lines(in_folder / "set.txt", "", SET)
    np.savez(in_folder / "square.npz", distmat=SQUARE, pids=SET)


@pytest.mark.usefixtures("of_set")
@pytest.mark.parametrize(
    "words",
    [
        ["--distances", "square.npy", "--labels", "set.csv"],
        ["--distances", "square.npy", "--labels", "identities=set.txt"],
        ["--distances", "square.npz"],
        ["square.npz"],
    ],
)
@pytest.mark.parametrize(
    "protocol", [["--protocol", "market1501", *SAME_CAMERA], ["--protocol", "sop", "--reports", "map"]]
)
def test_one_set_of_labels_for_a_square_matrix_searches_each_item_among_the_others(command, words, protocol):
    printed = command("evaluate", *words, *protocol, "--json", "-")
    assert numbers(printed)["map"] == pytest.approx(MAP_OF_SET, abs=1e-12)
    assert "one set of labels for a square matrix: each item is searched among all others" in printed.err


@pytest.mark.usefixtures("of_set")
def test_a_protocol_of_leave_one_out_takes_labels_of_both_sides_of_a_square_matrix(command):
    words = ["--protocol", "sop", "--reports", "map", "--json", "-"]
    printed = command("evaluate", "--distances", "square.npy", "--labels", "set.csv", "set.csv", *words)
    assert numbers(printed)["map"] == pytest.approx(MAP_OF_SET, abs=1e-12)
    printed = command("evaluate", "--distances", "distmat.npy", "--labels", "q.csv", "g.csv", *words)
    assert "distmat.npy: `distances` must be square under protocol " in printed.err
    assert "got [2, 3]." in printed.err


def test_labels_of_both_sides_of_a_square_matrix_are_two_sets(command, in_folder):
    # No item is left out, since two files of labels are about two sets of items.
    write_lines(in_folder / "set.csv", "pid", SET)
    np.save(in_folder / "square.npy", SQUARE)
    words = ["--labels", "set.csv", "set.csv", *SAME_CAMERA, "--json", "-"]
    printed = command("evaluate", "--distances", "square.npy", *words)
    assert numbers(printed) == evaluate_scores(None, SET, SET, distances=SQUARE, same_camera="keep").means


@pytest.mark.parametrize("suffix", ["csv", "txt", "npy"])
def test_persons_with_cameras_give_the_numbers_of_the_function(command, in_folder, suffix):
    random = np.random.default_rng(9)
    labels = {"q": random.integers(0, [25, 4], (60, 2)), "g": random.integers(0, [25, 4], (400, 2))}
    distances = random.random((60, 400)).astype(np.float32)
    np.save(in_folder / "dist.npy", distances)
    fields = []
    for side, values in labels.items():
        for name, column in zip(("identities", "cameras"), values.T, strict=True):
            np.save(in_folder / f"{side}_{name}.npy", column)
            write_lines(in_folder / f"{side}_{name}.txt", "", column)
            fields.append(f"{name}={side}_{name}.{suffix}")
        rows = [f"{identity},{camera}" for identity, camera in values]
        write_lines(in_folder / f"{side}.csv", "pid,camid", rows)
    words = ["q.csv", "g.csv"] if suffix == "csv" else fields
    printed = command(
        "evaluate", "--distances", "dist.npy", "--labels", *words, "--protocol", "market1501", "--json", "-"
    )
    (query, query_cameras), (gallery, gallery_cameras) = (values.T for values in labels.values())
    expected = evaluate_scores(None, query, gallery, query_cameras, gallery_cameras, distances=distances)
    assert numbers(printed) == expected.means


@pytest.mark.usefixtures("in_folder")
@pytest.mark.parametrize(
    "labels", [["q.csv", "g.csv"], ["identities=q.txt", "identities=g.txt"]], ids=["tables", "lines"]
)
def test_a_transposed_matrix_is_said_to_be_transposed(command, labels):
    np.save("transposed.npy", MATRIX.T)
    printed = command("evaluate", "--distances", "transposed.npy", "--labels", *labels)
    assert printed.status == 1
    rule = "`distances` must have shape [2, 3], a row for each query and a column for each gallery item of "
    assert f"transposed.npy: {rule}" in printed.err
    assert "; got [3, 2], which is transposed." in printed.err


def test_a_transposed_matrix_beside_its_labels_in_a_file_is_said_to_be_transposed(command, in_folder):
    np.savez(in_folder / "t.npz", distmat=MATRIX.T, q_pids=[1, 2], g_pids=[1, 2, 1])
    printed = command("evaluate", "--distances", "t.npz", *SAME_CAMERA)
    assert "t.npz: `distmat` must have a row for each query and a column for each gallery item" in printed.err
    assert "got shape [3, 2], which is transposed, as `q_pids` has 2 values." in printed.err


def test_a_matrix_of_another_shape_is_refused_with_both_shapes(command, in_folder):
    np.save(in_folder / "large.npy", np.zeros((2, 4)))
    printed = command("evaluate", "--scores", "large.npy", "--labels", "q.csv", "g.csv")
    assert "`scores` must have shape [2, 3], a row for each query and a column for each" in printed.err
    assert "got [2, 4]." in printed.err
    printed = command("evaluate", "--scores", "large.npy", "--labels", "both.csv")
    assert (
        "both.csv: there must be a row for each of 2 queries and 4 gallery items of the matrix; got 5." in printed.err
    )


def test_a_name_that_says_scores_is_no_matrix_of_distances(command, in_folder):
    np.savez(in_folder / "sims.npz", similarity=MATRIX)
    words = ["--labels", "q.csv", "g.csv", *SAME_CAMERA, "--json", "-"]
    printed = command("evaluate", "--distances", "sims.npz", *words)
    assert printed.status == 1
    assert "sims.npz: one array must be the distances by its name, or by `--names distances=NAME`" in printed.err
    printed = command("evaluate", "--distances", "sims.npz", "--names", "distances=similarity", *words)
    assert numbers(printed)["map"] == pytest.approx(7 / 12, abs=1e-12)


def test_a_matrix_that_is_taken_for_embeddings_gets_a_remedy(command, in_folder):
    printed = command("evaluate", "distmat.npy", "--labels", "q.csv", "g.csv")
    assert printed.status == 1
    assert "A matrix of distances is given by `--distances distmat.npy`, of scores by `--scores`." in printed.err


def test_rows_with_nan_are_named_with_their_file(command, in_folder):
    matrix = MATRIX.copy()
    matrix[1, 2] = np.nan
    np.save(in_folder / "nan.npy", matrix)
    printed = command("evaluate", "--distances", "nan.npy", "--labels", "q.csv", "g.csv", *SAME_CAMERA)
    assert printed.status == 1
    assert "nan.npy: distances must not be NaN; got 1 rows with NaN, first 1." in printed.err


def test_five_captions_of_an_image_are_numbered(command, in_folder):
    random = np.random.default_rng(2)
    scores = random.random((4, 20))
    np.save(in_folder / "scores.npy", scores)
    words = ["--captions", "5", "--protocol", "flickr30k", "--json", "-"]
    expected = evaluate_scores(scores, np.arange(4), np.arange(20) // 5, protocol="flickr30k")
    assert numbers(command("evaluate", "--scores", "scores.npy", *words)) == expected.means


MEASURE = """
import sys
from pathlib import Path
from reid_torchmetrics.command import main
import reid_torchmetrics.command.evaluate, torch

def anonymous():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
import threading
torch.set_num_threads(1)
peak, before, done = 0, anonymous(), threading.Event()
def watch():
    global peak
    while not done.wait(0.002):
        peak = max(peak, anonymous())
thread = threading.Thread(target=watch)
thread.start()
status = main(sys.argv[1:])
done.set()
thread.join()
print((peak - before) // 1024, file=sys.stderr)
sys.exit(status)
"""


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_a_mapped_matrix_is_not_loaded(in_folder):
    num_queries, num_items = 1_000, 60_000  # 229 MiB
    random = np.random.default_rng(0)
    matrix = np.lib.format.open_memmap("large.npy", mode="w+", dtype=np.float32, shape=(num_queries, num_items))
    for row in range(num_queries):
        matrix[row] = random.random(num_items, dtype=np.float32)
    matrix.flush()
    np.save("lq.npy", random.integers(0, 500, num_queries))
    np.save("lg.npy", random.integers(0, 500, num_items))
    words = ["evaluate", "--distances", "large.npy", "--labels", "lq.npy", "lg.npy", *SAME_CAMERA]
    words += ["--max-bytes", str(1 << 24)]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *words], check=False, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stderr.splitlines()[-1]) < 115


@pytest.mark.usefixtures("in_folder")
@pytest.mark.parametrize("names", [("0", "1", "2"), ("first", "second", "third"), ("g0", "g1", "g2")])
def test_a_table_with_names_of_rows_and_columns_is_joined_to_labels_by_name(command, names):
    rows = [[f"q{row}", *values] for row, values in enumerate(MATRIX)]
    write_lines("matrix.csv", ",".join(["", *names]), [",".join(map(str, row)) for row in rows])
    write_lines("q_named.csv", "name,pid", [f"q{row},{QUERY_IDENTITIES[row]}" for row in (1, 0)])
    order = (2, 0, 1) if names[0] != "0" else (0, 1, 2)  # numbers are no names
    write_lines("g_named.csv", "name,pid", [f"{names[row]},{GALLERY_IDENTITIES[row]}" for row in order])
    words = ["--labels", "q_named.csv", "g_named.csv", *SAME_CAMERA, "--json", "-"]
    assert numbers(command("evaluate", "--distances", "matrix.csv", *words))["map"] == pytest.approx(7 / 12, abs=1e-12)


@pytest.mark.usefixtures("in_folder")
@pytest.mark.parametrize(("kind", "name"), [("distances", "cosine"), ("scores", "dist_matrix"), ("scores", "l2")])
def test_a_matrix_whose_name_says_the_opposite_is_refused(command, kind, name):
    np.savez("matrix.npz", **{name: MATRIX})
    printed = command("evaluate", f"--{kind}", "matrix.npz", "--labels", "q.csv", "g.csv", *SAME_CAMERA)
    assert printed.status == 1
    assert f"one array must be the {kind} by its name, or by `--names {kind}=NAME`; got `{name}`" in printed.err
