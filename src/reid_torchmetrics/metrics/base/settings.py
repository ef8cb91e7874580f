"""The settings that must be the same on all processes, and the error where they differ."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TypeVar

from reid_torchmetrics.functional.world import Alone, DistributedMetricError, differing, disagreement

from .process_group import DistributedWorld

Result = TypeVar("Result")


@dataclass(frozen=True)
class Settings:
    """The metric, the method and the options of a call, as text that is the same in every process."""

    metric: str
    """the class"""
    method: str
    """that was called"""
    options: Mapping[str, str]
    """what decides the value, by the names that users know"""
    implied: Mapping[str, str]
    """derived values; named in the error only if all options agree"""


def meet(
    world: DistributedWorld | Alone,
    look: Callable[[], tuple[Result, Sequence[int]]],
    describe: Callable[[], Settings],
) -> tuple[Result, list[list[int]]]:
    """Begin to compute: do local work, learn some numbers that come of it on all processes, and compare the settings.

    This is the first message of a computation; it has one shape for every method.

    Raises:
        DistributedMetricError: the work failed on some process, or settings differ.
    """
    if isinstance(world, Alone):
        return world.guarded_all_gather(look)

    def work() -> tuple[tuple[Result, str], list[int]]:
        done, numbers = look()
        text = json.dumps(asdict(describe()), sort_keys=True)
        return (done, text), [_digest(text), *numbers]

    (done, text), table = world.guarded_all_gather(work)
    if len({digest for digest, *_ in table}) > 1:
        raise _difference([Settings(**json.loads(each)) for each in world.texts(text)])
    return done, [row[1:] for row in table]


def _difference(settings: Sequence[Settings]) -> DistributedMetricError:
    # What users see first: another class, then another protocol, then options, then what follows from them.
    called = [f"`{each.metric}.{each.method}`" for each in settings]
    if len(set(called)) > 1:
        return disagreement("call the same method of the same class", called)
    options = [each.options for each in settings]
    # Where protocols differ, so do the options that follow from them.
    protocols = [{name: value for name, value in each.items() if name == "protocol"} for each in options]
    for values in (protocols, options, [each.implied for each in settings]):
        names = [name for name in sorted(set().union(*values)) if len({each.get(name) for each in values}) > 1]
        if names:
            return _difference_of(names, values)
    raise AssertionError  # the digests differ


def _difference_of(names: Sequence[str], values: Sequence[Mapping[str, str]]) -> DistributedMetricError:
    if len(names) == 1:
        return differing(f"`{names[0]}`", [each.get(names[0]) for each in values])
    listed = [", ".join(f"{name}={each.get(name)}" for name in names) for each in values]
    return differing(" and ".join(f"`{name}`" for name in names), listed)


def _digest(text: str) -> int:
    """A number that stands for a text when processes compare theirs."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")
