"""Relevance by lists in metrics: by `index`, in any order of samples, on any number of processes."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics import Protocol, ReIDMeanAP, ReIDMetrics
from reid_torchmetrics.functional.retrieval import evaluate
from tests.profiles import examples

NUM_QUERIES, NUM_GALLERY = 5, 20
OXFORD = Protocol("lists", "as Oxford", same_camera="keep", needs_lists=True, empty_target_action="neg")


def problem(seed: int) -> tuple[torch.Tensor, torch.Tensor, dict[int, dict[str, list[int]]]]:
    """Embeddings of queries, numbered from 100, and of gallery items, numbered from 0, and the lists of each query."""
    generator = torch.Generator().manual_seed(seed)
    query, gallery = (torch.randn(size, 4, generator=generator) for size in (NUM_QUERIES, NUM_GALLERY))
    lists = {}
    for number in range(100, 100 + NUM_QUERIES):
        order = torch.randperm(NUM_GALLERY, generator=generator).tolist()
        size = int(torch.randint(0, 5, (1,), generator=generator))
        lists[number] = {"ok": order[:size], "junk": order[size : size + 2]}
    return query, gallery, lists


def expected(query: torch.Tensor, gallery: torch.Tensor, lists: dict[int, dict[str, list[int]]]) -> dict[str, float]:
    return evaluate(query, gallery, ground_truth=[*lists.values()], protocol=OXFORD).means


def feed(metric, query: torch.Tensor, gallery: torch.Tensor, order: list[int], part: slice = slice(None)):
    """Give the samples of a process in an order, queries and gallery items mixed, three at a time."""
    embeddings = torch.cat([query, gallery])
    index = torch.cat([torch.arange(100, 100 + NUM_QUERIES), torch.arange(NUM_GALLERY)])
    for chosen in torch.tensor(order)[part].split(3):
        metric.update(embeddings[chosen], is_query=chosen < NUM_QUERIES, index=index[chosen])
    return metric


@pytest.mark.slow
@examples(10)
@given(st.integers(0, 9), st.permutations(range(NUM_QUERIES + NUM_GALLERY)))
def test_values_are_those_of_one_call_in_any_order_of_samples(seed, order):
    query, gallery, lists = problem(seed)
    found = feed(ReIDMetrics(protocol=OXFORD, ground_truth=lists), query, gallery, order).compute()
    assert {name: float(value) for name, value in found.items()} == pytest.approx(
        expected(query, gallery, lists), abs=1e-6
    )


def on_a_process(process: int, size: int, seed: int) -> tuple[dict[str, float], list[int], list[list[int]]]:
    query, gallery, lists = problem(seed)
    metrics = ReIDMetrics(protocol=OXFORD, ground_truth=lists)
    feed(metrics, query, gallery, [*range(NUM_QUERIES + NUM_GALLERY)], slice(process, None, size))
    values = {name: float(value) for name, value in metrics.compute().items()}
    return values, metrics.results().num_positives.tolist(), metrics.nearest(3).index.tolist()


def test_the_number_of_processes_changes_nothing(processes):
    query, gallery, lists = problem(3)
    whole = evaluate(query, gallery, ground_truth=[*lists.values()], protocol=OXFORD)
    nearest = whole.nearest(3).index.tolist()
    for values, num_positives, listed in processes.run(3, on_a_process, 3):
        assert values == pytest.approx(whole.means, abs=1e-6)
        assert num_positives == whole.num_positives.tolist()
        assert listed == nearest


def test_a_plain_list_is_of_positives_and_a_sequence_is_numbered_from_0():
    query, gallery, _ = problem(0)
    values = []
    for truth in ([[3, 4], [5]], {0: {"ok": [4, 3]}, 1: torch.tensor([5])}, ({"ok": [3, 4]}, {"ok": [5]})):
        metric = ReIDMeanAP(protocol=OXFORD, ground_truth=truth)
        metric.update(query[:2], is_query=True, index=[0, 1])
        metric.update(gallery, is_query=False, index=[*range(NUM_GALLERY)])
        values.append(float(metric.compute()))
    assert values == [values[0]] * 3


QUERY, GALLERY = torch.eye(3), torch.eye(3)
BAD = [
    (
        lambda: ReIDMeanAP(protocol="oxford5k"),
        ValueError,
        "`protocol` 'oxford5k' needs `ground_truth`, lists for every",
    ),
    (lambda: ReIDMeanAP(ground_truth={"a": [1]}), TypeError, "`ground_truth` must be an int; got str."),
    (
        lambda: ReIDMeanAP(ground_truth={7: [1], 9: [4, 4]}),
        ValueError,
        "`ground_truth` must list a gallery item once for a query; got item 4 twice for query 9.",
    ),
    (lambda: ReIDMeanAP(ground_truth=[[1]], same_camera="all"), ValueError, "`same_camera` must come with labels; got"),
    (
        lambda: ReIDMeanAP(ground_truth=[[1]]).update(QUERY),
        ValueError,
        "`index` must be given with `ground_truth`, whic",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), BAD)
def test_a_bad_argument_is_named(call, kind, message):
    with pytest.raises(kind, match=f"^{re.escape(message)}"):
        call()


def lacks_lists(process: int, size: int) -> str:
    metric = ReIDMeanAP(ground_truth=[[0]])
    metric.update(QUERY[process : process + 1], is_query=True, index=[process])
    metric.update(GALLERY[process : process + 1], is_query=False, index=[process])
    with pytest.raises(ValueError, match="`") as raised:
        metric.compute()
    return str(raised.value)


def test_a_query_without_lists_is_an_error_on_all_processes(processes):
    for said in processes.run(2, lacks_lists):
        assert "`ground_truth` must have lists for every query; got none for the query with `index` 1." in said


LABELS_BESIDE_LISTS = {"sequences": [0] * NUM_QUERIES, "groups": [0] * NUM_QUERIES}


@pytest.mark.parametrize("label", LABELS_BESIDE_LISTS)
def test_a_label_that_acts_without_an_option_is_refused_beside_lists(label):
    query, _, lists = problem(0)
    metric = ReIDMeanAP(protocol=OXFORD, ground_truth=lists)
    index = torch.arange(100, 100 + NUM_QUERIES)
    message = f"^`{label}` must come without `ground_truth`, which alone says who is relevant; got both.$"
    with pytest.raises(ValueError, match=message):
        metric.update(query, is_query=True, index=index, **{label: LABELS_BESIDE_LISTS[label]})
