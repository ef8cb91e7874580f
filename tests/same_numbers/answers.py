"""Solves a problem with the package that is imported, and records each number by its name."""

import dataclasses
import functools
import importlib
import operator
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .problems import Made, Problem, Question
from .written_files import write_file

Values = dict[str, object]
"""numbers, texts and arrays by name; a number or an array is its dtype, its shape and its bytes, see `bits`"""

PLACES = ("", ".functional.retrieval", ".functional.detection", ".data", ".coco", ".command", ".tasks")
"""packages in which a public name is looked for"""
DEPTH = 6
NOT_COMPARED = ("convention", "conventions", "setup", "setup_a", "setup_b", "protocol", "version", "title")
"""keys of JSON and fields of records whose values are words about numbers"""


class NotPublicError(Exception):
    """A name that the package of this checkout does not have."""


@functools.cache
def public(name: str) -> Any:
    """Return a public name of the package, or a function of `tests.same_numbers` whose name begins with "steps."."""
    if name.startswith("steps."):
        return getattr(importlib.import_module("tests.same_numbers.steps"), name.removeprefix("steps."))
    for place in PLACES:
        first, *attributes = name.split(".")
        module = importlib.import_module(f"reid_torchmetrics{place}")
        if first in getattr(module, "__all__", ()) or (place and hasattr(module, first)):
            return functools.reduce(getattr, attributes, getattr(module, first))
    raise NotPublicError(name)


def solve(problem: Problem) -> Values:
    """Return all values of a problem; an error is a value, too, with its type and its text."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        for name, content in problem.files.items():
            write_file(Path(folder, name), content)
        os.chdir(folder)  # some problems write files
        try:
            return _solve(problem, folder)
        finally:
            os.chdir(before)


def _solve(problem: Problem, folder: str) -> Values:
    values: Values = {}

    def record(name: str, compute: Callable[[], object], *, is_value: bool = True) -> object:
        """Compute and record a value; what is raised counts as the value."""
        try:
            value = compute()
            values.update(named_values(name, value) if is_value else {})
        except Exception as error:  # noqa: BLE001 - the other checkout must raise the same one
            text = str(error).replace(folder, "FOLDER").replace(Path(folder).name, "FOLDER")
            values[name] = f"raises {type(error).__name__}: {text}"
            return None
        return value

    made: list[Any] = []
    record("call", lambda: made.append(build(problem.call)))  # which appends nothing where it raises
    if not made:
        return values
    for number, batch in enumerate(problem.batches):
        record(f"update {number}", functools.partial(_update, made[0], batch))
    for question in problem.questions:
        returned = record(question.name, functools.partial(answer, made[0], question), is_value=not question.further)
        for further in question.further if returned is not None else ():
            record(f"{question.name}.{further.name}", functools.partial(answer, returned, further))
    return values


def _update(metric: Any, batch: Mapping[str, Any]) -> None:
    metric.update(**build(batch))


def answer(result: Any, question: Question) -> object:
    """Return what a question asks of a result."""
    value = operator.attrgetter(question.path)(result) if question.path else result
    if question.arguments is None:
        return value
    return value(*build(question.positional), **build(question.arguments))


def build(value: Any) -> Any:
    """Return a value with all objects of the package that are described in it."""
    if isinstance(value, Made):
        return public(value.name)(*build(value.positional), **build(value.arguments))
    if isinstance(value, Mapping):
        return {name: build(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(build(part) for part in value)
    return value


def named_values(name: str, value: object, depth: int = DEPTH) -> Iterator[tuple[str, object]]:
    """Yield all numbers and texts in a value, each with its name."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        value = value.float() if value.dtype == torch.bfloat16 else value
        value = value.numpy()
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "fiubU":
        yield name, bits(np.asarray(value))
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        yield name, value
    elif isinstance(value, (bool, int, float)):
        yield name, bits(np.asarray(value))
    elif isinstance(value, str):
        yield name, value
    elif depth:
        for key, part in _parts(value):
            if key not in NOT_COMPARED:
                yield from named_values(f"{name}.{key}", part, depth - 1)


def _parts(value: object) -> Iterator[tuple[object, object]]:
    """Yield the named parts of a mapping, a sequence or a record; other objects have none."""
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        for name in names:
            yield name, getattr(value, name, None)
    elif isinstance(value, Mapping):
        yield from value.items()
    elif hasattr(value, "_asdict"):
        yield from value._asdict().items()
    elif isinstance(value, (Sequence, np.ndarray)) and len(value) <= 1000:
        yield from enumerate(value)


def bits(array: np.ndarray) -> tuple[str, tuple[int, ...], bytes]:
    """Return the dtype, shape and bytes of an array in which all NaN are equal."""
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return array.dtype.str, array.shape, np.ascontiguousarray(array).tobytes()


def readable(value: object) -> str:
    """Return a value as text with all digits, shortened to its first numbers."""
    if not isinstance(value, tuple):
        return str(value)
    dtype, shape, content = value
    numbers = np.frombuffer(content, dtype).tolist()
    shown = ", ".join(map(repr, numbers[:12])) + (", ..." if len(numbers) > 12 else "")
    return shown if shape == () else f"{np.dtype(dtype).name} {list(shape)} [{shown}]"
