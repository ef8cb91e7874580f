"""A label that is -1, or missing, for all samples of a part fits names as well as integers: -1 is the name "-1".

A part is the queries or the gallery, a batch, a block, a file, or the samples of a process. The results are those of
integers everywhere.
"""

import numpy as np
import pytest
import torch

from reid_torchmetrics import ReIDMetrics
from reid_torchmetrics.functional.retrieval import evaluate, evaluate_scores
from reid_torchmetrics.functional.world import DistributedMetricError
from reid_torchmetrics.tasks import RankCounter
from tests.distributed import recording
from tests.reference.label_names import as_integers

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # some numbers are undefined

NUM_QUERIES, NUM_ITEMS = 6, 24
GENERATOR = torch.Generator().manual_seed(7)
QUERY = torch.randn(NUM_QUERIES, 4, generator=GENERATOR)
GALLERY = torch.randn(NUM_ITEMS, 4, generator=GENERATOR)
NAMED_QUERY = [["anna", "ben", "zoe"][number % 3] for number in range(NUM_QUERIES)]
NAMED_GALLERY = [["anna", "ben", "zoe", "-1"][number % 4] for number in range(NUM_ITEMS)]
QUERY_IDENTITIES, GALLERY_IDENTITIES = as_integers(NAMED_QUERY, NAMED_GALLERY)
NUMBERS = [5 + number % 3 for number in range(NUM_ITEMS)]
FORMS = {
    "list": lambda length: [-1] * length,
    "array": lambda length: np.full(length, -1),
    "tensor": lambda length: torch.full((length,), -1),
    "names": lambda length: ["-1"] * length,
    "floats": lambda length: torch.full((length,), -1.0),
    "objects": lambda length: np.array(["-1"] * length, dtype=object),
}
SIDE = {"must_agree": ("side",)}

each_form = pytest.mark.parametrize("form", FORMS)
each_label = pytest.mark.parametrize("label", ["cameras", "side", "clothes"])


def arguments_for(label, query, gallery):
    """Labels of queries and gallery, with the options by which the label decides."""
    arguments = {"query_identities": QUERY_IDENTITIES, "gallery_identities": GALLERY_IDENTITIES}
    if label == "side":
        return {**arguments, "query_labels": {"side": query}, "gallery_labels": {"side": gallery}, **SIDE}
    arguments |= {f"query_{label}": query, f"gallery_{label}": gallery}
    if label == "clothes":
        arguments["clothes"] = "drop_same"
    return arguments


@each_form
@each_label
@pytest.mark.parametrize("others", ["names", "integers"])
@pytest.mark.parametrize("is_query", [True, False])
def test_queries_or_gallery_without_a_label_fit_the_other_side(form, label, others, is_query):
    lengths = (NUM_QUERIES, NUM_ITEMS) if is_query else (NUM_ITEMS, NUM_QUERIES)
    numbers = NUMBERS[: lengths[1]]
    values = [str(number) + " a" for number in numbers] if others == "names" else numbers
    sides = [FORMS[form](lengths[0]), values]
    expected_sides = [[-1] * lengths[0], numbers]
    if not is_query:
        sides.reverse()
        expected_sides.reverse()
    expected = evaluate(QUERY, GALLERY, **arguments_for(label, *expected_sides))
    assert evaluate(QUERY, GALLERY, **arguments_for(label, *sides)).means == pytest.approx(expected.means, nan_ok=True)
    scores = evaluate_scores(QUERY @ GALLERY.T, **arguments_for(label, *sides))
    assert scores.ranks.num_positives.tolist() == expected.ranks.num_positives.tolist()


def metric_of(parts):
    """A metric that is given parts of the samples: queries, gallery items, and distractors without a label."""
    metric = ReIDMetrics(**SIDE)
    for embeddings, identities, side, is_query in parts:
        metric.update(embeddings, identities, labels={"side": side}, is_query=is_query)
    return metric


def parts_of(query, gallery, distractors):
    """The parts, given the identities of each; the sides are these labels, too, but of other samples."""
    extra = torch.randn(len(distractors), 4, generator=torch.Generator().manual_seed(3))
    sides = [gallery[number // 4] for number in range(len(gallery))]
    return [(QUERY, query, query, True), (GALLERY, gallery, sides, False), (extra, distractors, distractors, False)]


def values_of(metric):
    return {name: float(value) for name, value in metric.compute().items()}


@each_form
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_batch_without_labels_fits_batches_of_names_and_of_integers(form, order):
    expected = values_of(metric_of(parts_of(QUERY_IDENTITIES, GALLERY_IDENTITIES, [-1] * 5)))
    assert 0 < expected["map"] < 1
    for query, gallery in ((NAMED_QUERY, NAMED_GALLERY), (QUERY_IDENTITIES, GALLERY_IDENTITIES)):
        parts = parts_of(query, gallery, FORMS[form](5))
        metric = metric_of([parts[place] for place in order])
        assert values_of(metric) == pytest.approx(expected)
        if query is NAMED_QUERY:
            shown = metric.nearest(NUM_ITEMS + 5).names()
            assert {name for row in shown for name in row} == {*NAMED_QUERY}


@each_form
def test_a_process_without_labels_fits_the_others(form):
    expected = values_of(metric_of(parts_of(QUERY_IDENTITIES, GALLERY_IDENTITIES, [-1] * 5)))
    assert 0 < expected["map"] < 1
    for query, gallery in ((NAMED_QUERY, NAMED_GALLERY), (QUERY_IDENTITIES, GALLERY_IDENTITIES)):

        def found(world, query=query, gallery=gallery):
            parts = parts_of(query, gallery, FORMS[form](5))
            kept = parts[:2] if world.process == 0 else parts[2:]
            metric = ReIDMetrics(**SIDE, distributed_available_fn=recording.is_shared)
            for embeddings, identities, side, is_query in kept:
                metric.update(embeddings, identities, labels={"side": side}, is_query=is_query)
            return values_of(metric)

        outcomes, _ = recording.run(2, found)
        assert [outcome.error for outcome in outcomes] == [None, None]
        for outcome in outcomes:
            assert outcome.value == pytest.approx(expected)


def test_names_and_numbers_on_two_processes_are_refused_still():
    def found(world):
        metric = ReIDMetrics(distributed_available_fn=recording.is_shared)
        identities = [NAMED_GALLERY, GALLERY_IDENTITIES, [-1] * NUM_ITEMS][world.process]
        metric.update(GALLERY, identities, is_query=world.process != 2)
        return metric.compute()

    outcomes, _ = recording.run(3, found)
    for outcome in outcomes:
        assert isinstance(outcome.error, DistributedMetricError)
        assert "kind of `identities`; got process 0: names; process 1: integers" in str(outcome.error)


@each_form
def test_a_block_without_labels_fits_queries_with_names_and_with_integers(form):
    def ranks(query, gallery, distractors):
        _, (positives, identities, sides, _), (extra, *_) = parts_of(query, gallery, distractors)
        counter = RankCounter(
            QUERY,
            positives,
            query_identities=query,
            positive_identities=identities,
            query_labels={"side": query},
            positive_labels={"side": sides},
            **SIDE,
        )
        return counter.ranks(counter.count(extra, distractors, labels={"side": distractors}, key=0))

    expected = ranks(QUERY_IDENTITIES, GALLERY_IDENTITIES, [-1] * 5)
    for query, gallery in ((NAMED_QUERY, NAMED_GALLERY), (QUERY_IDENTITIES, GALLERY_IDENTITIES)):
        assert ranks(query, gallery, FORMS[form](5)).rank.tolist() == expected.rank.tolist()
