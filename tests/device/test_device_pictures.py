"""Pictures and pages of results that lie on a device: those of the results of the CPU."""

import io
import re
from functools import cache

import numpy as np
import pytest
import torch

from reid_torchmetrics import DetectionMAP, ReIDMetrics, VocMAP, write_report
from reid_torchmetrics.functional.retrieval import evaluate, find_relevance, score_embeddings
from reid_torchmetrics.integrations.drawings import DrawingOptions, drawings_of
from reid_torchmetrics.integrations.pictures import PictureTable
from reid_torchmetrics.plot import (
    draw_box_grid,
    draw_boxes,
    draw_rank_lists,
    plot_camera_pairs,
    plot_cmc,
    plot_comparison,
    plot_confusion_matrix,
    plot_det,
    plot_detection_confidence,
    plot_detection_curve,
    plot_detection_precision_recall,
    plot_error_breakdown,
    plot_first_ranks,
    plot_retrieval_precision_recall,
    plot_roc,
    plot_scores,
    plot_tpir,
)
from reid_torchmetrics.tasks import compare, score_histogram, verify
from tests.device.problems import moved, problem
from tests.functional.detection.detection_samples import fed as fed_boxes
from tests.functional.detection.detection_samples import images
from tests.metrics.reid.samples import batches, fed


def gray(number: int) -> np.ndarray:
    """A picture that tells its number."""
    return np.full((12, 8, 3), number, dtype=np.uint8)


def retrieval(where: str):
    return evaluate(*moved(problem(whole=True), where), similarity="dot")


def compared(where: str):
    results = [evaluate(*moved(problem(whole=True), where), similarity=name) for name in ("dot", "euclidean")]
    return compare(*results, generator=torch.Generator().manual_seed(0), num_resamples=20, num_permutations=20)


def pairs(where: str) -> tuple:
    query, gallery, *labels = moved(problem(whole=True), where)
    relevance = find_relevance(*labels)
    return score_embeddings(query, gallery, relevance, similarity="dot"), relevance


def boxes(where: str):
    return fed_boxes(DetectionMAP().to(where), *moved(images(51, 8), where))


def across_classes(where: str):
    return boxes(where).results(across_classes=True)


def curve(where: str):
    return fed_boxes(VocMAP().to(where), *moved(images(51, 8), where)).results().ranked.for_class(2)


def drawn_boxes(where: str) -> np.ndarray:
    found, true = moved(images(51, 3), where)
    first = draw_boxes(torch.zeros(3, 128, 128, dtype=torch.uint8, device=where), found[2], true[2])
    grid = draw_box_grid([np.zeros((128, 128, 3), np.uint8)] * 3, found, true, height=128)
    return np.concatenate([first.ravel(), grid.ravel()])


FIGURES = {
    "camera pairs": lambda where: plot_camera_pairs(retrieval(where).by_camera_pair()),
    "CMC": lambda where: plot_cmc(retrieval(where).cmc),
    "comparison": lambda where: plot_comparison(compared(where)),
    "first ranks": lambda where: plot_first_ranks(retrieval(where)),
    "curves of queries": lambda where: plot_retrieval_precision_recall(
        retrieval(where), queries=retrieval(where).hardest(3)
    ),
    "scores": lambda where: plot_scores(score_histogram(*pairs(where)), verify(*pairs(where))),
    "ROC": lambda where: plot_roc(verify(*pairs(where))),
    "DET": lambda where: plot_det(verify(*pairs(where))),
    "TPIR": lambda where: plot_tpir(evaluate(*moved(problem(whole=True), where), similarity="dot").identification()),
    "confusion of classes": lambda where: plot_confusion_matrix(across_classes(where).confusion_matrix(confidence=0.3)),
    "kinds of errors": lambda where: plot_error_breakdown(across_classes(where).error_breakdown()),
    "confidence": lambda where: plot_detection_confidence(boxes(where).results()),
    "curve of a class": lambda where: plot_detection_curve(curve(where), rule="voc07"),
    "curves of classes": lambda where: plot_detection_precision_recall(boxes(where).results()),
    "a metric's own": lambda where: fed(ReIDMetrics().to(where), moved(batches(), where))["map"].plot(),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_that_of_the_cpu(device, name):
    assert content(FIGURES[name](device)[0]) == of_the_cpu(name)


@cache
def of_the_cpu(name) -> bytes:
    """The pixels that all devices are compared with."""
    return content(FIGURES[name]("cpu")[0])


def content(figure) -> bytes:
    """The pixels of a figure, drawn small."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="raw", dpi=40)
    return buffer.getvalue()


def test_pictures_on_the_device_are_drawn_as_on_the_cpu(device):
    pictures = torch.randint(255, (60, 3, 12, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    drawn = [draw_rank_lists(retrieval(where).nearest(3), moved(pictures, where)) for where in (device, "cpu")]
    assert np.array_equal(*drawn)


def test_boxes_are_drawn_as_on_the_cpu(device):
    assert np.array_equal(drawn_boxes(device), drawn_boxes("cpu"))


def rounded(page: str) -> str:
    """With 12 digits: a GPU adds up in another order."""
    return re.sub(r"\d+\.\d+", lambda number: f"{float(number[0]):.12g}", page)


@pytest.mark.parametrize("is_detection", [False, True])
def test_a_page_is_that_of_the_cpu(device, tmp_path, is_detection):
    pages = []
    for where in (device, "cpu"):
        options = {} if is_detection else {"pictures": gray, "comparison": compared(where)}
        results = boxes(where).results() if is_detection else retrieval(where)
        path = write_report(results, tmp_path / where, title="one title", **options)
        pages.append(rounded(path.read_text(encoding="utf-8")))
    assert pages[0] == pages[1]


@pytest.mark.parametrize("is_detection", [False, True])
def test_a_callback_logs_the_pictures_of_the_cpu(device, is_detection):
    shown = DrawingOptions(
        lambda number: np.full((128, 128, 3), number, np.uint8), None, None, num_queries=2, k=3, num_images=2
    )
    drawn = []
    for where in (device, "cpu"):
        metric = boxes(where) if is_detection else fed(ReIDMetrics().to(where), moved(batches(), where))["map"]
        made = {name: draw() for name, draw in drawings_of(metric, shown).items()}
        tables = [made.pop(name) for name in [*made] if isinstance(made[name], PictureTable)]
        drawn.append({name: each if isinstance(each, np.ndarray) else content(each) for name, each in made.items()})
        drawn[-1] |= (
            {
                "cells": [
                    [[each[1] if isinstance(each, tuple) else each for each in row] for row in table.rows]
                    for table in tables
                ]
            }
            if tables
            else {}
        )
    assert drawn[0].keys() == drawn[1].keys()
    assert all(np.array_equal(drawn[0][name], drawn[1][name]) for name in drawn[1])
