"""Texts in pictures: letters that Pillow's own font lacks, and lines that they stand on."""

import sys

import numpy as np
import pytest

from reid_torchmetrics.plot.canvas import Canvas, Lettering


def drawn(text: str, size: int = 16) -> np.ndarray:
    """Whether a pixel is dark."""
    canvas = Canvas(200, 40)
    canvas.text((5, 5), text, Lettering(size))
    return np.array(canvas.image).mean(2) < 128


@pytest.mark.filterwarnings("ignore:The font of Pillow")
def test_letters_with_accents_are_empty_boxes_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert (drawn("é") == drawn("ü")).all()
    assert drawn("é").any()


@pytest.mark.parametrize("size", [10, 12, 16, 28])
def test_letters_of_other_alphabets_stand_on_the_line_and_within_its_height(size):
    last = [int(np.flatnonzero(drawn(text, size).any(1)).max()) for text in ("E", "Ж")]
    assert abs(last[0] - last[1]) <= 1
    rows = np.flatnonzero(drawn("Éçgj", size).any(1))
    assert rows.min() >= 5
    assert rows.max() < 5 + Lettering(size).height


def test_a_text_with_an_accent_is_cut_to_its_width():
    lettering = Lettering(12)
    text = lettering.cut("Straße à Genève", 60)
    assert text.endswith("\N{HORIZONTAL ELLIPSIS}")
    assert lettering.width(text) <= 60


@pytest.mark.parametrize("keeps_end", [True, False])
def test_a_long_text_is_cut_before_it_is_measured(keeps_end, monkeypatch):
    measured, width = [], Lettering.width
    monkeypatch.setattr(Lettering, "width", lambda self, text: measured.append(len(text)) or width(self, text))
    lettering = Lettering(12)
    short, long = (lettering.cut("ab" * number, 60, keeps_end=keeps_end) for number in (50, 50_000))
    assert short == long
    assert lettering.is_wider("ab" * 50_000, 60)
    assert max(measured) <= 62
