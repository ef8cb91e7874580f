"""However samples are dealt out, every process computes what the slow reference says of all, each counted once."""

import warnings

import pytest

from tests.distributed.shards import PADDED, SHARDINGS, loaders, reference_of
from tests.metrics.reid.samples import CLASSES, expected
from tests.profiles import of_each

CASES = [(sharding, True) for sharding in SHARDINGS] + [
    (name, False) for name in ("contiguous", "uneven", "empty_first")
]

COLUMNS = ("average_precision", "inverse_negative_penalty", "first_rank", "num_positives", "num_candidates")


def compute_all(process, size, roles):
    return {case: _compute(process, size, roles, *case) for case in CASES}


def _compute(process, size, roles, sharding, index):
    metrics = {name: kind() for name, kind in CLASSES.items()}
    for loader in loaders(roles):
        for batch in loader.batches(SHARDINGS[sharding](len(loader), size)[process], index=index):
            for metric in metrics.values():
                metric.update(**batch)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The ``compute`` method", UserWarning)
        warnings.filterwarnings("error", "All processes hold", UserWarning)
        values = {name: metric.compute().reshape(-1).tolist() for name, metric in metrics.items()}
        results = metrics["map"].results()
    columns = {name: getattr(results, name).tolist() for name in COLUMNS}
    return values | columns | {"counts": list(vars(results.counts).items())}


def _expected(size, roles, sharding, index):
    given = loaders(roles)
    dealt = [SHARDINGS[sharding](len(loader), size) for loader in given]
    process_by_process = [sum(parts, []) for parts in dealt]
    reference, counts = reference_of(given, None if index else process_by_process)
    return {name: expected(name, reference) for name in CLASSES} | {
        "average_precision": reference.average_precision["rectangle"],
        "inverse_negative_penalty": reference.inverse_negative_penalty,
        "first_rank": reference.first_rank,
        "num_positives": [len(found) for found in reference.ranks],
        "num_candidates": reference.num_candidates,
        "counts": list(counts.items()),
    }


def _differ(actual, wanted):
    if actual.keys() != wanted.keys():
        return sorted(actual.keys() ^ wanted.keys())
    same = {
        name: wanted[name] if name == "counts" else pytest.approx(wanted[name], abs=1e-6, nan_ok=True)
        for name in wanted
    }
    return [name for name in wanted if actual[name] != same[name]]


@pytest.mark.parametrize("roles", ["two_loaders", "mixed", "leave_one_out"])
@pytest.mark.parametrize("size", of_each([3, 1, 2, 4]))
def test_every_process_computes_what_the_reference_says_of_all_samples(processes, size, roles):
    outcomes = processes.run(size, compute_all, roles)
    wanted = {case: _expected(size, roles, *case) for case in CASES}
    wrong = {
        f"process {process}, {sharding}, {'with' if index else 'without'} index": differing
        for process, outcome in enumerate(outcomes)
        for sharding, index in CASES
        if (differing := _differ(outcome[sharding, index], wanted[sharding, index]))
    }
    assert not wrong


def test_the_problem_has_queries_of_every_kind():
    for roles in ("two_loaders", "mixed", "leave_one_out"):
        _, counts = reference_of(loaders(roles))
        assert all(counts[name] for name in counts.keys() - {"not_ranked"}), counts


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_every_sharding_deals_out_every_sample(size):
    for name, sharding in SHARDINGS.items():
        dealt = sharding(67, size)
        assert len(dealt) == size
        assert sorted(set(sum(dealt, []))) == list(range(67))
        assert (len(sum(dealt, [])) > 67) == (name in PADDED and size > 1)
