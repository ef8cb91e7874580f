"""`evaluate --images` shows the image of each sample in the report, beside its name, of every layout of files."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from reid_torchmetrics.command.images import ImageFiles
from reid_torchmetrics.plot import picture_at
from tests.report.pages import read

PIL = pytest.importorskip("PIL.Image")
NUM_QUERIES = 12
STEP = 4
"""grays between the images of two rows"""


def paint(folder: Path, role: str, identities: np.ndarray) -> list[str]:
    """Write an image of each row, with a gray that tells the row, and return the names, which tell the identity."""
    names = [f"{role}/{role[0]}{row:03d}_{identity}.png" for row, identity in enumerate(identities)]
    (folder / "images" / role).mkdir(parents=True)
    for row, name in enumerate(names):
        PIL.new("L", (20, 40), STEP * row).save(folder / "images" / name)
    return names


def write_table(path: Path, **columns: object) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path.name


def sides(folder, problem):
    """The arrays of each side, with the names of its images."""
    arrays = {role: problem.side(role) for role in ("query", "gallery")}
    for role, side in arrays.items():
        side["paths"] = np.array(paint(folder, role, side["pids"]))
    return arrays


def arrays_with_names(folder, problem):
    for role, side in sides(folder, problem).items():
        np.savez(folder / f"{role}.npz", **side)
    return ["query.npz", "gallery.npz"]


def numbered_arrays(folder, problem):
    for role, side in sides(folder, problem).items():
        np.savez(folder / f"{role}.npz", **side, index=1000 + 7 * np.arange(len(side["pids"])))
    return ["query.npz", "gallery.npz"]


def shards(folder, problem):
    for role, side in sides(folder, problem).items():
        for part, rows in enumerate(np.array_split(np.arange(len(side["pids"])), 3)):
            np.savez(folder / f"{role}-{part}.npz", **{name: values[rows] for name, values in side.items()})
    return ["query-*.npz", "gallery-*.npz"]


def tables(folder, problem):
    words = []
    for role, side in sides(folder, problem).items():
        np.save(folder / f"{role}.npy", side.pop("feat"))
        words.append(write_table(folder / f"{role}.csv", **side))
    return ["query.npy", "gallery.npy", "--labels", *words]


def one_table(folder, problem):
    both = sides(folder, problem)
    for role, side in both.items():
        np.save(folder / f"{role}.npy", side.pop("feat"))
    columns = {name: np.concatenate([side[name] for side in both.values()]) for name in both["query"]}
    return ["query.npy", "gallery.npy", "--labels", write_table(folder / "all.csv", **columns)]


def roles_in_one_file(folder, problem):
    return one_file(folder, problem, lambda is_query: {"is_query": is_query})


def some_rows_of_both_roles(folder, problem):
    def flags(is_query):
        return {"is_query": is_query, "is_gallery": ~is_query | (is_query & (np.arange(len(is_query)) % 3 == 0))}

    return one_file(folder, problem, flags)


def some_rows_without_a_role(folder, problem):
    """Rows of neither role need no image."""

    def flags(is_query):
        has_role = np.arange(len(is_query)) % 5 != 0
        for path in np.array(sorted((folder / "images" / "rows").iterdir()))[~has_role]:
            path.unlink()
        return {"is_query": is_query & has_role, "is_gallery": ~is_query & has_role}

    return one_file(folder, problem, flags)


def each_among_the_others(folder, problem):
    return one_file(folder, problem, lambda is_query: {})


def one_file(folder, problem, flags):
    """One file has all rows in another order; the images are those of the rows."""
    parts = [problem.side(role) for role in ("query", "gallery")]
    order = np.random.default_rng(0).permutation(62)
    arrays = {name: np.concatenate([side[name] for side in parts])[order] for name in parts[0]}
    names = np.array(paint(folder, "rows", arrays["pids"]))
    np.savez(folder / "all.npz", **arrays, **flags(order < NUM_QUERIES), names=names)
    return ["all.npz", "--same-camera", "keep"]


def distances(folder, problem):
    words = tables(folder, problem)
    np.save(folder / "distmat.npy", np.linalg.norm(problem.query[:, None] - problem.gallery, axis=2))
    return ["--distances", "distmat.npy", *words[2:]]


def lists_of_right_items(folder, problem):
    words = arrays_with_names(folder, problem)
    same = problem.query_identities[:, None] == problem.gallery_identities
    lists = [row.nonzero()[0].tolist() for row in same]
    (folder / "truth.json").write_text(json.dumps(lists), encoding="utf-8")
    return [*words, "--ground-truth", "truth.json", "--protocol", "trec"]


LAYOUTS = [
    arrays_with_names,
    numbered_arrays,
    shards,
    tables,
    one_table,
    roles_in_one_file,
    some_rows_of_both_roles,
    some_rows_without_a_role,
    each_among_the_others,
    distances,
]


def assert_pictures_are_those_of_names_and_identities(reported):
    results, names = reported["results"], reported["image_names"]
    lists = results.nearest(5)
    seen = 0
    identities = zip(lists.query_index.tolist(), results.query_identities.tolist(), strict=True)
    for query, identity in identities:
        seen += assert_one(reported["pictures"], names, query, identity)
    for numbers, candidates in zip(lists.index.tolist(), lists.identities.tolist(), strict=True):
        for number, identity in zip(numbers, candidates, strict=True):
            seen += assert_one(reported["gallery_pictures"], reported["gallery_image_names"], number, identity)
    assert seen >= 40


def assert_one(pictures, names, number, identity):
    if number >= 0:  # a list may be padded
        row, shown_identity = names[number].rsplit("/", maxsplit=1)[-1].removesuffix(".png")[1:].split("_")
        assert np.asarray(pictures[number]).mean() == STEP * int(row)
        assert int(shown_identity) == identity
    return number >= 0


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_picture_is_that_of_the_name_and_identity_of_its_number(command, problem, tmp_path, reported, layout):
    output = command("evaluate", *layout(tmp_path, problem), "--report", "page.html", "--images", "images")
    assert output.status == 0, output.err
    assert_pictures_are_those_of_names_and_identities(reported)


def test_lists_of_right_items_count_rows_of_images(command, problem, tmp_path, reported):
    words = lists_of_right_items(tmp_path, problem)
    output = command("evaluate", *words, "--report", "page.html", "--images", "images")
    assert output.status == 0, output.err
    for side in ("", "gallery_"):
        for row, name in reported[f"{side}image_names"].items():
            assert f"{row:03d}_" in name
            assert np.asarray(reported[f"{side}pictures"][row]).mean() == STEP * row


def test_the_page_has_pictures_and_names(command, problem, tmp_path):
    output = command("evaluate", *tables(tmp_path, problem), "--report", "page.html", "--images", "images")
    assert output.status == 0, output.err
    row, *_ = read(tmp_path / "page.html").all("div", class_="pictures")
    captions = [figure.one("figcaption").children for figure in row.all("figure")]
    assert captions[0][0] == "query"
    for _, _, labels, _, name in captions:
        assert labels.split("\N{NO-BREAK SPACE}")[1].split()[0] == name.split("_")[1]
    assert len(row.all("img")) == len(captions)


def test_two_processes_show_the_images_of_one(two_processes, problem, tmp_path):
    words = roles_in_one_file(tmp_path, problem)
    outputs = two_processes("evaluate", *words, "--report", "page.html", "--images", "images")
    assert [output.status for output in outputs] == [0, 0]
    lists = read(tmp_path / "page.html").all("div", class_="pictures")
    for figure in lists[0].all("figure"):
        _, _, labels, _, name = figure.one("figcaption").children
        assert labels.split("\N{NO-BREAK SPACE}")[1].split()[0] == name.split("_")[1]


def test_without_images_the_report_has_the_names_of_files(command, problem, tmp_path):
    output = command("evaluate", *tables(tmp_path, problem), "--report", "page.html")
    assert output.status == 0, output.err
    rows = read(tmp_path / "page.html").rows("Queries with the lowest average precision")
    files = {row["file"]: row["identity"] for row in rows}
    assert files == {name: name.split("_")[1].removesuffix(".png") for name in files}
    assert all(name.startswith("query/q") for name in files)


@pytest.fixture
def words(problem, tmp_path, reported):
    return [*tables(tmp_path, problem), "--report", "page.html", "--images"]


def rename(folder: Path, name: str) -> None:
    """Give the third query another name."""
    lines = (folder / "query.csv").read_text(encoding="utf-8").splitlines()
    fields = lines[3].split(",")
    lines[3] = ",".join([*fields[:-1], name])
    (folder / "query.csv").write_text("\n".join(lines), encoding="utf-8")


def test_missing_files_are_an_error_with_their_number_and_the_first_one(command, tmp_path, words, reported):
    files = sorted((tmp_path / "images" / "gallery").iterdir())
    for path in files[7:]:
        path.unlink()
    output = command("evaluate", *words, "images")
    assert output.status == 1
    assert f"got none for 43 of 50, first 'gallery/{files[7].name}' of gallery row 7." in output.err
    assert "images: there must be a file in the folder for each gallery row" in output.err
    assert not reported


@pytest.mark.parametrize("name", ["../secret.png", "query/../../secret.png", "/etc/hosts", "..\\secret.png", "."])
def test_a_name_that_leads_outside_of_the_folder_is_an_error(command, tmp_path, words, name):
    PIL.new("L", (8, 8)).save(tmp_path / "secret.png")
    rename(tmp_path, name)
    output = command("evaluate", *words, "images")
    assert output.status == 1
    assert f"images: names of images must not lead outside of the folder; got {name!r}." in output.err


@pytest.mark.parametrize("form", ["{path}", "query\\{name}", "gallery/../query/{name}"])
def test_a_path_within_the_folder_is_a_name(command, tmp_path, words, reported, form):
    path = sorted((tmp_path / "images" / "query").iterdir())[2]
    rename(tmp_path, form.format(path=path, name=path.name))
    assert command("evaluate", *words, "images").status == 0
    assert np.asarray(reported["pictures"][2]).mean() == 2 * STEP


@pytest.mark.filterwarnings("ignore:A picture of the report")
def test_a_file_that_is_no_image_is_a_reason_in_its_place(command, problem, tmp_path):
    words = tables(tmp_path, problem)
    files = sorted((tmp_path / "images" / "query").iterdir())
    for path, content in zip(files, (b"", b"no image", b"\x89PNG\r\n\x1a\n broken"), strict=False):
        path.write_bytes(content)
    output = command("evaluate", *words, "--report", "page.html", "--images", "images")
    assert output.status == 0
    text = read(tmp_path / "page.html").text
    for path in files[:3]:
        assert f"No picture: {path}: must be an image that Pillow reads; got" in text


EXIF = PIL.Exif()
EXIF[0x0112] = 6  # to be rotated by a quarter
MODES = {
    "turned.jpg": (lambda path: PIL.new("RGB", (60, 20), "navy").save(path, exif=EXIF), (20, 60), (0, 0, 128)),
    "cmyk.jpg": (lambda path: PIL.new("CMYK", (20, 40), (0, 255, 255, 0)).save(path), (20, 40), (254, 0, 0)),
    "deep.png": (
        lambda path: PIL.fromarray(np.full((40, 20), 32896, dtype=np.uint16)).save(path),
        (20, 40),
        (128, 128, 128),
    ),
    "bits.png": (lambda path: PIL.new("1", (20, 40), 1).save(path), (20, 40), (255, 255, 255)),
    "palette.gif": (lambda path: PIL.new("RGB", (20, 40), "navy").quantize().save(path), (20, 40), (0, 0, 128)),
    "transparent.png": (lambda path: PIL.new("RGBA", (20, 40), (0, 0, 0, 0)).save(path), (20, 40), (255, 255, 255)),
    "large.jpg": (lambda path: PIL.new("RGB", (4096, 2048), "navy").save(path), (1024, 512), (0, 0, 128)),
}
"""functions that write a file, its size on the page, and its color"""


@pytest.mark.parametrize("name", MODES)
def test_an_image_of_any_mode_has_its_colors(tmp_path, name):
    save, size, color = MODES[name]
    save(tmp_path / name)
    pictures = ImageFiles(str(tmp_path), {7: name}, largest=512)
    picture = picture_at("pictures", pictures, 7)
    assert picture.size == size
    assert np.abs(np.asarray(picture).mean((0, 1)) - color).max() <= 2


def test_boxes_in_the_pixels_of_a_file_leave_it_as_it_is(tmp_path):
    MODES["turned.jpg"][0](tmp_path / "turned.jpg")
    sizes = [None, {7: (60, 20)}, {7: (20, 60)}]
    pictures = [ImageFiles(str(tmp_path), {7: "turned.jpg"}, sizes=size)[7].size for size in sizes]
    assert pictures == [(20, 60), (60, 20), (20, 60)]


def test_images_without_names_are_an_error(command, problem, tmp_path):
    tables(tmp_path, problem)
    for role in ("query", "gallery"):
        np.save(tmp_path / f"{role}_pids.npy", problem.side(role)["pids"])
    files = ["query.npy", "gallery.npy", "--labels", "query_pids.npy", "gallery_pids.npy"]
    output = command("evaluate", *files, "--images", "images", "--report", "p.html")
    assert output.status == 1
    assert "`--images` must come with names of files, as an array" in output.err
