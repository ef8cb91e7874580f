"""Characters that a font lacks: one warning names the font and the characters, wherever pictures are drawn."""

import io
import sys
import warnings

import numpy as np
import pytest
import torch

from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.plot import (
    draw_box_grid,
    draw_boxes,
    one_warning_of_glyphs,
    plot_cmc,
    plot_confusion_matrix,
    plot_detection_confidence,
    plot_detection_precision_recall,
    plot_roc,
)
from reid_torchmetrics.report import write_report
from reid_torchmetrics.tasks import verify_pairs
from reid_torchmetrics.tasks.detection_errors import ConfusionMatrix

CHINESE = {0: "狗", 1: "猫", 2: "car"}
BOXES = torch.tensor([[0.0, 0.0, 9.0, 9.0], [20.0, 0.0, 29.0, 9.0], [40.0, 0.0, 49.0, 9.0]])
LABELS = torch.tensor([0, 1, 2])
FOUND = {"boxes": BOXES, "scores": torch.tensor([0.9, 0.8, 0.7]), "labels": LABELS}
TRUE = {"boxes": BOXES, "labels": LABELS, "image_id": 7}
PICTURE = np.zeros((64, 64, 3), np.uint8)


def results_of_detection():
    metric = DetectionMAP(class_names=CHINESE)
    metric.update([FOUND], [TRUE])
    return metric.results(across_classes=True, boxes=True)


def confusion():
    return ConfusionMatrix(LABELS, torch.tensor([[5, 1, 0, 0], [0, 5, 0, 0], [0, 0, 5, 0], [0, 0, 0, 0]]), 0.5, "coco")


def saved(figure, **options) -> None:
    figure.savefig(io.BytesIO(), **options)


def told(draw) -> list[str]:
    """The warnings of what is drawn."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        draw()
    return [str(warning.message) for warning in caught]


def confused(names=CHINESE):
    return plot_confusion_matrix(confusion(), class_names=names)[0]


TWO_CURVES = {"狗": torch.tensor([0.5, 1.0]), "猫": torch.tensor([0.5, 0.7])}
PAIRS = dict.fromkeys(("狗", "猫"), verify_pairs([0.9, 0.1], [True, False]))
DRAWINGS = {
    "confusion matrix": lambda: saved(confused()),
    "confusion matrix, cut to its contents": lambda: saved(confused(), bbox_inches="tight"),
    "confusion matrix as SVG": lambda: saved(confused(), format="svg"),
    "curves of classes": lambda: saved(plot_detection_precision_recall(results_of_detection(), class_names=CHINESE)[0]),
    "curves over the confidence": lambda: saved(
        plot_detection_confidence(results_of_detection(), class_names={1: "狗和猫"}, label=1)[0]
    ),
    "curves of models": lambda: saved(plot_cmc(TWO_CURVES)[0]),
    "verification of models": lambda: saved(plot_roc(PAIRS)[0]),
    "boxes": lambda: draw_boxes(PICTURE, FOUND, TRUE, class_names=CHINESE),
    "grid of boxes": lambda: draw_box_grid([PICTURE] * 2, [FOUND] * 2, [TRUE] * 2, class_names=CHINESE),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_warns_once_and_names_the_font_and_the_characters(name):
    (text,) = told(DRAWINGS[name])
    assert text.startswith("The font DejaVu Sans has no glyphs for ")
    assert {"狗", "猫"} <= set(text)


def test_a_figure_that_is_saved_again_does_not_warn_again():
    figure = confused()
    assert len(told(lambda: saved(figure))) == 1
    assert told(lambda: saved(figure)) == []


def test_names_in_latin_greek_and_cyrillic_letters_do_not_warn():
    names = {0: "Straße", 1: "Жук", 2: "αβγ"}
    assert told(lambda: saved(confused(names))) == []
    assert told(lambda: draw_boxes(PICTURE, FOUND, TRUE, class_names=names)) == []


def test_a_report_warns_once_of_all_its_figures_and_pictures(tmp_path):
    path, pictures = tmp_path / "report.html", {7: PICTURE}
    texts = told(lambda: write_report(results_of_detection(), path, pictures=pictures))
    (text,) = [text for text in texts if "glyph" in text.lower()]
    assert text.startswith("The font DejaVu Sans has no glyphs for '狗', '猫'. ")


def test_many_characters_are_counted():
    letters = "一丁七万丈三上下不与丐丑"  # 12
    names = {label: letters[4 * label : 4 * label + 4] for label in range(3)}
    (text,) = told(lambda: saved(confused(names)))
    assert " and 2 other characters." in text


def test_other_warnings_of_what_is_drawn_go_their_way():
    def draw() -> None:
        with one_warning_of_glyphs():
            warnings.warn("of something else", RuntimeWarning, stacklevel=1)
            warnings.warn("Glyph 29399 (\\N{CJK UNIFIED IDEOGRAPH-72D7}) missing from current font.", stacklevel=1)

    other, text = told(draw)
    assert other == "of something else"
    assert text.startswith("The font DejaVu Sans has no glyphs for '狗'. ")


def test_pictures_without_matplotlib_warn_of_accents(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    (text,) = told(lambda: draw_boxes(PICTURE, FOUND, TRUE, class_names={0: "é"}))
    assert text.startswith("The font of Pillow has no glyphs for 'é'. ")
