"""Pictures of pairs of cameras."""

import itertools
import math

import pytest
import torch

from reid_torchmetrics.functional.retrieval import CameraPairs
from reid_torchmetrics.plot import plot_camera_pairs, plot_confusion_matrix, plot_error_breakdown
from reid_torchmetrics.tasks.detection_errors import ERROR_KINDS, ConfusionMatrix, ErrorBreakdown
from tests.plot.texts import labels

NAN = math.nan


def pairs_of(mean: list[list[float]]) -> CameraPairs:
    """Query cameras 10, 11, ..., gallery cameras 20, 21, ..."""
    values = torch.tensor(mean, dtype=torch.float64)
    rows, columns = values.shape
    return CameraPairs(torch.arange(rows) + 10, torch.arange(columns) + 20, values, (~values.isnan()).long())


PAIRS = pairs_of([[0.25, NAN, 1.0], [0.0, 0.5, 0.126]])


def test_means_are_drawn_in_percent_with_query_cameras_as_rows_and_undefined_cells_are_hatched():
    figure, axes = plot_camera_pairs(PAIRS, name="mAP")
    (image,) = axes.images
    drawn = image.get_array()
    assert drawn.filled(NAN).tolist() == [[25, pytest.approx(NAN, nan_ok=True), 100], [0, 50, 12.6]]
    assert (labels(axes.yaxis), labels(axes.xaxis)) == (["10", "11"], ["20", "21", "22"])
    assert (axes.get_ylabel(), axes.get_title()) == ("query camera", "mAP between cameras (%)")
    assert figure is axes.figure
    assert texts(axes) == {(0, 0): "25", (1, 0): "n/a", (2, 0): "100", (0, 1): "0", (1, 1): "50", (2, 1): "13"}
    assert axes.patch.get_hatch()
    assert axes.get_xlabel() == "gallery camera\nn/a, hatched: no query has a match there"
    assert plot_camera_pairs(pairs_of([[0.5]]))[1].get_xlabel() == "gallery camera"


@pytest.mark.parametrize("value", [0.001, 1.0, NAN])
def test_the_colors_are_the_same_in_every_epoch_and_end_at_100_percent(value):
    figure, axes = plot_camera_pairs(pairs_of([[value] * 13]), name="mAP")
    assert axes.images[0].get_clim() == (0, 100)
    beside = figure.axes[1]
    assert beside.get_ylabel() == "mAP (%)"
    assert beside.get_ylim() == (0, 100)
    assert max(beside.get_yticks()) == 100


@pytest.mark.parametrize(("num", "num_written"), [(12, 144), (13, 0), (80, 0)])
def test_numbers_are_written_while_there_is_room(num, num_written):
    _, axes = plot_camera_pairs(pairs_of([[0.5] * num] * num))
    assert len(axes.texts) == num_written
    assert len(labels(axes.xaxis)) <= 25


def test_cameras_have_the_names_that_they_are_given():
    _, axes = plot_camera_pairs(PAIRS, camera_names={10: "hall", 21: "the camera at the north entrance"})
    assert labels(axes.yaxis) == ["hall", "11"]
    assert labels(axes.xaxis) == ["20", "the camer…entrance", "22"]
    assert {label.get_rotation() for label in axes.xaxis.get_ticklabels()} == {90}


def test_a_value_that_is_no_share_is_refused():
    with pytest.raises(ValueError, match=r"^`pairs` must have means from 0 to 1, to be read in percent; got 17\.0\.$"):
        plot_camera_pairs(pairs_of([[0.5, 17.0]]))


@pytest.mark.slow
def test_no_cameras_are_undefined():
    _, axes = plot_camera_pairs(pairs_of([[]]))
    assert axes.images[0].get_array().mask.all()
    assert "n/a" in axes.get_xlabel()
    assert labels(axes.xaxis) == []


NAN = math.nan
NAMES = {4: "car"}


def matrix_of(counts: list[list[int]]) -> ConfusionMatrix:
    """Of the classes 3, 4 and so on."""
    return ConfusionMatrix(3 + torch.arange(len(counts) - 1), torch.tensor(counts), 0.5, "coco")


MATRIX = matrix_of([[98, 0, 2], [0, 0, 0], [1, 999, 0]])


def texts(axes) -> dict[tuple[int, int], str]:
    return {text.get_position(): text.get_text() for text in axes.texts}


def test_rows_are_drawn_in_percent_with_counts_and_one_without_counts_is_not():
    figure, axes = plot_confusion_matrix(MATRIX, class_names=NAMES)
    (image,) = axes.images
    drawn = image.get_array().filled(NAN).tolist()
    assert drawn[0] == [98, 0, 2]
    assert all(math.isnan(value) for value in drawn[1])
    assert drawn[2][:2] == pytest.approx([0.1, 99.9])
    assert math.isnan(drawn[2][2])  # background that is background is not counted
    assert image.get_clim() == (0, 100)
    assert texts(axes) == {(0, 0): "98\n(98 %)", (2, 0): "2\n(2 %)", (0, 2): "1\n(<1 %)", (1, 2): "999\n(100 %)"}
    assert labels(axes.xaxis) == labels(axes.yaxis) == ["3", "car", "background"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("detected as", "ground truth")
    assert axes.get_title() == "Confusion matrix, IoU 0.5: objects (% of the row)"
    assert figure is axes.figure
    assert axes.patch.get_hatch()


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
    written = ["12.5", "5.0", "0.0", "1.0", "2.0", "3.0", "20.0", "25.0"]
    assert [text.get_text().strip() for text in axes.texts] == written
    assert labels(axes.yaxis)[:2] == ["classification (1,200)", "localization (2)"]
    assert labels(axes.yaxis)[-2:] == ["all false positives", "all misses"]
    assert axes.get_title() == "Kinds of errors; AP is 40.0 %"


def test_an_undefined_gain_has_no_number():
    _, axes = plot_error_breakdown(breakdown(NAN, *[NAN] * 8))
    assert {text.get_text().strip() for text in axes.texts} == {"n/a"}
    assert axes.get_title() == "Kinds of errors; n/a: no ground truths"
