"""Loads the recorded outputs of the evaluators of neighboring fields, see `README.md` beside this file."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent / "fields"


@dataclass(frozen=True)
class FieldCase:
    """A problem, and what each evaluator returned for it."""

    name: str
    options: dict[str, object]
    inputs: dict[str, NDArray[np.generic]]
    outputs: dict[str, dict[str, NDArray[np.generic]]]
    """by evaluator, then by name"""
    options_of: dict[str, dict[str, object]]
    """of each evaluator's call"""

    def lists(self, name: str, evaluator: str | None = None) -> list[NDArray[np.generic]]:
        """A ragged input, or output of an evaluator."""
        held = self.inputs if evaluator is None else self.outputs[evaluator]
        separator = f"{name}_" if name else ""
        return np.split(held[f"{separator}flat"], np.cumsum(held[f"{separator}len"])[:-1])


@cache
def index() -> dict[str, dict]:
    """Of every field: its evaluators with their provenance, its cases, and the errors that evaluators raised."""
    return json.loads((FOLDER / "index.json").read_text(encoding="utf-8"))["fields"]


@cache
def load_field(field: str) -> tuple[FieldCase, ...]:
    """All cases of a field."""
    with np.load(FOLDER / f"{field}.npz") as file:
        arrays = dict(file)
    held: dict[str, dict[str, dict[str, NDArray[np.generic]]]] = {}
    for key, array in arrays.items():
        case, evaluator, name = key.split("/", 2)
        held.setdefault(case, {}).setdefault(evaluator, {})[name] = array
    cases = []
    for name, outputs in held.items():
        about = index()[field]["cases"].get(name, {"options": {}, "refs": {}})
        options_of = {evaluator: each.get("options", {}) for evaluator, each in about["refs"].items()}
        cases.append(FieldCase(name, about["options"], outputs.pop("in", {}), outputs, options_of))
    return tuple(cases)
