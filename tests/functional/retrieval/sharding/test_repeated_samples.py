"""What a sampler repeats counts once, by `index`; without it, a warning says so; or nothing is repeated."""

import warnings

import pytest
import torch
from torch.utils.data import DistributedSampler

from reid_torchmetrics import ReIDMeanAP, ReIDMetrics, UnpaddedDistributedSampler
from tests.profiles import of_each

NUM_SAMPLES = 31  # no multiple of 2, 3 or 4


def samples(seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "embeddings": torch.randn(NUM_SAMPLES, 5, generator=generator),
        "identities": torch.arange(NUM_SAMPLES) % 7,
        "cameras": torch.randint(0, 3, (NUM_SAMPLES,), generator=generator),
    }


def whole(**options) -> float:
    metric = ReIDMeanAP(sync_on_compute=False)
    metric.update(**samples(), **options)
    return float(metric.compute())


def dealt(process: int, size: int, sampler, numbered: bool, is_query, seeds=(0,)) -> tuple[float, list[str]]:
    """The value on this process, and the warnings."""
    values, said = [], []
    for seed in seeds:
        metrics = ReIDMetrics()
        own = torch.tensor(list(sampler(range(NUM_SAMPLES), size, process, shuffle=False)), dtype=torch.int64)
        batch = {name: column[own] for name, column in samples(seed).items()}
        if numbered:
            batch["index"] = own
        metrics.update(**batch, is_query=None if is_query is None else is_query[own])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            values.append(float(metrics.compute()["map"]))
        said += [str(warning.message) for warning in caught]
    return values[0], said


ROLES = {"leave-one-out": None, "mask": torch.arange(NUM_SAMPLES) % 3 == 0}


SIZES_AND_ROLES = [
    (2, "leave-one-out"),
    (3, "mask"),
    (2, "mask"),
    (3, "leave-one-out"),
    (4, "mask"),
    (4, "leave-one-out"),
]


@pytest.mark.parametrize(("size", "roles"), of_each(SIZES_AND_ROLES, suite=2))
def test_samples_that_a_sampler_repeated_count_once_by_index(processes, size, roles):
    for value, said in processes.run(size, dealt, DistributedSampler, True, ROLES[roles]):
        assert value == pytest.approx(whole(is_query=ROLES[roles]), abs=1e-6)
        assert said == []


@pytest.mark.parametrize("size", of_each([3, 2, 4]))
def test_an_unpadded_sampler_needs_no_index(processes, size):
    for value, said in processes.run(size, dealt, UnpaddedDistributedSampler, False, None):
        assert value == pytest.approx(whole(), abs=1e-6)
        assert said == []
