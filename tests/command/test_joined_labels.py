"""Labels in files of their own: joined by name where both have names, else by position, in an order that is said."""

import csv
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torch

from reid_torchmetrics import command
from reid_torchmetrics.functional.retrieval import evaluate
from tests.profiles import each_row

NUM_QUERIES, NUM_SHARDS, ROWS = 8, 11, 5
NUM_GALLERY = NUM_SHARDS * ROWS


@pytest.fixture
def samples(tmp_path, monkeypatch):
    """Embeddings with and without names, in one file and in shards; labels of all rows."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    labels = {}
    for side, number in (("query", NUM_QUERIES), ("gallery", NUM_GALLERY)):
        embeddings = rng.normal(size=(number, 4))
        names = np.array([f"{side}/{row:03}.jpg" for row in range(number)])
        identities, cameras = rng.integers(0, 3, number), rng.integers(1, 4, number)
        np.savez(f"{side}_named.npz", feat=embeddings, paths=names)
        np.save(f"{side}.npy", embeddings)
        np.save(f"{side}_ids.npy", identities)
        labels[side] = embeddings, names, identities, cameras
    embeddings, _, identities, _ = labels["gallery"]
    for shard, rows in enumerate(np.split(np.arange(NUM_GALLERY), NUM_SHARDS)):
        np.save(f"part-{shard}.npy", embeddings[rows])
        np.save(f"ids-{shard}.npy", identities[rows])
    return labels


def write_table(path, *sides, name=str):
    """A table of the rows of some sides in another order than theirs."""
    rows = [row for _, *columns in sides for row in zip(*columns, strict=True)]
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "pid", "camid"])
        writer.writerows([name(path), *others] for path, *others in reversed(rows))


def expected_map(samples, **options):
    (query, _, *of_query), (gallery, _, *of_gallery) = samples["query"], samples["gallery"]
    return evaluate(query, gallery, of_query[0], of_gallery[0], of_query[1], of_gallery[1], **options)["map"]


def printed_map(capsys, *words):
    assert command.main(["evaluate", *words, "--decimals", "6"]) == 0
    said = capsys.readouterr()
    value = next((line.split()[1] for line in said.out.splitlines() if line.split()[:1] == ["map"]), "")
    return float(value.rstrip("%")) / 100, said.err


def base_name(path):
    return path.rpartition("/")[2]


def backslashes(path):
    return path.replace("/", "\\")


def other_folder(path):
    return f"/data/set/{path}"


@pytest.mark.parametrize("name", [str, backslashes, other_folder])
@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_rows_that_have_names_on_both_sides_are_joined_by_name(samples, name, stream, capsys):
    write_table("query.csv", samples["query"], name=name)
    write_table("gallery.csv", samples["gallery"], name=name)
    files = ["query_named.npz", "gallery_named.npz", "--labels", "query.csv", "gallery.csv"]
    value, said = printed_map(capsys, *files, *stream)
    assert value == pytest.approx(expected_map(samples), abs=1e-6)
    assert "rows joined by `name`" in said


def test_one_table_of_both_sides_is_joined_by_name(samples, capsys):
    write_table("all.csv", samples["query"], samples["gallery"])
    value, said = printed_map(capsys, "query_named.npz", "gallery_named.npz", "--labels", "all.csv")
    assert value == pytest.approx(expected_map(samples), abs=1e-6)
    assert "rows joined by `name`" in said


def save_hdf5(path, arrays):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values.astype(object) if values.dtype.kind == "U" else values


WRITERS = {
    "rows.mat": scipy.io.savemat,  # a matrix of characters, where blanks fill the shorter names
    "packed.mat": partial(scipy.io.savemat, do_compression=True),
    "cells.mat": lambda path, arrays: scipy.io.savemat(path, arrays | {"paths": arrays["paths"].astype(object)}),
    "texts.h5": save_hdf5,
    "bytes.npz": lambda path, arrays: np.savez(path, **arrays | {"paths": np.char.encode(arrays["paths"])}),
    "list.pt": lambda path, arrays: torch.save(
        {"feat": torch.tensor(arrays["feat"]), "paths": arrays["paths"].tolist()}, path
    ),
}


def write_named_sides(samples, form, write):
    """Write both sides with names of different lengths, and return the words of a command with tables of labels."""
    files = []
    for side, (embeddings, long_names, *labels) in samples.items():
        names = np.char.replace(long_names, "00", "")
        write_table(f"{side}.csv", (embeddings, names, *labels))
        files.append(f"{side}_{form}")
        write(files[-1], {"feat": embeddings, "paths": names})
    return [*files, "--labels", "query.csv", "gallery.csv"]


@pytest.mark.parametrize("form", WRITERS)
def test_names_of_every_form_of_file_are_joined_by_name(samples, form, capsys):
    value, said = printed_map(capsys, *write_named_sides(samples, form, WRITERS[form]))
    assert value == pytest.approx(expected_map(samples), abs=1e-6)
    assert "rows joined by `name`" in said


NOT_NAMES = {
    "`paths`, Python objects": lambda names: {"paths": names.astype(object)},
    "`paths`, <U15 of shape [4]": lambda names: {"paths": names[:4]},
    "`paths`, <U15 of shape [8], `file_names`, <U15 of shape [8]": lambda names: {"paths": names, "file_names": names},
    "`paths`, float64 of shape [8]": lambda names: {"paths": np.arange(len(names)) / 2},
}
"""names of which none can be taken, and arrays with them"""


@each_row("got", NOT_NAMES)
def test_names_that_cannot_be_taken_are_not_passed_over_where_rows_are_joined_by_name(samples, got, capsys):
    def write(path, arrays):
        np.savez(path, feat=arrays["feat"], **NOT_NAMES[got](arrays["paths"].astype("<U15")))

    words = write_named_sides(samples, "objects.npz", write)
    assert command.main(["evaluate", *words]) == 1
    said = capsys.readouterr().err
    assert "query_objects.npz: names must be one array of texts" in said
    assert f"got {got}. Save `names.astype(str)`, pass `--names names=NAME`" in said
    # The remedies: names as texts, or no names where the order is that of the table.
    words = write_named_sides(samples, "objects.npz", lambda path, arrays: np.savez(path, **arrays))
    value, _ = printed_map(capsys, *words)
    assert value == pytest.approx(expected_map(samples), abs=1e-6)


@pytest.mark.parametrize("suffix", ["npz", "pt"])
def test_names_that_are_integers_are_joined_and_a_note_is_none(samples, suffix, capsys):
    files = []
    for side, (embeddings, _, *labels) in samples.items():
        numbers = np.arange(len(embeddings)) + 100
        write_table(f"{side}.csv", (embeddings, numbers, *labels))
        files.append(f"{side}_numbers.{suffix}")
        if suffix == "npz":
            np.savez(files[-1], feat=embeddings, names=numbers, path="model.pth")
        else:
            torch.save(
                {"feat": torch.tensor(embeddings), "names": torch.tensor(numbers), "path": "model.pth"}, files[-1]
            )
    value, said = printed_map(capsys, *files, "--labels", "query.csv", "gallery.csv")
    assert value == pytest.approx(expected_map(samples), abs=1e-6)
    assert "rows joined by `name`" in said


def save_each(folder, embeddings, names, suffix=".npy"):
    """Save each sample to a file of its own, named as its picture."""
    Path(folder).mkdir()
    for row, name in zip(embeddings, names, strict=True):
        np.save(Path(folder, base_name(name)).with_suffix(suffix), row)


@pytest.mark.parametrize("shape", [(4,), (1, 4)], ids=str)
@pytest.mark.parametrize("suffix", [".npy", ".jpg.npy"])
@pytest.mark.parametrize("gallery", ["gallery_folder", "gallery_named.npz"])
@pytest.mark.parametrize("more", [[], ["--stream"], ["--order", "given"]])
def test_files_of_one_sample_are_joined_by_their_names(samples, shape, suffix, gallery, more, capsys):
    for side, (embeddings, names, *_) in samples.items():
        write_table(f"{side}.csv", samples[side])
        save_each(f"{side}_folder", embeddings.reshape(-1, *shape), names, suffix)
    words = ["query_folder", gallery, "--labels", "query.csv", "gallery.csv", *more]
    value, said = printed_map(capsys, *words)
    assert value == pytest.approx(expected_map(samples), abs=1e-6)
    assert f"one sample in each of {NUM_QUERIES} files, in natural order and named as they are" in said
    assert "rows joined by `name`" in said


def test_the_side_that_has_names_is_joined_by_name(samples, capsys):
    embeddings, names, *_ = samples["query"]
    write_table("query.csv", samples["query"])
    write_table("gallery.csv", [values[::-1] for values in samples["gallery"]])  # in the order of gallery.npy
    save_each("query_folder", embeddings, names)
    value, said = printed_map(capsys, "query_folder", "gallery.npy", "--labels", "query.csv", "gallery.csv")
    assert value == pytest.approx(expected_map(samples), abs=1e-6)
    assert "rows of the query joined by `name`" in said


def test_labels_come_from_the_names_of_files_of_one_sample(samples, capsys):
    for side, (embeddings, _, identities, cameras) in samples.items():
        rows = enumerate(zip(identities, cameras, strict=True))
        save_each(
            f"{side}_folder", embeddings, [f"{who:04}_c{camera}s1_{row:06}_00.jpg" for row, (who, camera) in rows]
        )
    value, said = printed_map(capsys, "query_folder", "gallery_folder")
    assert value == pytest.approx(expected_map(samples), abs=1e-6)
    assert "labels from file names as in market1501" in said


def test_rows_that_the_table_lacks_are_counted(samples, capsys):
    write_table("query.csv", samples["query"])
    write_table("gallery.csv", [values[3:] for values in samples["gallery"]])
    files = ["query_named.npz", "gallery_named.npz", "--labels", "query.csv", "gallery.csv"]
    assert command.main(["evaluate", *files]) == 1
    said = capsys.readouterr().err
    assert "gallery.csv: there must be a row for each embedding, by its name" in said
    assert f"got none for 3 of {NUM_GALLERY}, first 'gallery/000.jpg'" in said


def shell_order():
    return sorted(str(path) for path in Path().glob("part-*.npy"))


@pytest.mark.usefixtures("samples")
def test_another_order_is_refused_unless_it_is_asked_for(capsys):
    words = ["query.npy", *shell_order(), "--labels", "query_ids.npy", "gallery_ids.npy", "--same-camera", "keep"]
    assert command.main(["evaluate", *words]) == 1
    said = capsys.readouterr().err
    assert (
        "The files of the gallery must be in natural order, as labels are joined by position; got part-10.npy" in said
    )
    assert "Put the pattern in quotes, or say `--order given`." in said
    assert command.main(["evaluate", *words, "--order", "given"]) == 0
    assert "in the order given" in capsys.readouterr().err


@pytest.mark.usefixtures("samples")
def test_labels_of_another_length_than_their_shard_are_named(capsys):
    np.save("ids-3.npy", np.zeros(ROWS + 1, dtype=int))
    np.save("ids-4.npy", np.zeros(ROWS - 1, dtype=int))
    words = ["query.npy", "part-*.npy", "--labels", "query_ids.npy", "ids-*.npy"]
    assert command.main(["evaluate", *words]) == 1
    assert (
        f"ids-3.npy: there must be a row for each of {ROWS} of part-3.npy; got {ROWS + 1}." in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("tracks", "words", "is_left_out"),
    [
        (lambda people, cameras: people % 2 + 1, (), True),  # counted in each camera
        (lambda people, cameras: people % 2 + 1, ("--names", "sequences=track_id"), False),
        (lambda people, cameras: 10 * cameras + people, (), False),  # counted through
        (lambda people, cameras: np.zeros_like(cameras), (), False),  # one session
    ],
)
def test_numbers_of_tracks_in_each_camera_are_no_sequences(tracks, words, is_left_out, samples, capsys):
    for side, (_, _, identities, cameras) in samples.items():
        people = identities.clip(max=1) + 2 * (cameras == 1)  # two in a camera
        rows = zip(people, cameras, tracks(people, cameras), strict=True)
        lines = [",".join(map(str, row)) for row in [("pid", "camid", "track_id"), *rows]]
        Path(f"{side}.csv").write_text("\n".join(lines), encoding="utf-8")
    files = ("query.npy", "gallery.npy", "--labels", "query.csv", "gallery.csv", "--protocol", "market1501")
    assert command.main(["evaluate", *files, *words]) == 0
    said = capsys.readouterr().err
    assert ("no sequences, as their numbers count the tracks of each camera" in said) == is_left_out


@pytest.mark.parametrize("table_name", ["/set/{}", "{}", "{}.png"])
def test_equal_names_in_two_folders_are_told_apart_by_the_ends_of_their_paths(tmp_path, table_name, capsys):
    names = [f"cam{row % 2}/{row // 2:04}" for row in range(6)]
    np.savez(tmp_path / "named.npz", feat=np.eye(6) + 0.1, paths=[f"{name}.jpg" for name in names])
    rows = [f"{table_name.format(name)},{row // 2}" for row, name in enumerate(names)]
    (tmp_path / "labels.csv").write_text("\n".join(["path,pid", *rows[::-1]]), encoding="utf-8")
    words = [str(tmp_path / "named.npz"), "--labels", str(tmp_path / "labels.csv"), "--same-camera", "keep"]
    expected = evaluate(np.eye(6) + 0.1, query_identities=np.arange(6) // 2, same_camera="keep")["map"]
    assert printed_map(capsys, *words)[0] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("names", "table_names", "message"),
    [
        (["a/1", "b/1"], ["1", "2"], "must have one name for each image or class; got 'a/1' and 'b/1' for 0."),
        (["1", "2"], ["a/1", "b/1"], "must have each name once; got rows 0, 1 for '1'."),
        (["1", "x"], ["1", "2"], "got none for 1 of 2, first 'x', where the table begins with '1'."),
    ],
)
def test_names_that_fit_no_row_or_several_are_refused(names, table_names, message, tmp_path, capsys):
    np.savez(tmp_path / "named.npz", feat=np.eye(2), paths=names)
    rows = [f"{name},1" for name in table_names]
    (tmp_path / "labels.csv").write_text("\n".join(["path,pid", *rows]), encoding="utf-8")
    assert command.main(["evaluate", str(tmp_path / "named.npz"), "--labels", str(tmp_path / "labels.csv")]) == 1
    assert message in capsys.readouterr().err


def test_names_of_digits_are_found_where_a_table_lacks_their_zeros(tmp_path, capsys):
    np.savez(tmp_path / "named.npz", feat=np.eye(4) + 0.1, paths=["0001", "0002", "0003", "0004"], cam=[1, 2, 1, 2])
    (tmp_path / "labels.csv").write_text("path,pid\n4,8\n3,8\n2,7\n1,7\n", encoding="utf-8")
    words = [str(tmp_path / "named.npz"), "--labels", str(tmp_path / "labels.csv")]
    expected = evaluate(np.eye(4) + 0.1, query_identities=[7, 7, 8, 8], query_cameras=[1, 2, 1, 2])["map"]
    assert printed_map(capsys, *words)[0] == pytest.approx(expected, abs=1e-6)


@pytest.mark.filterwarnings("default:.*have the name and the identity of another one")
@pytest.mark.parametrize(("num_repeated", "is_told"), [(0, False), (1, True), (12, False)])
def test_of_names_that_come_again_with_other_embeddings_a_warning_tells(num_repeated, is_told, tmp_path, capsys):
    rng = np.random.default_rng(0)
    names = [f"{row}.jpg" for row in range(6)]
    names += [names[row % 2] for row in range(num_repeated)]  # many, as captions of few images have
    identities = [int(name[0]) % 2 for name in names]
    np.savez(tmp_path / "named.npz", feat=rng.normal(size=(len(names), 4)), paths=names, pid=identities)
    assert command.main(["evaluate", str(tmp_path / "named.npz"), "--same-camera", "keep"]) == 0
    told = "named.npz: 1 of 7 samples have the name and the identity of another one, such as '0.jpg', and count again."
    assert (told in capsys.readouterr().err) is is_told


def test_sequences_that_number_the_tracks_of_each_side_are_left_out(tmp_path, capsys):
    rng = np.random.default_rng(0)
    paths = []
    for side, number in (("query", 6), ("gallery", 12)):
        paths.append(str(tmp_path / f"{side}.npz"))
        identities, cameras = (np.arange(number) + number // 12) % 3, np.arange(number) // 3
        feat = rng.normal(size=(number, 4))
        np.savez(paths[-1], feat=feat, pid=identities, cam=cameras, track_id=np.arange(number))
    assert "no sequences, as their numbers count the tracks" in printed_map(capsys, *paths)[1]


CAMERAS = {
    "zeros": (["01", "02"], ["1", "2"], True),
    "case": (["c1", "c2"], ["C1", "C2"], True),
    "sequences": (["c1", "c2"], ["c1s1", "c2s3"], True),
    "others": (["air1", "air2"], ["ground3", "ground4"], False),
    "some": (["c1", "c2"], ["c1", "C2"], False),
    "words": (["north", "south"], ["North", "South"], True),
}


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("names", CAMERAS)
def test_cameras_that_differ_in_their_spelling_alone_are_told(names, tmp_path, capsys):
    query, gallery, is_told = CAMERAS[names]
    for side, cameras in (("q", query), ("g", gallery)):
        np.savez(tmp_path / f"{side}.npz", feat=np.eye(2), pids=[1, 2], camids=cameras)
    command.main(["evaluate", str(tmp_path / "q.npz"), str(tmp_path / "g.npz")])
    assert ("`cameras` have no name in common" in capsys.readouterr().err) == is_told


def test_names_that_are_numbers_and_arrays_without_a_meaning_are_said(tmp_path, capsys):
    np.save(tmp_path / "q.npy", np.eye(2))
    (tmp_path / "q.csv").write_text("name,camera,vehicle\n4,1,7\n5,2,8\n", encoding="utf-8")
    words = ["evaluate", str(tmp_path / "q.npy"), str(tmp_path / "q.npy"), "--labels", *[str(tmp_path / "q.csv")] * 2]
    assert command.main(words) == 1
    said = capsys.readouterr().err
    assert "the file names of the query must have the pattern 'market1501' in each name; got '4'" in said
    assert command.main([*words, "--names", "identities=name", "--same-camera", "keep"]) == 0
    (tmp_path / "q.csv").write_text("camera,vehicle\n1,7\n2,8\n", encoding="utf-8")
    assert command.main(words) == 1
    assert "`vehicle` without a meaning" in capsys.readouterr().err
