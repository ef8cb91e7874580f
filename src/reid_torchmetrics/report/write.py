"""Results as a page, and the page as a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from inspect import signature
from pathlib import Path
from typing import Any

import torch

from reid_torchmetrics import _checks
from reid_torchmetrics._extras import require
from reid_torchmetrics._files import write_whole
from reid_torchmetrics.functional.detection.evaluation import DetectionResults
from reid_torchmetrics.functional.retrieval.evaluation import Comparison, RetrievalResults
from reid_torchmetrics.plot import Pictures, check_pictures

from .detection_page import Boxes, detection_page
from .page import Page, written
from .retrieval_page import retrieval_page


def write_report(
    results: RetrievalResults | DetectionResults,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    pictures: Pictures | None = None,
    names: Mapping[int, str] | None = None,
    gallery_pictures: Pictures | None = None,
    num_hardest: int | None = None,
    num_mistakes: int | None = None,
    comparison: Comparison | None = None,
    generator: torch.Generator | None = None,
    num_worst: int | None = None,
    detections: Boxes | None = None,
    ground_truths: Boxes | None = None,
    box_format: str | None = None,
) -> Path:
    """Write one page of HTML about the results of an evaluation, and return its path.

    The page loads nothing, and can be sent as one file. The same results and options give the same bytes, with the same
    versions of Matplotlib and Pillow. The file is written as a whole, and replaces an older one, with its permissions;
    folders that do not exist are made. Among several processes only one should call this. A picture that is missing has
    the reason in its place, and there is a warning.

    Of a retrieval it shows the numbers with their intervals and conventions, why queries were left out, curves, the
    hardest queries and confident mistakes, pairs of cameras, cameras and identities. Of a detection, by any evaluator,
    it shows the numbers, the classes, curves, errors and the images with the most errors. What the results lack has a
    sentence in its place. For results of `evaluate` without rank lists or pairs of cameras, these are computed: the
    gallery is ranked once more, and once for its cameras.

    Args:
        results: of an evaluation, or from `results` of a metric.
        path: of the file.
        title: None for one that names the protocol.
        pictures: as in `plot.draw_rank_lists`, for the rank lists; of a detection the images by their `image_id`, with
            `detections` and `ground_truths` unless the results hold boxes. None for tables alone.
        names: of identities or of classes, by label; without a name the label is shown.
        gallery_pictures: of a retrieval: as in `plot.draw_rank_lists`.
        num_hardest: of a retrieval: how many of the hardest queries are shown; None for 60.
        num_mistakes: of a retrieval: how many confident mistakes; None for 20.
        comparison: the result of `compare` for these results and others; None for no such section.
        generator: of a retrieval: source of the intervals' randomness; None for one with the seed 0.
        num_worst: of a detection: how many of the images with the most errors; None for 20.
        detections: of a detection: the boxes of an image by its `image_id`, a dict as for `DetectionMAP.update`: a
            function of the number or the name, or something indexed by it. None for the boxes of
            `metric.results(boxes=True)`.
        ground_truths: of a detection: likewise.
        box_format: of a detection: format of the boxes; None for "xyxy".

    Raises:
        IsADirectoryError: `path` is that of a folder.
        ModuleNotFoundError: Matplotlib is not installed, or Pillow for pictures.
        TypeError: an argument of the wrong type.
        ValueError: an option out of range, or one that does not fit the kind of results.
    """
    # The options that were given, by name: only those of the page that is written are allowed.
    options = {name: each for name, each in locals().items() if name not in _OF_EVERY_PAGE and each is not None}
    require("A report", "matplotlib", *["PIL"] * (pictures is not None))
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"`path` must be that of a file; got the folder {os.fspath(path)!r}.")
    _checks.instance("title", title, (str,))
    _checks.names_of_labels("names", names)
    check_pictures("pictures", pictures)
    check_pictures("gallery_pictures", gallery_pictures)
    page = _page(results, options)
    write_whole(path, written(page, title).encode("utf-8", errors="replace"))
    return path


def _page(results: object, options: dict[str, Any]) -> Page:
    if type(results) not in _PAGES:
        raise TypeError(
            "`results` must be those of an evaluation, such as `evaluate` or `evaluate_boxes`, or of a metric's"
            f" `results()`; got {type(results).__name__}."
        )
    make, kind = _PAGES[type(results)]
    for name, value in options.items():
        if name not in signature(make).parameters:
            raise ValueError(f"`{name}` must be left out for results of {kind}; got {type(value).__name__}.")
    return make(results, **options)


_OF_EVERY_PAGE = ("results", "path", "title")
_PAGES: dict[type, tuple[Callable[..., Page], str]] = {
    RetrievalResults: (retrieval_page, "a retrieval"),
    DetectionResults: (detection_page, "a detection"),
}
"""by the type of results: the function that makes the page, and the kind of evaluation"""
