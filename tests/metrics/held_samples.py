"""What every metric keeps to: it holds its samples in copies, checkpoints, merged metrics and steps, until a reset."""

import pickle
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import torch
from torchmetrics import Metric

COPIES: tuple[Callable[[Any], Any], ...] = (
    deepcopy,
    lambda metric: metric.clone(),
    lambda metric: pickle.loads(pickle.dumps(metric)),
)


def fed(metric: Any, given: Sequence[Mapping[str, Any]]) -> Any:
    """The metric after batches, which are arguments of `update`."""
    for batch in given:
        metric.update(**batch)
    return metric


def check_held_samples(
    make: Callable[[], Metric], given: Sequence[Mapping[str, Any]], is_same: Callable[[Any, Any], bool]
) -> None:
    """Check that the value of some batches comes out in every way in which a metric may get its samples."""
    first, others = given[:1], given[1:]
    expected = fed(make(), given).compute()

    metric = fed(make(), given)
    metric.compute()
    metric.reset()
    assert not any(getattr(metric, name) for name, default in metric._defaults.items() if default == [])
    assert is_same(fed(metric, given).compute(), expected)

    for copy in COPIES:
        held = fed(make(), first)
        twin = copy(held)
        assert is_same(fed(twin, others).compute(), expected)
        assert is_same(held.compute(), fed(make(), first).compute())

    saved, loaded = fed(make(), given), make()
    assert saved.state_dict() == {}
    for metric in (saved, loaded):
        metric.persistent(mode=True)
    loaded.load_state_dict(saved.state_dict())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The ``compute`` method of metric")  # before any `update` of its own
        assert is_same(loaded.compute(), expected)

    merged, other = fed(make(), first), fed(make(), others)
    merged.compute()
    for metric in (other, make()):
        merged.merge_state(metric)
    assert is_same(merged.compute(), expected)
    assert is_same(other.compute(), fed(make(), others).compute())

    stepwise = make()
    for batch in given:
        assert is_same(stepwise(**batch), fed(make(), [batch]).compute())
    assert is_same(stepwise.compute(), expected)

    with torch.inference_mode():
        assert is_same(fed(make(), given).compute(), expected)
