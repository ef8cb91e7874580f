"""The kinds of problems by name, each with the function that draws one."""

from collections.abc import Callable
from random import Random

from . import detection, files, hostile, lists, pairs, retrieval
from .problems import Problem

KINDS: dict[str, Callable[[Random], Problem]] = {
    "embeddings": retrieval.draw_embeddings,
    "one_set": retrieval.draw_one_set,
    "scores": retrieval.draw_scores,
    "metrics": retrieval.draw_metrics,
    "lists": lists.draw_lists,
    "streams": retrieval.draw_streams,
    "drawn": retrieval.draw_drawn,
    "verification": pairs.draw_verification,
    "models": pairs.draw_models,
    "boxes": detection.drawer("bbox"),
    "masks": detection.drawer("segm"),
    "keypoints": detection.drawer("keypoints"),
    "rotated": detection.drawer("rotated"),
    "overlaps": detection.draw_overlaps,
    "files": files.draw_files,
    "hostile": hostile.draw_hostile,
}
