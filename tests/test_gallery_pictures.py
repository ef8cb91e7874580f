"""What scripts of the gallery leave in variables is shown on its pages; a build without pictures would not fail."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from tests.test_reference_pages import extension

pytest.importorskip("sphinx_gallery")

gallery_scraper = extension("gallery_scraper")


def run(code, folder, **names):
    """Show what a block of code left, which has run; its second picture is for the card."""
    script = folder / "plot_it.py"
    folder.mkdir(parents=True, exist_ok=True)
    script.write_text("# sphinx_gallery_thumbnail_number = 2\n", encoding="utf-8")
    paths = iter([str(folder / f"it_{number:03}.png") for number in range(1, 9)])
    values = {
        "example_globals": names,
        "image_path_iterator": paths,
        "src_file": str(script),
        "target_file": str(script),
    }
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
    assert [size_of(tmp_path / f"it_{number:03}.png") for number in (2, 3)] == [(4, 3), (6, 5)]


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


def test_a_figure_on_a_card_has_one_axes_and_letters_that_can_be_read(tmp_path):
    figure = Figure(figsize=(9, 3), layout="constrained")
    left, _ = figure.subplots(1, 2)
    left.plot([1, 2], label="ours")
    left.legend()
    left.set(xlabel="epoch", ylabel="mAP", title="mAP by epoch")
    run("image = draw()\nfigure = plot()", tmp_path, image=Image.new("RGB", (4, 3)), figure=figure)
    assert size_of(tmp_path / "cards" / "plot_it.png") == (520, 364)
    assert figure.axes == [left]
    assert left.get_title() == ""
    assert not left.get_legend().get_visible()
    pixels_of_site = gallery_scraper.CARD_WIDTH / gallery_scraper.CARD_INCHES[0] / 72
    assert pixels_of_site * min(text.get_size() for text in left.get_xticklabels()) >= 8


def test_an_image_on_a_card_is_cut_and_not_shrunk(tmp_path):
    images = {"first": Image.new("RGB", (4, 3)), "second": Image.new("RGB", (1000, 1000))}
    run("first, second = draw()", tmp_path, **images)
    width, height = size_of(tmp_path / "cards" / "plot_it.png")
    assert (width, height) == (gallery_scraper.CUT_WIDTH, gallery_scraper.CUT_WIDTH * 182 // 260)


def test_every_script_of_the_gallery_chooses_the_picture_on_its_card():
    scripts = sorted((Path(__file__).parents[1] / "examples" / "gallery").glob("plot_*.py"))
    assert len(scripts) > 5
    for script in scripts:
        code = script.read_text(encoding="utf-8")
        assert gallery_scraper.number_of_card(code) != "none" or "# sphinx_gallery_thumbnail_path = " in code
