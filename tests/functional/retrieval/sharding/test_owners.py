"""Which of the samples with one `index` counts is asked of the process that owns the number, in few collectives."""

import random

import pytest
import torch

from reid_torchmetrics.functional.retrieval.sharding.samples import Samples, lowest_of_each
from reid_torchmetrics.functional.world import ALONE, DistributedMetricError, owners
from tests.distributed import threads

EXTREMES = [-(2**63), 2**63 - 1, -1, 0, 1, 2**62, -(2**62)]

Numbers = tuple[list[int], list[int]]
"""of the queries and of the gallery items of a process, distinct within a role"""


def chosen(world, numbers: Numbers, identity: int | None = None) -> list[list[int]]:
    """The numbers that count; the identity of a sample is its number where none is given."""
    index = torch.tensor(numbers[0] + numbers[1], dtype=torch.int64)
    identities = index if identity is None else torch.full_like(index, identity)
    samples = Samples([torch.zeros(len(index), 1)], torch.ones_like(index), {"identities": identities, "index": index})
    roles = torch.arange(len(index)).split([len(numbers[0]), len(numbers[1])])
    return [index[positions].tolist() for positions in lowest_of_each(world, samples, roles)]


def of_definition(shares: list[Numbers]) -> list[list[list[int]]]:
    """A number counts on the first process that has it, for each role."""
    seen: tuple[set[int], set[int]] = set(), set()
    counted = []
    for share in shares:
        counted.append([[number for number in share[role] if number not in seen[role]] for role in (0, 1)])
        seen[0].update(share[0])
        seen[1].update(share[1])
    return counted


def drawn(size: int, seed: int) -> list[Numbers]:
    """Numbers of `size` processes: many repeated, extreme, equal modulo `size`; some processes have none."""
    drawing = random.Random(seed)  # noqa: S311
    pool = drawing.choice(
        [EXTREMES, [*range(0, 40 * size, size)], [drawing.randrange(-(2**63), 2**63) for _ in range(30)]]
    )
    return [
        tuple(drawing.sample(pool, drawing.choice([0, 1, len(pool) // 2, len(pool)])) for _ in range(2))
        for _ in range(size)
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_a_number_counts_on_the_lowest_process_that_has_it(size):
    for seed in range(30):
        shares = drawn(size, seed)
        found = threads.run(size, lambda world, shares=shares: chosen(world, shares[world.process]))
        assert found == of_definition(shares), seed


def counted(world: threads.ThreadWorld, numbers: Numbers) -> int:
    """Collectives, which are one exchange each on threads."""
    exchange, calls = world._exchange, []
    world._exchange = lambda *args, **options: calls.append(1) or exchange(*args, **options)
    chosen(world, numbers)
    return len(calls)


def test_as_many_collectives_for_any_number_of_processes():
    found = {size: set(threads.run(size, lambda world: counted(world, ([1, 2], [3])))) for size in (2, 3, 8)}
    assert found == {2: {6}, 3: {6}, 8: {6}}
    assert chosen(ALONE, ([1, 2], [3])) == [[1, 2], [3]]


@pytest.mark.parametrize(
    "numbers",
    [torch.arange(3, 80_000, 8), torch.arange(10_000) << 40, torch.arange(-5_000, 5_000), torch.arange(10_000) * 10**9],
)
def test_processes_own_about_as_many_numbers_each(numbers):
    world = threads.run(8, lambda world: world)[0]
    of_each = owners(world, numbers).bincount(minlength=8)
    assert len(of_each) == 8
    assert (of_each - len(numbers) / 8).abs().max() < 0.1 * len(numbers) / 8


def test_other_labels_are_an_error_on_all_wherever_they_are():
    """Processes 0 and 2 have other identities for the number 5 among the queries, and 1 one among the gallery items."""
    shares = [([5, 6], [7]), ([], [5]), ([5], [])]

    def said(world) -> str:
        with pytest.raises(DistributedMetricError) as caught:
            chosen(world, shares[world.process], identity=world.process)
        return str(caught.value)

    first, *others = threads.run(3, said)
    assert others == [first, first]
    assert "got 5 for identity 0 and for identity 2." in first
    assert first.count("ValueError") == 1
