"""Without `index` it is said that processes hold the same samples, and of legitimate data it is never said."""

import itertools
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.utils.data import DistributedSampler

from reid_torchmetrics import ReIDMeanAP
from reid_torchmetrics.functional import world
from reid_torchmetrics.functional.retrieval import sharding
from reid_torchmetrics.functional.retrieval.evaluation import RankedSamples
from reid_torchmetrics.functional.world import results_made, samples_shared
from tests.diagnosis.contract import warned_by
from tests.distributed import threads
from tests.profiles import of_each

PADDED, GATHERED = "the last of one are the first of another", "Several processes hold the same samples"
Shards = list[list[int]]


def accelerate(total: int, size: int, batch_size: int) -> Shards:
    """Positions of each process's samples: `BatchSamplerShard` of Accelerate 1.15, `even_batches`, not split.

    Batches are dealt out in turn. The last round is filled up with the first samples of the data set.
    """
    batches = [[*range(first, min(first + batch_size, total))] for first in range(0, total, batch_size)]
    first = list(itertools.chain.from_iterable(batches[:size]))
    repeated = itertools.cycle(first)
    batches[-1] += itertools.islice(repeated, batch_size - len(batches[-1]))
    while len(batches) % size:
        batches.append([*itertools.islice(repeated, batch_size)])
    return [list(itertools.chain.from_iterable(batches[process::size])) for process in range(size)]


def padded(total: int, size: int, *, shuffle: bool = False) -> Shards:
    return [list(DistributedSampler(range(total), size, process, shuffle=shuffle)) for process in range(size)]


def dealt(total: int, size: int) -> Shards:
    """In turn, without padding; equally many where `total` is a multiple of `size`."""
    return [list(range(process, total, size)) for process in range(size)]


def chunks(total: int, size: int) -> Shards:
    return [part.tolist() for part in torch.arange(total).tensor_split(size)]


def said(embeddings: Tensor, identities: Tensor, shards: Shards, is_query=None, noise: float = 0.0) -> list[str]:
    """What is warned of when the processes hold these samples; `noise` rounds otherwise in each process.

    The samples are compared but not ranked, which would be most of the time.
    """

    def rank(of: world.World) -> None:
        own = torch.tensor(shards[of.process], dtype=torch.int64)
        generator = torch.Generator().manual_seed(of.process)
        rounding = 1 + noise * torch.randn(len(own), embeddings.shape[1], generator=generator)
        metric = ReIDMeanAP()
        if len(own):
            roles = is_query[own] if isinstance(is_query, Tensor) else is_query
            metric.update((embeddings[own] * rounding).to(embeddings.dtype), identities[own], is_query=roles)
        leave_one_out = metric._ranking_options().protocol.leave_one_out
        shard = sharding.examine_samples(of, metric._accepted_samples().samples, leave_one_out=leave_one_out)
        results_made(None, RankedSamples(metric.protocol, compared=samples_shared(shard, of)), of)

    return warned_by(lambda: threads.run(len(shards), rank))


def drawn(total: int, seed: int = 0, dimension: int = 16) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(total, dimension, generator=generator), torch.arange(total) % 7


ROLES = {"leave-one-out": None, "mask": lambda total: torch.arange(total) % 3 == 0}


def roles(name: str, total: int):
    return None if ROLES[name] is None else ROLES[name](total)


@pytest.mark.parametrize("name", ROLES)
@pytest.mark.parametrize("noise", [0.0, 2e-3])
@pytest.mark.parametrize(
    ("total", "size", "batch_size"), [(61, 2, 8), (70, 2, 8), (41, 3, 8), (101, 4, 5), (60, 4, 7), (33, 2, 16)]
)
def test_samples_that_accelerate_repeats_to_make_batches_even_have_a_warning(name, noise, total, size, batch_size):
    shards = accelerate(total, size, batch_size)
    assert len({*map(len, shards)}) == 1
    assert sum(map(len, shards)) > total
    (text,) = said(*drawn(total), shards, roles(name, total), noise)
    assert PADDED in text
    assert "`index`" in text


@pytest.mark.parametrize("noise", [0.0, 2e-3])
@pytest.mark.parametrize("shuffle", [False, True])
def test_samples_that_a_distributed_sampler_repeats_have_a_warning(noise, shuffle):
    for total, size in ((31, 2), (31, 3), (31, 4), (100, 7)):
        (text,) = said(*drawn(total), padded(total, size, shuffle=shuffle), None, noise)
        assert PADDED in text


@pytest.mark.parametrize("name", ROLES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_samples_that_were_gathered_by_hand_have_a_warning(name, dtype):
    embeddings, identities = drawn(40)
    for order in (range(40), torch.randperm(40).tolist()):  # some gather their own samples first
        (text,) = said(embeddings.to(dtype), identities, [[*range(40)], [*order]], roles(name, 40))
        assert GATHERED in text
        assert "`index`" in text


def test_two_samples_of_any_identity_that_differ_are_enough_to_tell():
    embeddings, _ = drawn(9)
    (text,) = said(embeddings, torch.tensor([0, 1, 2, 3, 4, 5, 6, 7, 7]), [[*range(9)]] * 2)
    assert GATHERED in text


def test_queries_alone_that_were_gathered_are_said():
    is_query = torch.arange(40) < 10
    queries = [*range(10)]
    (text,) = said(*drawn(40), [[*queries, *range(10, 25)], [*queries, *range(25, 40)]], is_query)
    assert GATHERED in text


def legitimate(seed: int) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Embeddings and identities of samples without a repetition, by what they are like."""
    generator = torch.Generator().manual_seed(seed)
    total = int(torch.randint(2, 41, (1,), generator=generator))
    dimension = int(torch.randint(1, 17, (1,), generator=generator))
    identities = torch.randint(0, int(torch.randint(1, 8, (1,), generator=generator)), (total,), generator=generator)
    normal = torch.randn(total, dimension, generator=generator)
    yield "normal", normal, identities
    yield "constant", torch.ones(total, dimension), identities
    yield "constant up to rounding", 1 + 1e-6 * normal, identities
    yield "one embedding for each identity", normal[identities % total], identities
    yield "one-hot", torch.nn.functional.one_hot(identities).float(), identities
    yield "codes of bits", torch.randint(0, 2, (total, dimension), generator=generator).float(), identities
    yield "small numbers", torch.randint(-1, 2, (total, dimension), generator=generator).float(), identities
    yield "two views of every image", torch.cat([normal, normal + 0.1 * normal.flip(0)]), identities.repeat(2)
    yield "zeros", torch.zeros(total, dimension), identities


@pytest.mark.parametrize("deal", [dealt, chunks])
@pytest.mark.slow
def test_nothing_is_said_of_samples_that_are_dealt_out_once(deal):
    alarms = []
    for seed in of_each(range(30), suite=8):
        for kind, embeddings, identities in legitimate(seed):
            total, size = len(identities), 2 + seed % 3
            even = total - total % size if seed % 2 else total
            for is_query in (None, torch.arange(total) % 3 == 0):
                texts = said(embeddings, identities, deal(even, size), is_query)
                alarms += [(seed, kind, text) for text in texts]
    assert alarms == []


def test_copies_in_the_data_set_are_no_repetitions():
    """Every second image is there twice, on the same process or on two."""
    for seed in of_each(range(20), suite=8):
        embeddings, identities = drawn(300, seed)
        order = torch.randperm(300, generator=torch.Generator().manual_seed(seed))
        source = torch.arange(300)
        source[order[:75]] = order[75:150]
        for deal in (dealt, chunks):
            assert said(embeddings[source], identities[source], deal(300, 2 + seed % 2)) == []


def test_samples_of_one_process_or_of_none_say_nothing():
    for shards in ([[*range(20)], []], [[], [*range(20)]], [[], []], [[3], [3]]):
        assert said(*drawn(20), shards) == []
