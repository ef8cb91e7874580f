"""Every public result prints as a short text, and has a short table of HTML in notebooks, however large it is."""

import inspect
import re
import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch

from reid_torchmetrics import DetectionMAP, compare, data, tasks
from reid_torchmetrics.functional import detection, retrieval
from reid_torchmetrics.functional.displays import NUM_ROWS, Display, counted, value_text
from tests.public_types import FACES
from tests.report.pages import parse

NUM_QUERIES, NUM_ITEMS, NUM_IMAGES = 3000, 500, 200
MOST_TEXT, MOST_HTML = 2000, 5000
NAME = "<b>&amp;</b>\n"
"""HTML, and a line break, in the names of a user"""
MODEL = NAME.strip()
NO_RESULTS = {
    "COCO": "has the interface of pycocotools",
    "COCOeval": "has the interface of pycocotools",
    "Params": "has the interface of pycocotools",
    "EvaluationPictures": "is a callback",
    "GalleryDraw": "is an option, with a text that can be evaluated",
    "KReciprocal": "is an option, with a text that can be evaluated",
    "Measure": "is a row of a table",
    "Protocol": "is an option, with a text that can be evaluated",
    "QueryExpansion": "is an option, with a text that can be evaluated",
    "RankCounter": "counts, and gives results",
    "UnpaddedDistributedSampler": "is a sampler",
}


def public_classes() -> dict[str, type]:
    """The classes that some `__all__` names, but for the metrics, which are modules of PyTorch."""
    classes = {}
    for face in FACES:
        module = import_module(f"reid_torchmetrics.{face}")
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) and not issubclass(value, torch.nn.Module):
                classes[name] = value
    return classes


RESULTS = sorted(public_classes().keys() - NO_RESULTS)


@cache
def embeddings() -> tuple[torch.Tensor, torch.Tensor]:
    dice = torch.Generator().manual_seed(0)
    return torch.randn(NUM_QUERIES, 8, generator=dice), torch.randn(NUM_ITEMS, 8, generator=dice)


def labels(number: int) -> tuple[list[str], list[str]]:
    """Identities and cameras with names of HTML."""
    return [f"{NAME}{row % 100}" for row in range(number)], [f"{NAME}{row * 7 % 30}" for row in range(number)]


@cache
def retrieved() -> retrieval.RetrievalResults:
    (query_identities, query_cameras), (identities, cameras) = labels(NUM_QUERIES), labels(NUM_ITEMS)
    return retrieval.evaluate(*embeddings(), query_identities, identities, query_cameras, cameras)


@cache
def relevance() -> retrieval.Relevance:
    return retrieval.find_relevance(np.arange(NUM_QUERIES) % 100, np.arange(NUM_ITEMS) % 100)


@cache
def scores() -> Any:
    return retrieval.score_embeddings(*embeddings(), relevance())


@cache
def detected() -> detection.DetectionResults:
    """Results for images with ten objects of 80 classes, and as many detections, some at the right place."""
    dice = torch.Generator().manual_seed(0)
    preds, target = [], []
    for image in range(NUM_IMAGES):
        corners = 400 * torch.rand(10, 2, generator=dice)
        boxes = torch.cat([corners, corners + 50], dim=1)
        classes = torch.randint(80, (10,), generator=dice)
        moved = boxes + torch.randint(30, (10, 1), generator=dice)
        preds.append({"boxes": moved, "scores": torch.rand(10, generator=dice), "labels": classes})
        target.append({"boxes": boxes, "labels": classes, "image_id": f"{NAME}{image}"})
    metric = DetectionMAP(class_names={0: NAME})
    metric.update(preds, target)
    return metric.results(across_classes=True, boxes=True, localization=True)


def counter() -> tasks.RankCounter:
    query, items = embeddings()
    identities = list(range(100))
    return tasks.RankCounter(query[:100], items[:100], query_identities=identities, positive_identities=identities)


@cache
def comparison(*names: str) -> tasks.Comparison:
    models = {name: retrieved() for name in names}
    return compare(models, num_resamples=10, num_permutations=10)


MAKE: dict[str, Callable[[], Any]] = {
    "Breakdown": lambda: retrieved().by_camera(),
    "CameraPairs": lambda: retrieved().by_camera_pair(),
    "Comparison": lambda: comparison("first", MODEL),
    "Counts": lambda: counter().count(embeddings()[1][100:], list(range(100, NUM_ITEMS)), key="block"),
    "Difference": lambda: comparison("first", MODEL).differences["map"],
    "Duplicates": lambda: tasks.find_duplicates(*embeddings(), threshold=0.5),
    "Identification": lambda: retrieved().identification(),
    "IndexLists": lambda: tasks.index_lists(torch.arange(NUM_QUERIES * 10).reshape(NUM_QUERIES, 10)),
    "IndexRecall": lambda: tasks.index_recall(torch.zeros(NUM_QUERIES, 10).long(), *embeddings()),
    "Interval": lambda: retrieved().interval("map", num_resamples=10),
    "PositiveRanks": lambda: retrieved().ranks,
    "RankLists": lambda: retrieved().nearest(20),
    "Relevance": relevance,
    "RetrievalResults": retrieved,
    "ScoreHistogram": lambda: tasks.score_histogram(scores(), relevance()),
    "GalleryStatistics": lambda: counter().statistics(embeddings()[1], [-1] * NUM_ITEMS, key="block"),
    "Verification": lambda: tasks.verify(scores(), relevance()),
    "ConfidenceCurve": lambda: detected().confidence_curve(),
    "ConfusionMatrix": lambda: detected().confusion_matrix(),
    "DetectionCurve": lambda: detected().ranked.for_class(0, iou_threshold=0.5),
    "DetectionResults": detected,
    "Detections": lambda: detection.Detections(torch.zeros(3000, 4), torch.zeros(3000), *torch.zeros(2, 3000).long()),
    "ErrorBreakdown": lambda: detected().error_breakdown(),
    "GroundTruths": lambda: detection.GroundTruths(torch.zeros(3000, 4), *torch.zeros(2, 3000).long()),
    "ImageErrors": lambda: detected().image_errors(),
    "LocalizationErrors": lambda: detected().localization_errors(),
    "OperatingPoints": lambda: detected().best_f1(),
    "PrecisionRecallCurve": lambda: detected().precision_recall_curve(0),
    "RankedDetections": lambda: detected().ranked,
    "RunLengths": lambda: detection.RunLengths.from_masks(torch.eye(200, dtype=torch.bool)[:, None]),
    "SampleFile": lambda: data.SampleFile(NAME, embeddings()[0], {"identities": np.arange(NUM_QUERIES)}, ()),
}
"""a function that makes a result, by the name of the class"""


def test_every_public_class_is_a_result_here_or_has_a_reason_not_to_be():
    assert sorted(MAKE) == RESULTS
    assert NO_RESULTS.keys() <= public_classes().keys()


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_prints_as_a_short_text(name):
    result = MAKE[name]()
    assert type(result).__name__ == name
    text = repr(result)
    assert str(result) == text == f"{result}"
    assert text.startswith(name)
    assert len(text) < MOST_TEXT
    assert "tensor(" not in text


@pytest.mark.parametrize("name", RESULTS)
def test_a_notebook_has_a_table_of_a_result_with_escaped_names(name):
    result = MAKE[name]()
    html = result._repr_html_()
    page = parse(html)
    assert not page.all("b")
    assert len(html) < MOST_HTML
    for table in page.all("table"):
        lengths = {len([cell for cell in row.all() if cell.name in ("td", "th")]) for row in table.all("tr")}
        assert len(lengths) == 1
    title, *_ = str(result).splitlines()
    assert " ".join(page.text.split()).startswith(" ".join(title.split()))


def without_queries() -> retrieval.RetrievalResults:
    no_queries = torch.zeros(0, dtype=torch.int64)
    return retrieval.evaluate(torch.zeros(0, 4), torch.eye(4), no_queries, torch.arange(4), no_queries, torch.arange(4))


def without_images() -> detection.DetectionResults:
    metric = DetectionMAP()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nothing was given
        return metric.results(across_classes=True, localization=True)


EMPTY: dict[str, Callable[[], Any]] = {
    "Breakdown: means of 0 groups of queries": lambda: without_queries().by_camera(),
    "CameraPairs: means of 0 query cameras (rows) in 4 gallery": lambda: without_queries().by_camera_pair(),
    "Identification: 0 mated and 0 non-mated queries": lambda: without_queries().identification(),
    "Interval: nan to nan, level 0.95": lambda: without_queries().interval(),
    "RankLists: 0 queries, the first 3 candidates": lambda: without_queries().nearest(3),
    "Duplicates: 0 pairs of cosine 0.95 or more: 0 of 4 items have": lambda: tasks.find_duplicates(torch.eye(4)),
    "ConfusionMatrix: IoU 0.5": lambda: without_images().confusion_matrix(),
    "ErrorBreakdown: average precision nan": lambda: without_images().error_breakdown(),
    "ImageErrors: 0 of 0 images with errors": lambda: without_images().image_errors(),
    "LocalizationErrors: means over 0 classes": lambda: without_images().localization_errors(),
    "ConfidenceCurve": lambda: without_images().confidence_curve(),
}


@pytest.mark.parametrize("title", EMPTY)
def test_a_result_of_nothing_prints(title):
    result = EMPTY[title]()
    assert str(result).startswith(title)
    assert parse(result._repr_html_()).text


def one_query(**options: Any) -> retrieval.RetrievalResults:
    one = torch.ones(1, dtype=torch.int64)
    return retrieval.evaluate(torch.ones(1, 4), torch.ones(1, 4), one, one, one, one + 1, **options)


def one_image() -> detection.DetectionResults:
    box = {"boxes": torch.tensor([[0.0, 0.0, 9.0, 9.0]]), "labels": torch.ones(1, dtype=torch.int64)}
    metric = DetectionMAP()
    metric.update([box | {"scores": torch.ones(1)}], [box])
    return metric.results(across_classes=True, localization=True)


ONE: dict[str, Callable[[], Any]] = {
    "results": one_query,
    "table": lambda: one_query().to_markdown(),
    "breakdown": lambda: one_query().by_camera(),
    "camera pairs": lambda: one_query().by_camera_pair(),
    "identification": lambda: one_query().identification(),
    "rank lists": lambda: one_query().nearest(1),
    "comparison": lambda: compare(one_query(), one_query(), num_resamples=9, num_permutations=9),
    "duplicates": lambda: tasks.find_duplicates(torch.ones(1, 4), torch.ones(1, 4)),
    "recall": lambda: tasks.index_recall([[0]], torch.ones(1, 4), torch.ones(1, 4), k=1),
    "short lists": lambda: tasks.index_recall([[0, 0]], torch.ones(1, 4), torch.eye(4), k=2),
    "verification": lambda: tasks.verify_pairs([0.9, 0.1], [True, False]),
    "detection": one_image,
    "table of detection": lambda: one_image().to_markdown(),
    "confusion matrix": lambda: one_image().confusion_matrix(),
    "errors": lambda: one_image().error_breakdown(),
    "image errors": lambda: one_image().image_errors(),
    "localization": lambda: one_image().localization_errors(),
    "comparison of detections": lambda: compare(one_image(), one_image(), num_resamples=9, num_permutations=9),
}


@pytest.mark.parametrize("name", ONE)
def test_a_count_of_one_has_a_noun_in_the_singular(name):
    text = str(ONE[name]())
    plural = re.search(r"(?<![\w.@,:/-])1 (?:[a-z-]+ )?(?!has|is)(?:[a-z-]+[^s]s|classes|have)\b", text)
    assert plural is None, text


def test_more_models_are_rows_of_one_table():
    html = comparison("first", MODEL, "third")._repr_html_()
    names = [row.one("th").text for row in parse(html).one("tbody").all("tr")]
    assert names[0] == f"map, {MODEL}"
    assert names[-1] == "rank_10, third"


def test_a_table_is_aligned_and_has_a_note_about_rows_that_are_left_out():
    *_, last_row, note = str(retrieved().by_identity()).splitlines()
    assert note == "  and 90 more groups"
    assert len(last_row.split()) >= len(["name", "mean", "valid", "queries"])
    assert len(str(retrieved().by_identity()).splitlines()) == 1 + 1 + NUM_ROWS + 1


def test_a_display_without_rows_is_a_line():
    display = Display("Duplicates: 0 pairs & more")
    assert display.text() == "Duplicates: 0 pairs & more"
    assert display.html() == "<p>Duplicates: 0 pairs &amp; more</p>"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.zeros(20, 3), "float32 [20, 3]"),
        (np.arange(6), "int64 [6]"),
        (torch.tensor([0.5, 2.0]), "0.5, 2"),
        (torch.tensor(0.123456), "0.1235"),
        ({"map": 1, "rank_1": 2}, "map, rank_1"),
        (range(2000), "2,000 values"),
        ((), "none"),
        (True, "True"),
        ("a\nb" * 100, "a " + "ba " * 18 + "ba …"),
        (object(), "object"),
    ],
)
def test_a_field_is_a_short_text(value, text):
    assert value_text(value) == text


def test_numbers_are_counted_with_their_nouns():
    texts = [counted(1, "query"), counted(2000, "query"), counted(0, "class"), counted(2, "ground truth")]
    assert texts == ["1 query", "2,000 queries", "0 classes", "2 ground truths"]
