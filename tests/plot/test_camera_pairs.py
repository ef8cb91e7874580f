"""Pictures of pairs of cameras."""

import math

import pytest
import torch

from reid_torchmetrics.functional.retrieval import CameraPairs
from reid_torchmetrics.plot import plot_camera_pairs
from tests.plot.texts import labels

NAN = math.nan


def pairs_of(mean: list[list[float]]) -> CameraPairs:
    """Query cameras 10, 11, ..., gallery cameras 20, 21, ..."""
    values = torch.tensor(mean, dtype=torch.float64)
    rows, columns = values.shape
    return CameraPairs(torch.arange(rows) + 10, torch.arange(columns) + 20, values, (~values.isnan()).long())


PAIRS = pairs_of([[0.25, NAN, 1.0], [0.0, 0.5, 0.126]])


def test_means_are_drawn_in_percent_with_query_cameras_as_rows():
    figure, axes = plot_camera_pairs(PAIRS, name="mAP")
    (image,) = axes.images
    drawn = image.get_array()
    assert drawn.filled(NAN).tolist() == [[25, pytest.approx(NAN, nan_ok=True), 100], [0, 50, 12.6]]
    assert (labels(axes.yaxis), labels(axes.xaxis)) == (["10", "11"], ["20", "21", "22"])
    assert (axes.get_ylabel(), axes.get_title()) == ("query camera", "mAP between cameras (%)")
    assert figure is axes.figure


@pytest.mark.parametrize("value", [0.001, 1.0, NAN])
def test_the_colors_are_the_same_in_every_epoch_and_end_at_100_percent(value):
    figure, axes = plot_camera_pairs(pairs_of([[value] * 13]), name="mAP")
    assert axes.images[0].get_clim() == (0, 100)
    beside = figure.axes[1]
    assert beside.get_ylabel() == "mAP (%)"
    assert beside.get_ylim() == (0, 100)
    assert max(beside.get_yticks()) == 100


def test_a_cell_has_its_number_and_an_undefined_one_has_none():
    _, axes = plot_camera_pairs(PAIRS)
    texts = {text.get_position(): text.get_text() for text in axes.texts}
    assert texts == {(0, 0): "25", (1, 0): "n/a", (2, 0): "100", (0, 1): "0", (1, 1): "50", (2, 1): "13"}


def test_undefined_cells_are_hatched_and_named():
    _, axes = plot_camera_pairs(PAIRS)
    assert axes.patch.get_hatch()
    assert axes.get_xlabel() == "gallery camera\nn/a, hatched: no query has a match there"
    assert plot_camera_pairs(pairs_of([[0.5]]))[1].get_xlabel() == "gallery camera"


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
