"""Pictures of confused classes and of kinds of errors."""

import itertools
import math

import pytest
import torch

from reid_torchmetrics.plot import plot_confusion_matrix, plot_error_breakdown
from reid_torchmetrics.tasks.detection_errors import ERROR_KINDS, ConfusionMatrix, ErrorBreakdown
from tests.plot.texts import labels

NAN = math.nan
NAMES = {4: "car"}


def matrix_of(counts: list[list[int]]) -> ConfusionMatrix:
    """Of the classes 3, 4 and so on."""
    return ConfusionMatrix(3 + torch.arange(len(counts) - 1), torch.tensor(counts), 0.5, "coco")


MATRIX = matrix_of([[98, 0, 2], [0, 0, 0], [1, 999, 0]])


def texts(axes) -> dict[tuple[int, int], str]:
    return {text.get_position(): text.get_text() for text in axes.texts}


def test_rows_are_drawn_in_percent_and_one_without_counts_is_not():
    figure, axes = plot_confusion_matrix(MATRIX, class_names=NAMES)
    (image,) = axes.images
    drawn = image.get_array().filled(NAN).tolist()
    assert drawn[0] == [98, 0, 2]
    assert all(math.isnan(value) for value in drawn[1])
    assert drawn[2][:2] == pytest.approx([0.1, 99.9])
    assert math.isnan(drawn[2][2])  # background that is background is not counted
    assert image.get_clim() == (0, 100)
    assert labels(axes.xaxis) == labels(axes.yaxis) == ["3", "car", "background"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("detected as", "ground truth")
    assert axes.get_title() == "Confusion matrix, IoU 0.5: objects (% of the row)"
    assert figure is axes.figure
    assert axes.patch.get_hatch()


def test_a_cell_has_its_count_and_its_share_of_the_row_unless_they_are_0():
    assert texts(plot_confusion_matrix(MATRIX)[1]) == {
        (0, 0): "98\n(98 %)",
        (2, 0): "2\n(2 %)",
        (0, 2): "1\n(<1 %)",
        (1, 2): "999\n(100 %)",
    }


@pytest.mark.parametrize("num_classes", [1, 5, 6, 12])
def test_the_numbers_of_a_row_have_room_side_by_side(num_classes):
    counts = [[99_999] * (num_classes + 1)] * (num_classes + 1)
    figure, axes = plot_confusion_matrix(matrix_of(counts))
    figure.draw_without_rendering()
    boxes = sorted((text.get_window_extent() for text in axes.texts), key=lambda box: (-round(box.y0), box.x0))
    for left, right in itertools.pairwise(boxes[: num_classes + 1]):
        assert left.x1 <= right.x0


@pytest.mark.parametrize(
    ("num_classes", "num_texts", "num_names"), [(12, 169 - 1, 13), (13, 0, 14), (80, 0, 28), (300, 0, 26)]
)
@pytest.mark.slow
def test_some_of_many_classes_have_names_and_none_numbers(num_classes, num_texts, num_names):
    _, axes = plot_confusion_matrix(matrix_of([[1] * (num_classes + 1)] * (num_classes + 1)))
    assert len(axes.texts) == num_texts
    assert len(labels(axes.xaxis)) == num_names
    assert labels(axes.xaxis)[-1] == "background"


def test_the_last_name_of_many_classes_is_not_written_close_to_that_of_background():
    # Of 91 classes and more every fourth one is named: 3, 7, ..., 91, 95. Background comes after `num_classes` rows.
    # The row of 95 is one, two and three rows before it; two are too few for both names.
    for num_classes, last in ((93, "95"), (94, "91"), (95, "95")):
        _, axes = plot_confusion_matrix(matrix_of([[1] * (num_classes + 1)] * (num_classes + 1)))
        assert labels(axes.xaxis)[-2:] == [last, "background"], num_classes


def test_the_most_confused_of_very_many_classes_are_drawn_in_shares_of_whole_rows():
    counts = torch.eye(151, dtype=torch.int64)
    counts[140, 120], counts[140, 3], counts[3, 149] = 2, 5, 4  # row 140 has 8 with what is right
    _, axes = plot_confusion_matrix(ConfusionMatrix(torch.arange(150), counts, 0.5, "coco"))
    assert axes.get_title().splitlines()[1] == "without 50 classes confused less"
    (image,) = axes.images
    drawn = image.get_array().filled(NAN)
    assert drawn.shape == (101, 101)
    assert labels(axes.xaxis)[0] == "0"
    # Beside 3, 120, 140 and 149 the first 96 of the others, which are 0 to 96.
    assert drawn[98].tolist() == [0] * 3 + [62.5] + [0] * 93 + [25.0, 12.5, 0, 0]


def breakdown(base: float, *gains: float) -> ErrorBreakdown:
    none = torch.empty(0, dtype=torch.int64)
    counts = dict(zip(ERROR_KINDS, (1200, 2, 3, 4, 5, 6), strict=True))
    return ErrorBreakdown(base, dict(zip(ERROR_KINDS, gains[:6], strict=True)), *gains[6:], counts, none, none.bool())


def test_gains_are_bars_in_percent_points_with_the_number_of_errors():
    _, axes = plot_error_breakdown(breakdown(0.4, 0.125, 0.05, 0.0, 0.01, 0.02, 0.03, 0.2, 0.25))
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([12.5, 5, 0, 1, 2, 3, 20, 25])
    assert [text.get_text().strip() for text in axes.texts] == [
        "12.5",
        "5.0",
        "0.0",
        "1.0",
        "2.0",
        "3.0",
        "20.0",
        "25.0",
    ]
    assert labels(axes.yaxis)[:2] == ["classification (1,200)", "localization (2)"]
    assert labels(axes.yaxis)[-2:] == ["all false positives", "all misses"]
    assert axes.get_title() == "Kinds of errors; AP is 40.0 %"


def test_an_undefined_gain_has_no_number():
    _, axes = plot_error_breakdown(breakdown(NAN, *[NAN] * 8))
    assert {text.get_text().strip() for text in axes.texts} == {"n/a"}
    assert axes.get_title() == "Kinds of errors; n/a: no ground truths"
