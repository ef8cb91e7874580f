"""The ranks of positives are exactly those of one process with all samples, also where scores tie."""

import itertools
import warnings
from dataclasses import replace

import pytest
import torch

from reid_torchmetrics.functional.retrieval.scores import DEFAULT_MAX_BYTES
from reid_torchmetrics.functional.world import ALONE
from tests.distributed import threads
from tests.distributed.problems import Outcome, Problem, problem
from tests.paths import taking
from tests.profiles import of_each
from tests.strategies import SIMILARITIES_OF_ALL, TIES

NAMED = SIMILARITIES_OF_ALL


def outcomes_of(process, size, problems):
    """What the processes find together."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [Outcome.of(given.together(process)) for given in problems]


def differing(size, problems, wanted=None, processes=None):
    """Where some process does not find what is wanted; by default that is what one process finds alone.

    Processes are threads, or those of `processes` if they are given.
    """
    alone = [given.outcome(ALONE) for given in problems]
    if processes is None:
        outcomes = zip(*(threads.run(size, given.outcome) for given in problems), strict=True)
    else:
        outcomes = processes.run(size, outcomes_of, problems)
    found = dict(enumerate(outcomes)) | {"alone": alone}
    wanted = alone if wanted is None else wanted
    return [
        f"{who}, problem {number}: {problems[number].options}, max_bytes={problems[number].max_bytes}"
        for who, outcomes in found.items()
        for number, outcome in enumerate(outcomes)
        if outcome != wanted[number]
    ]


def spread(embeddings, parts, similarity, ties="pessimistic", *, leave_one_out=False, seed=0, **fields):
    """A problem of these embeddings; `parts` are the numbers of samples of each process."""
    total, generator = len(embeddings), torch.Generator().manual_seed(seed)
    order = torch.randperm(total, generator=generator)
    is_query = torch.rand(total, generator=generator) < 0.25
    return Problem(
        embeddings=embeddings,
        identities=torch.arange(total) % 7,
        cameras=None,
        is_query=None if leave_one_out else is_query,
        index=torch.arange(total),
        seen=[part.tolist() for part in order.split(parts)],
        options={"similarity": similarity, "same_camera": "keep", "junk_identities": (), "ties": ties},
        **fields,
    )


def repeated(total, dimension, *, distinct=12, seed=0):
    """Random embeddings, each several times: their scores are not exact, but equal."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(distinct, dimension, generator=generator, dtype=torch.float64)
    return rows[torch.randint(0, distinct, (total,), generator=generator)]


def half_of_product(*options):
    """Half of all combinations of options: each two values of two options still come together."""
    numbered = itertools.product(*(list(enumerate(values)) for values in options))
    return [[value for _, value in case] for case in numbered if sum(number for number, _ in case) % 2 == 0]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_ranks_are_those_of_one_process_and_of_the_reference(size):
    problems = [problem(1000 * size + seed, size) for seed in of_each(range(20), suite=8)]
    wanted = [Outcome.expected(given) for given in problems]
    assert not differing(size, problems, wanted)


def test_queries_that_are_sent_in_pieces_are_all_sent():
    problems = [problem(5000 + seed, 2) for seed in of_each(range(10), suite=5)]
    wanted = [Outcome.expected(given) for given in problems]
    with taking(walk_bytes=1):  # one at a time
        assert not differing(2, problems, wanted)


def test_a_collapsed_model_has_the_ranks_of_one_process():
    parts = [1, 41, 159]
    rows = [torch.full((201, 37), 0.1), repeated(201, 512, distinct=1).float(), torch.full((201, 512), 0.1)]
    problems = [
        spread(embeddings, parts, similarity, ties, leave_one_out=True)
        for embeddings, similarity, ties in itertools.product(of_each(rows, suite=1), NAMED, TIES)
    ]
    constant = {given.options["ties"]: replace(given, embeddings=torch.ones(201, 1)) for given in problems}
    by_ties = {ties: Outcome.expected(given) for ties, given in constant.items()}
    assert not differing(3, problems, [by_ties[given.options["ties"]] for given in problems])


@pytest.mark.parametrize("dimension", [5, 512])
def test_equal_embeddings_tie_wherever_they_are(dimension):
    embeddings = repeated(100, dimension).float()
    max_bytes = (DEFAULT_MAX_BYTES, 8000, 60_000)  # on the second process every score is computed twice
    cases = half_of_product(([49, 50, 1], [3, 1, 96]), NAMED, TIES, (max_bytes[:1], max_bytes))
    problems = [spread(embeddings, parts, name, ties, max_bytes=memory) for parts, name, ties, memory in cases]
    assert not differing(3, problems)


@pytest.mark.parametrize(
    "dtypes",
    [
        (torch.float16,),
        (torch.bfloat16,),
        (torch.float64,),
        (torch.float32, torch.float64),
        (torch.float64, torch.float32, torch.float32),
        (torch.float16, torch.bfloat16),
        (torch.bfloat16, torch.float32, torch.float16),
    ],
    ids=str,
)
def test_every_dtype_and_mixtures_of_them_are_like_one_process(dtypes):
    embeddings = repeated(60, 37)
    problems = [
        spread(embeddings, [11, 29, 20], similarity, ties, leave_one_out=leave_one_out, dtypes=dtypes)
        for similarity, ties, leave_one_out in half_of_product(NAMED, TIES, (False, True))
    ]
    assert not differing(3, problems)


@pytest.mark.filterwarnings("ignore:The results lack the value of `RawRanks`")
@pytest.mark.parametrize("scale", [1e25, 1e-25])
def test_extreme_embeddings_on_one_process_are_like_one_process(scale):
    problems = []
    for similarity, ties in itertools.product(NAMED, TIES):
        given = spread(repeated(60, 8).float(), [20, 25, 15], similarity, ties)
        given.embeddings[given.seen[1]] *= scale
        problems.append(given)
    wanted = [Outcome.of(given.alone()) for given in problems]
    assert not differing(3, problems, wanted)


@pytest.mark.parametrize("distance", [1e3, 1e5])
def test_distances_far_from_the_origin_are_exact(distance):
    problems = []
    for ties, leave_one_out, seed in itertools.product(TIES, (False, True), of_each(range(3))):
        codes = torch.randint(-4, 5, (60, 6), generator=torch.Generator().manual_seed(seed)) / 4
        # A process of its own for what lies on one side: its mean is far from that of the whole gallery.
        far = spread((codes + distance).float(), [20, 1, 39], "euclidean", ties, leave_one_out=leave_one_out, seed=seed)
        far.seen[2].sort(key=lambda position, row=far.embeddings: float(row[position, 0]))
        problems.append(far)
    wanted = [Outcome.expected(given) for given in problems]
    assert not differing(3, problems, wanted)


def test_the_layout_of_a_process_embeddings_changes_nothing():
    embeddings = repeated(100, 2048).float()
    problems = [
        spread(embeddings, [40, 60], similarity, ties, leave_one_out=True, column_major=(False, True))
        for similarity, ties in itertools.product(NAMED, TIES)
    ]
    assert not differing(2, problems)


def test_an_extreme_junk_item_changes_nothing():
    problems = []
    for seed in range(10):
        rows = torch.randint(-2, 3, (60, 5), generator=torch.Generator().manual_seed(seed)).float()
        given = spread(rows, [30, 30], "cosine")
        given.identities[-1], given.is_query[-1], given.embeddings[-1] = -1, False, 1e25
        given.options["junk_identities"] = (-1,)
        problems.append(given)
    assert not differing(2, problems)
