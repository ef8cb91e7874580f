"""What only `update` of one process sees is told by the first one: roles given and not given, a forgotten reset."""

import warnings

import pytest
import torch

from reid_torchmetrics import ReIDMeanAP

EMBEDDINGS = torch.randn(40, 8, generator=torch.Generator().manual_seed(0))
IDENTITIES = torch.arange(40) % 5


def mix_roles(metric, embeddings, identities, *, is_wrong: bool) -> None:
    """One process leaves the roles out in its second batch."""
    metric.update(embeddings, identities, is_query=torch.arange(len(identities)) % 2 == 0)
    metric.update(-embeddings, identities, is_query=None if is_wrong else torch.arange(len(identities)) % 2 == 0)


def forget_reset(metric, embeddings, identities, *, is_wrong: bool) -> None:
    """One process gives its samples a second time."""
    metric.update(embeddings, identities)
    metric.compute()
    metric.update(embeddings + 1, identities if is_wrong else (identities + 1) % 5)


MISTAKES = {"mixed roles": (mix_roles, "and some without"), "forgotten reset": (forget_reset, "`reset` forgotten")}


def told(process: int, size: int, name: str, wrong: int, method: str) -> list[str]:
    """What is said of a mistake of one process."""
    mistake, text = MISTAKES[name]
    own = slice(process, None, size)
    metric = ReIDMeanAP()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mistake(metric, EMBEDDINGS[own], IDENTITIES[own], is_wrong=process == wrong)
        for _ in range(2):
            getattr(metric, method)()
    return [str(warning.message) for warning in caught if text in str(warning.message)]


@pytest.mark.parametrize("method", ["compute", "nearest"])
@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("wrong", [0, 1])
def test_process_0_tells_once_of_a_mistake_on_any_process(processes, name, wrong, method):
    first, second = processes.run(2, told, name, wrong, method)
    assert len(first) == 1
    assert second == []
