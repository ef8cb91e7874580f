"""Why no query can be evaluated is told at every entry point."""

from typing import Any

import pytest
import torch

from reid_torchmetrics.functional.retrieval import evaluate, find_protocol
from reid_torchmetrics.functional.retrieval.evaluation import NO_RANKING, RankedSamples, Ranking
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks
from reid_torchmetrics.functional.retrieval.relevance import QueryCounts
from reid_torchmetrics.functional.world import results_made
from reid_torchmetrics.tasks import evaluate_lists, person_search
from tests.diagnosis.at_doors.ranked import vectors
from tests.diagnosis.contract import told_by

NOT_RANKED = "No query can be evaluated, so the result is NaN, or what `empty_target_action` counts: of "
REST = (
    "in the gallery that is searched, 1 lost every positive to rules of cameras, sequences, clothes or other labels, 1"
    " are junk."
)
LOST = {"total": 4, "junk": 1, "not_in_gallery": 2, "same_camera_only": 1}


def reason(num_gallery: int | None, protocol: str = "market1501", *, updates: bool = True, **counts: int) -> str:
    zeros = torch.zeros(counts.get("total", 0), dtype=torch.int64)
    numbers: Any = {"total": 0, "valid": 0, "junk": 0, "not_in_gallery": 0, "same_camera_only": 0, **counts}
    ranking = Ranking(PositiveRanks(zeros[:0], zeros, zeros), QueryCounts(**numbers), zeros)
    samples = RankedSamples(find_protocol(protocol), num_gallery=num_gallery, has_updates=updates)
    (text,) = told_by(lambda: results_made(ranking if counts else NO_RANKING, samples))
    return text


def test_why_no_query_has_a_positive_is_said():
    nothing = "No query can be evaluated, so the result is NaN: of 0 queries against"
    assert reason(0) == f"{nothing} 0 gallery items, none has a positive, as no sample was given."
    assert reason(7) == f"{nothing} 7 gallery items, none has a positive; pass `is_query=True` for the queries."
    assert reason(0, total=1) == (
        f"{NOT_RANKED}1 query against 0 gallery items, none has a positive; pass `is_query=False` for the gallery."
    )
    empty = f"{NOT_RANKED}1 query against 0 gallery items, none has a positive, as the gallery is empty."
    assert reason(0, updates=False, total=1) == empty
    of_identity = f"2 have no other item of their identity {REST}"
    assert reason(1, **LOST) == f"{NOT_RANKED}4 queries against 1 gallery item, {of_identity}"
    assert reason(None, **LOST) == f"{NOT_RANKED}4 queries, {of_identity}"
    near = f"{NOT_RANKED}4 queries against 1 gallery item, 2 have no other item within 25 of their position {REST}"
    assert reason(1, "pitts30k", **LOST) == near


ROWS, OTHERS = vectors(5), vectors(6, seed=1)


def search() -> None:
    boxes = torch.tensor([[0.0, 0.0, 50.0, 90.0]]).expand(6, 4)
    persons = {"true_boxes": boxes, "true_images": torch.arange(6), "true_identities": 10 + torch.arange(6)}
    detected = {"embeddings": OTHERS, "boxes": boxes, "images": torch.arange(6)}
    queries = {"query_embeddings": ROWS, "query_images": torch.arange(6, 11), "query_identities": torch.arange(5)}
    person_search(**queries, **detected, **persons)


CALLS = {
    "leave one out": lambda: evaluate(ROWS, query_identities=torch.arange(5)),
    "listed truth": lambda: evaluate(ROWS, OTHERS, ground_truth=[[]] * 5),
    "lists of positives": lambda: evaluate_lists([[0, 1]] * 5, [[]] * 5),
    "named lists of positives": lambda: evaluate_lists({"a": ["x", "y"]}, {"a": []}),
    "person search": search,
}

"""besides those of the example in the contract"""


@pytest.mark.parametrize("name", CALLS)
def test_each_entry_point_tells_once_that_no_query_can_be_evaluated(name):
    (text,) = told_by(CALLS[name])
    assert text.startswith("No query can be evaluated")
