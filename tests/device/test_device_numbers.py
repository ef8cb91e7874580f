"""Random problems of every kind, and public functions, on a device: the values of the CPU."""

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from tests.closeness import assert_values_close
from tests.device.problems import assert_as_on_the_cpu, moved
from tests.profiles import each_row, of_each
from tests.public_calls import DOORS
from tests.same_numbers.answers import public, solve
from tests.same_numbers.differences import numbers_of
from tests.same_numbers.kinds import KINDS
from tests.same_numbers.problems import Made, Problem

OF_TENSORS = [kind for kind in KINDS if kind not in ("files", "hostile", "lists")]


def placed(value: Any, where: str) -> Any:
    """Return a part of a problem with its tensors and arrays on a device."""
    if isinstance(value, Made):
        return Made(value.name, placed(dict(value.arguments), where), placed(list(value.positional), where))
    if isinstance(value, dict):
        return {name: placed(part, where) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(placed(part, where) for part in value)
    is_array = isinstance(value, np.ndarray) and value.dtype.kind in "fiub"
    return moved(torch.from_numpy(value) if is_array else value, where)


def solved(problem: Problem, where: str) -> dict[str, object]:
    """Return the numbers of a problem whose tensors, and metric, are on a device."""
    call = placed(problem.call, where)
    if not call.name.startswith("steps.") and hasattr(public(call.name), "update"):
        call = Made("steps.on_device", {"metric": call, "device": where})
    return numbers_of(solve(replace(problem, call=call, batches=placed(list(problem.batches), where))))


@each_row("kind", OF_TENSORS)
@pytest.mark.filterwarnings("ignore")
def test_problems_of_each_kind_have_the_values_of_the_cpu(device, deterministic, kind):
    for seed in of_each(range(60), suite=4):
        problem = KINDS[kind](Random(f"{kind} {seed}"))  # noqa: S311 - no secret
        assert_values_close(solved(problem, device), solved(problem, "cpu"), f"{kind} {seed}: {problem.facts}")


MADE_HERE = ("nearest", "find_listed_relevance", "mean_by", "mean_over_queries", "mean_over_identities")
FUNCTIONS = {
    name: row
    for name, row in DOORS.items()
    if not {"embeddings", "identities"} & {*row[1]} and name not in (*MADE_HERE, "bootstrap_interval")
}
"""functions of tensors alone; metrics and those with tensors of their own have other tests"""


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore:`multi_query=True` pooled nothing")
def test_a_public_function_has_the_values_of_the_cpu(device, deterministic, name):
    function, given = FUNCTIONS[name]
    assert_as_on_the_cpu(device, lambda where: function(**moved(given, where)))
