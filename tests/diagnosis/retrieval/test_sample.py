"""The dense sample of a case has the scores, positives and negatives that the definitions give."""

from random import Random
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics import KReciprocal
from reid_torchmetrics.diagnosis.causes import NotHeldError
from reid_torchmetrics.diagnosis.retrieval import RetrievalCase
from reid_torchmetrics.diagnosis.retrieval.case import MOST_QUERIES
from reid_torchmetrics.functional.retrieval import evaluate, evaluate_scores, find_protocol
from reid_torchmetrics.functional.retrieval.evaluation import RankedSamples
from tests.extra_labels import PROTOCOL
from tests.extra_labels import Problem as ProblemWithNames
from tests.profiles import examples
from tests.reference.relevance import sort_gallery
from tests.strategies import problems

pytestmark = pytest.mark.filterwarnings("ignore")


def case_of(results: Any) -> RetrievalCase:
    """The case of the results of a function."""
    evaluated = results.problem
    problem = evaluated.problem
    samples = RankedSamples(
        results.protocol,
        options=evaluated.options(is_cmc=True),
        find_problem=lambda: problem,
        num_gallery=problem.source.shape[1],
    )
    _, ranking_for_cmc = evaluated.rank()
    return RetrievalCase(ranking_for_cmc, samples)


def check(results: Any, scores: torch.Tensor, positives: list[list[int]], negatives: list[list[int]]) -> None:
    """Raise an AssertionError unless the sample is what is expected, given all scores."""
    case = case_of(results)
    if not scores.numel():
        with pytest.raises(NotHeldError):
            case.sample  # noqa: B018 - made when it is asked for
        return
    try:
        sample = case.sample
    except NotHeldError:  # all items are junk
        assert not any(positives + negatives)
        return
    kept = torch.arange(scores.shape[1]) if sample.relevance.kept is None else sample.relevance.kept
    for query, (right, wrong) in enumerate(zip(positives, negatives, strict=True)):
        assert kept[sample.is_positive[query]].tolist() == sorted(right)
        assert kept[sample.is_candidate[query]].tolist() == sorted(right + wrong)
    expected = scores[:, kept].to(sample.scores.dtype)[sample.is_candidate]
    assert torch.allclose(sample.scores[sample.is_candidate], expected, atol=1e-5)


def sorted_items(queries: list[dict], gallery: list[dict], **rules: Any) -> tuple[list[list[int]], list[list[int]]]:
    found = [sort_gallery(query, gallery, **rules) for query in queries]
    return [each.positive for each in found], [each.negative for each in found]


@examples(60)
@given(problems(), st.sampled_from(["scores", "distances"]))
def test_a_matrix_has_a_sample_under_rules_of_cameras_and_junk(problem, kind):
    sides: list[list[dict]] = []
    for identities, cameras in (problem.labels[::2], problem.labels[1::2]):
        side = [{"identity": int(each)} for each in identities]
        for number, sample in enumerate(side):
            if cameras is not None:
                sample["camera"] = int(cameras[number])
        sides.append(side)
    for query, sample in enumerate(sides[0]):
        if problem.self_index is not None:
            sample["position"] = int(problem.self_index[query])
    rules = {"same_camera": problem.same_camera, "junk_identities": problem.junk_identities}
    matrix = {"scores": problem.scores} if kind == "scores" else {"distances": -problem.scores}
    results = evaluate_scores(matrix.pop("scores", None), *problem.labels, **matrix, **problem.options)
    check(results, problem.scores, *sorted_items(*sides, **rules))


@examples(30)
@given(st.integers(0, 10**6))
def test_embeddings_have_a_sample_under_labels_by_name(seed):
    problem = ProblemWithNames(seed)
    queries, gallery = (problem.embeddings[[*part]] for part in (problem.queries, problem.gallery))
    results = evaluate(queries, gallery, **problem.of_both(), **(PROTOCOL | problem.options), similarity="dot")
    rules: dict[str, Any] = PROTOCOL | problem.options
    for rule in ("must_agree", "must_differ"):
        rules[rule] = ["camera" if name == "cameras" else name for name in problem.options[rule]]
    sides = [[problem.samples[place] for place in part] for part in (problem.queries, problem.gallery)]
    items = sorted_items(*sides, **rules)
    check(results, problem.scores, *items)
    if any(map(any, items)):
        sample = case_of(results).sample
        assert torch.equal(sample.problem.source.query.local.all(), queries)


def sides_of(random: Random, num_queries: int = 6, num_gallery: int = 15) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(random.getrandbits(32))
    return torch.randn(num_queries, 4, generator=generator), torch.randn(num_gallery, 4, generator=generator)


@examples(20)
@given(st.integers(0, 10**6), st.sampled_from(["cosine", "euclidean", "own"]))
def test_several_labels_and_similarities_have_a_sample(seed, name):
    random = Random(seed)  # noqa: S311 - no secret
    queries, gallery = sides_of(random)
    labels = [
        torch.randint(2, (len(side), 3), generator=torch.Generator().manual_seed(seed)) for side in (queries, gallery)
    ]

    def own(one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
        return one[:, :1] * two[:, 0]

    results = evaluate(queries, gallery, *labels, similarity=own if name == "own" else name)
    shared = labels[0] @ labels[1].T > 0
    positives = [row.nonzero()[:, 0].tolist() for row in shared]
    negatives = [(~row).nonzero()[:, 0].tolist() for row in shared]
    if name == "own":
        check(results, own(queries, gallery), positives, negatives)
        return
    sample = case_of(results).sample  # scores of a query need only have their order
    expected = {
        "cosine": torch.nn.functional.cosine_similarity(queries.double()[:, None], gallery.double(), dim=2),
        "euclidean": -torch.cdist(queries.double(), gallery.double()),
    }[name]
    assert torch.equal(sample.scores.argsort(1), expected.argsort(1))
    assert [row.nonzero()[:, 0].tolist() for row in sample.is_positive] == positives


@examples(20)
@given(st.integers(0, 10**6), st.sampled_from(["lists", "matrix", "by name"]))
def test_listed_truth_has_a_sample(seed, form):
    random = Random(seed)  # noqa: S311 - no secret
    queries, gallery = sides_of(random)
    right = [sorted(random.sample(range(15), random.randint(0, 4))) for _ in queries]
    junk: list[list[int]] = [[] for _ in queries]
    truth: Any = right
    if form == "matrix":
        truth = torch.zeros(6, 15, dtype=torch.bool)
        for query, items in enumerate(right):
            truth[query, items] = True
    elif form == "by name":
        junk = [[item for item in (0, 7) if item not in items] for items in right]
        truth = [{"ok": items, "junk": others} for items, others in zip(right, junk, strict=True)]
    dropped = torch.rand(6, 15, generator=torch.Generator().manual_seed(seed)) < 0.2
    options: dict[str, Any] = {}
    if random.random() < 0.5:
        options["junk_pairs"] = dropped if random.random() < 0.5 else lambda rows, items: dropped[rows][:, items]
    else:
        dropped[:] = False
    results = evaluate(queries, gallery, ground_truth=truth, similarity="dot", **options)
    kept = [[item for item in range(15) if not dropped[query, item]] for query in range(6)]
    positives = [[item for item in kept[query] if item in right[query]] for query in range(6)]
    negatives = [[item for item in kept[query] if item not in right[query] + junk[query]] for query in range(6)]
    check(results, queries @ gallery.T, positives, negatives)


@examples(20)
@given(st.integers(0, 10**6))
def test_positions_within_a_radius_have_a_sample(seed):
    random = Random(seed)  # noqa: S311 - no secret
    queries, gallery = sides_of(random)
    places = [
        torch.randint(5, (len(side),), generator=torch.Generator().manual_seed(seed)).double()
        for side in (queries, gallery)
    ]
    labels = {"query_positions": places[0], "gallery_positions": places[1]}
    results = evaluate(queries, gallery, radius=1.0, similarity="dot", **labels)
    near = (places[0][:, None] - places[1]).abs() <= 1
    positives = [row.nonzero()[:, 0].tolist() for row in near]
    negatives = [(~row).nonzero()[:, 0].tolist() for row in near]
    check(results, queries @ gallery.T, positives, negatives)
    query_places, gallery_places, radius = case_of(results).positions
    assert [query_places.flatten().tolist(), gallery_places.flatten().tolist(), radius] == [
        *map(torch.Tensor.tolist, places),
        1,
    ]


@examples(20)
@given(st.integers(0, 10**6))
def test_groups_have_a_sample_with_the_scores_of_their_best_members(seed):
    random = Random(seed)  # noqa: S311 - no secret
    queries, gallery = sides_of(random)
    groups = torch.tensor([random.randint(0, 4) for _ in gallery])
    identity_of_group = [random.randint(-1, 1) for _ in range(5)]
    identities = torch.tensor([identity_of_group[group] for group in groups.tolist()])
    own = torch.tensor([random.randint(0, 1) for _ in queries])
    results = evaluate(queries, gallery, own, identities, gallery_groups=groups, similarity="dot")
    scores = queries @ gallery.T
    present = list(dict.fromkeys(groups.tolist()))
    best = torch.stack([scores[:, groups == group].amax(1) for group in present], dim=1)
    labels = [identity_of_group[group] for group in present]
    positives = [[place for place, label in enumerate(labels) if label == each] for each in own.tolist()]
    negatives = [[place for place, label in enumerate(labels) if label not in (each, -1)] for each in own.tolist()]
    check(results, best, positives, negatives)


def test_of_many_queries_some_are_drawn_evenly():
    random = Random(0)  # noqa: S311 - no secret
    queries, gallery = sides_of(random, 1000, 30)
    case = case_of(evaluate(queries, gallery, torch.arange(1000) % 30, torch.arange(30), similarity="dot"))
    assert len(case.sample.scores) == MOST_QUERIES
    numbers = case.sample.problem.query_numbers
    assert set(numbers.diff().tolist()) <= {3, 4}
    assert torch.allclose(case.sample.scores, (queries @ gallery.T)[numbers], atol=1e-5)
    assert torch.equal(case.sample.is_positive.nonzero()[:, 1], numbers % 30)


def test_a_sample_takes_the_memory_that_scores_may_take():
    queries, gallery = sides_of(Random(0), 20, 10)  # noqa: S311 - no secret
    labels = torch.arange(20) % 10, torch.arange(10)
    for max_bytes, num_queries in ((1, 1), (5 * 10 * 32, 5), (1 << 20, 20)):
        assert len(case_of(evaluate(queries, gallery, *labels, max_bytes=max_bytes)).sample.scores) == num_queries


def test_a_sample_is_none_under_reranking_and_without_a_problem():
    random = Random(0)  # noqa: S311 - no secret
    queries, gallery = sides_of(random)
    case = case_of(evaluate(queries, gallery, torch.arange(6), torch.arange(15), rerank=KReciprocal(k1=3, k2=2)))
    without_samples = RetrievalCase(case.ranking, RankedSamples(find_protocol("market1501")))
    for each, lacks in ((case, "scores without re-ranking"), (without_samples, "samples")):
        with pytest.raises(NotHeldError, match=lacks):
            each.sample  # noqa: B018 - made when it is asked for
