"""What scripts of the gallery leave in variables is shown on its pages; a build without pictures would not fail."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

pytest.importorskip("sphinx_gallery")

EXTENSIONS = str(Path(__file__).parents[1] / "docs" / "_ext")


def extension(name):
    sys.path.insert(0, EXTENSIONS)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(EXTENSIONS)


gallery_scraper = extension("gallery_scraper")


def run(code, folder, **names):
    """Show what a block of code left, which has run."""
    paths = iter([str(folder / f"{number}.png") for number in range(9)])
    values = {"example_globals": names, "image_path_iterator": paths, "target_file": str(folder / "plot_it.py")}
    return gallery_scraper.show_named(SimpleNamespace(content=code), values, {"src_dir": str(folder)})


def size_of(path):
    with Image.open(path) as image:
        return image.size


def test_a_figure_an_image_and_an_array_that_a_block_names_are_shown_in_their_order(tmp_path):
    figure = Figure()
    figure.subplots().set_title("ranks")
    code = "figure, _ = plot()\nimage = draw()\npixels = draw()"
    text = run(code, tmp_path, image=Image.new("RGB", (4, 3)), pixels=np.zeros((5, 6, 3), np.uint8), figure=figure)
    assert [line.split(":alt: ")[1] for line in text.splitlines() if ":alt:" in line] == ["ranks", "image", "pixels"]
    assert [size_of(tmp_path / f"{number}.png") for number in (1, 2)] == [(4, 3), (6, 5)]


def test_names_of_an_earlier_block_are_not_shown_again(tmp_path):
    assert run("number = 3", tmp_path, image=Image.new("RGB", (4, 3)), number=3) == ""


@pytest.mark.parametrize("array", [np.zeros((5, 6)), np.zeros((5, 6, 3)), np.zeros((5, 6, 4), np.uint8)])
def test_another_array_is_no_picture(tmp_path, array):
    assert run("array = load()", tmp_path, array=array) == ""


def test_a_page_is_framed_and_moved_to_what_sphinx_copies(tmp_path):
    page = tmp_path / "scripts" / "a report.html"
    page.parent.mkdir()
    page.write_text("<p>numbers</p>", encoding="utf-8")
    text = run("the_report = write()", tmp_path / "docs" / "gallery", the_report=page)
    assert '<iframe class="written-page" src="../_static/pages/a report.html" title="the report"' in text
    assert not page.exists()
    assert (tmp_path / "docs" / "_static" / "pages" / "a report.html").read_text(encoding="utf-8") == "<p>numbers</p>"
