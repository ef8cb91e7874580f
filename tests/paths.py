"""Private constants that decide how an algorithm goes, and private functions, by names of their own.

Tests set them so that small problems go as large ones do. What is renamed or moved in `src` changes one line here.
"""

from contextlib import ExitStack
from importlib import import_module
from types import ModuleType
from typing import Any
from unittest import mock

PATHS = {
    "progress_delay": "_progress.DELAY",
    "compared_points": "diagnosis.detection.points._MOST_POINTS",
    "many_boxes": "functional.detection.batches.images._MANY_BOXES",
    "many_labels": "functional.detection.batches.packing._MANY_LABELS",
    "curve_values": "functional.detection.curves._MAX_VALUES",
    "trapezoid_values": "tasks.evaluators.yolo._MAX_VALUES",
    "few_positives_at_recall": "functional.detection.curves._FEW_POSITIVES",
    "most_counted": "functional.detection.curves._MOST_COUNTED",
    "most_curves": "functional.detection.curves._MOST_CURVES",
    "averaged_classes": "functional.detection.evaluators.coco._DETECTIONS_AT_A_TIME",
    "cached_curves": "functional.detection.evaluators.coco._CACHED_CELLS",
    "many_to_average": "functional.detection.evaluators.coco._MANY_DETECTIONS",
    "yolo_classes": "tasks.evaluators.yolo._CLASSES",
    "bits_of_each": "functional.detection.inputs.counted_masks._count_bits",
    "words_per_lookup": "functional.detection.inputs.counted_masks._WORDS_PER_LOOKUP",
    "keypoint_distances": "functional.detection.inputs.keypoints._MOST_DISTANCES",
    "mask_cells": "functional.detection.inputs.masks._MOST_CELLS",
    "few_labels": "functional.detection.inputs.ordering._FEW_LABELS",
    "few_rows": "functional.detection.inputs.ordering._FEW_ROWS",
    "key_bits": "functional.detection.inputs.ordering._BITS",
    "narrow_labels": "functional.detection.inputs.ordering._NARROW_LABELS",
    "suppressed_pairs": "tasks.suppression._PAIRS_AT_A_TIME",
    "few_proposals": "functional.detection.matching.deferred_acceptance._FEW",
    "cached_contested_pairs": "functional.detection.matching.assignment._CACHED_CONTESTED_PAIRS",
    "listed_rows": "tasks.evaluators.lvis._ROWS",
    "area_block": "functional.detection.matching.matching._AREA_BLOCK",
    "many_to_match": "functional.detection.matching.matching._MANY_DETECTIONS",
    "match_function": "functional.detection.matching.matching._match",
    "matched_classes": "functional.detection.matching.matching._DETECTIONS_AT_A_TIME",
    "cached_pairs": "functional.detection.matching.pairs._CACHED_PAIRS",
    "least_crowded_pairs": "functional.detection.matching.pairs._LEAST_CROWDED_PAIRS",
    "least_detections": "functional.detection.matching.pairs._LEAST_DETECTIONS",
    "least_ground_truths": "functional.detection.matching.pairs._LEAST_GROUND_TRUTHS",
    "most_nearby": "functional.detection.matching.pairs._MOST_NEARBY",
    "drawn_cells": "tasks.draws.drawn_galleries._CELLS",
    "integrated_positives": "tasks.draws.drawn_galleries._POSITIVES",
    "compared_pairs": "tasks.draws.strata_ahead._PAIRS",
    "counted_cells": "tasks.draws.strata_ahead._CELLS",
    "few_positives": "tasks.draws.strata_ahead._FEW",
    "most_bins": "tasks.draws.strata_ahead._MOST_BINS",
    "near_item": "tasks.draws.strata_ahead._NEAR_ONE",
    "near_items": "tasks.draws.strata_ahead._NEAR",
    "small_strata": "tasks.draws.strata_ahead._SMALL",
    "searched_scores": "tasks.persons_in_images._SCORES_AT_A_TIME",
    "pooling_bytes": "tasks.pooled_queries.WALK_BYTES",
    "resampled_draws": "tasks.comparison.resampling._DRAWS_AT_A_TIME",
    "max_chances": "functional.retrieval.measures.cutoffs._MAX_CHANCES",
    "max_terms": "functional.retrieval.measures.terms._MAX_TERMS",
    "bins_of_row": "functional.retrieval.ranking.counting._BINS",
    "few_on_device": "functional.retrieval.ranking.counting._FEW_ON_DEVICE",
    "few_values": "functional.retrieval.ranking.counting._FEW_VALUES",
    "looked_up_scores": "functional.retrieval.ranking.counting._SCORES",
    "serial_sort": "functional.retrieval.ranking.counting._SERIAL_SORT",
    "shared_slots": "functional.retrieval.ranking.ranks._SLOTS",
    "listed_scores": "functional.retrieval.ranking.top_k._SCORES_AT_A_TIME",
    "max_differing": "functional.retrieval.relevance.from_labels._MAX_DIFFERING",
    "labeled_pairs": "tasks.places.grouped_gallery._PAIRS_AT_A_TIME",
    "listed_pairs": "functional.retrieval.relevance.relevance._PAIRS_AT_A_TIME",
    "walk_bytes": "functional.retrieval.scores.rows.WALK_BYTES",
    "gaps": "tasks.verification.scored_pairs._GAPS",
    "senders": "integrations.pictures._SENDERS",
}


def path(name: str) -> tuple[ModuleType, str]:
    """The module and the private name, as `mock.patch.object` and `monkeypatch.setattr` take them."""
    module, _, attribute = PATHS[name].rpartition(".")
    return import_module(f"reid_torchmetrics.{module}"), attribute


def taking(**values: Any) -> ExitStack:
    """Set some of them in a `with` block."""
    with ExitStack() as stack:
        for name, value in values.items():
            stack.enter_context(mock.patch.object(*path(name), value))
        return stack.pop_all()
