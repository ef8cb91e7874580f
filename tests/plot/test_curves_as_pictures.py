"""What holds for every picture."""

import pytest
import torch
from matplotlib import pyplot as plt

from reid_torchmetrics.functional.detection import Detections, GroundTruths, evaluate_boxes
from reid_torchmetrics.functional.retrieval import evaluate, find_relevance, score_embeddings
from reid_torchmetrics.plot import (
    plot_camera_pairs,
    plot_cmc,
    plot_confusion_matrix,
    plot_det,
    plot_detection_confidence,
    plot_detection_precision_recall,
    plot_error_breakdown,
    plot_first_ranks,
    plot_retrieval_precision_recall,
    plot_roc,
    plot_scores,
)
from reid_torchmetrics.plot.axes import curve_label, short_name
from reid_torchmetrics.tasks import score_histogram, verify
from reid_torchmetrics.tasks.detection_errors import ConfusionMatrix, error_breakdown, pair_objects
from tests.profiles import of_each

LABELS = torch.arange(24) % 4, torch.arange(24) % 8, torch.arange(24) // 4 % 3, torch.arange(24) // 8 + 3
X = torch.randn(24, 8, generator=torch.Generator().manual_seed(1))
RESULTS = evaluate(X, X.flip(0), *LABELS)
RELEVANCE = find_relevance(*LABELS)
SCORES = score_embeddings(X, X.flip(0), RELEVANCE)
VERIFICATION, HISTOGRAM = verify(SCORES, RELEVANCE), score_histogram(SCORES, RELEVANCE)
BOXES = torch.tensor([[0.0, 0.0, 9.0, 9.0], [20.0, 0.0, 9.0, 9.0]])
FOUND = (
    Detections(BOXES, torch.tensor([0.9, 0.6]), torch.tensor([0, 1]), torch.zeros(2).long()),
    GroundTruths(BOXES, torch.tensor([0, 1]), torch.zeros(2).long()),
)
DETECTION = evaluate_boxes(*FOUND)

LONG = "experiments/2024-11-03/resnet50_ibn_a_circle_loss_lr_$0.00035$_{batch}_128_seed"
NAMES = ["baseline", f"{LONG}_1", f"_{LONG}_2", "two\nlines", "a", "b", "c"]
PICTURES = {
    "cmc": lambda names, **options: plot_cmc(dict.fromkeys(names, RESULTS.cmc), **options),
    "retrieval precision and recall": lambda names, **options: plot_retrieval_precision_recall(
        dict.fromkeys(names, RESULTS), **options
    ),
    "queries": lambda names, **options: plot_retrieval_precision_recall(RESULTS, queries=range(len(names)), **options),
    "camera pairs": lambda names, **options: plot_camera_pairs(
        RESULTS.by_camera_pair("map"), name=names[-1], camera_names=dict(enumerate(names)), **options
    ),
    "confusion of classes": lambda names, **options: plot_confusion_matrix(
        ConfusionMatrix(torch.arange(len(names)), torch.ones(len(names) + 1, len(names) + 1).long(), 0.5, "coco"),
        class_names=dict(enumerate(names)),
        **options,
    ),
    "kinds of errors": lambda names, **options: plot_error_breakdown(error_breakdown(pair_objects(*FOUND)), **options),
    "scores": lambda names, **options: plot_scores(HISTOGRAM, VERIFICATION, **options),
    "roc": lambda names, **options: plot_roc(dict.fromkeys(names, VERIFICATION), **options),
    "det": lambda names, **options: plot_det(dict.fromkeys(names, VERIFICATION), **options),
    "first ranks": lambda names, **options: plot_first_ranks(dict.fromkeys(names, RESULTS), **options),
    "precision and recall": lambda names, **options: plot_detection_precision_recall(
        dict.fromkeys(names, DETECTION), **options
    ),
    "confidence": lambda names, **options: plot_detection_confidence(
        DETECTION, label=0, class_names=dict(enumerate(names[1:])), **options
    ),
}


@pytest.mark.parametrize("picture", PICTURES)
def test_no_figure_is_left_open_in_pyplot_and_a_picture_is_drawn_into_given_axes(picture):
    figure, axes = PICTURES[picture](NAMES[:1])
    assert plt.get_fignums() == []
    assert axes.figure is figure
    figure, (_, axes) = plt.subplots(1, 2)
    assert PICTURES[picture](NAMES[:2], ax=axes) == (figure, axes)
    plt.close(figure)


@pytest.mark.parametrize("picture", PICTURES)
@pytest.mark.parametrize("num_names", of_each([1, 7, 3], suite=2))
@pytest.mark.slow
def test_texts_of_all_lengths_are_inside_the_figure_and_leave_room_for_the_axes(picture, num_names):
    figure, axes = PICTURES[picture]([*reversed(NAMES[:num_names])])
    figure.draw_without_rendering()
    whole, own, all_of_it = figure.bbox, axes.get_window_extent(), axes.get_tightbbox()
    assert whole.x0 <= all_of_it.x0 < all_of_it.x1 <= whole.x1
    assert whole.y0 <= all_of_it.y0 < all_of_it.y1 <= whole.y1
    assert own.width >= 0.35 * whole.width
    assert own.height >= 0.35 * whole.height


@pytest.mark.parametrize("picture", ["roc", "det", "scores", "confidence"])
@pytest.mark.parametrize("num_names", [3, 7])
@pytest.mark.slow
def test_a_legend_of_curves_that_may_be_anywhere_covers_neither_them_nor_the_names_of_the_axes(picture, num_names):
    figure, axes = PICTURES[picture](NAMES[:num_names])
    figure.draw_without_rendering()
    legend = axes.get_legend().get_window_extent()
    assert not legend.overlaps(axes.get_window_extent())
    assert not legend.overlaps(axes.xaxis.label.get_window_extent())


@pytest.mark.parametrize("picture", ["cmc", "roc", "det", "first ranks", "precision and recall"])
def test_every_name_is_in_the_legend(picture):
    _, axes = PICTURES[picture](NAMES)
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert [text.strip().partition("  (")[0] for text in texts if "  (" in text] == [short_name(name) for name in NAMES]


def test_both_ends_of_a_long_name_are_shown_and_it_is_no_formula_and_has_one_line():
    assert short_name("a" * 20 + "b" * 20) == "a" * 14 + "…" + "b" * 13
    assert short_name("abcdefgh", 5) == "ab…gh"
    assert short_name("x" * 28) == "x" * 28
    assert short_name(3) == "3"
    assert short_name("$x$") == r"\$x\$"
    assert short_name("two\nlines") == "two lines"


@pytest.mark.parametrize(("name", "label"), [("name", "name  (said)"), ("", "said"), ("_name", " _name  (said)")])
def test_a_label_is_what_is_said_behind_the_name(name, label):
    assert curve_label(name, "said") == label  # matplotlib leaves out what begins with an underscore
