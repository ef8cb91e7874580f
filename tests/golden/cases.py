"""Loads the recorded outputs of the retrieval evaluators, see `README.md` beside this file."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Problem:
    """What every evaluator was given. `distances` [queries, gallery] holds their order only: ranks within the row."""

    distances: NDArray[np.float64]
    query_identities: NDArray[np.int64]
    gallery_identities: NDArray[np.int64]
    query_cameras: NDArray[np.int64]
    gallery_cameras: NDArray[np.int64]


@dataclass(frozen=True)
class Record:
    """One recorded array, and what the index says about the function that returned it."""

    case: str
    output: str
    value: NDArray[np.generic]
    about: dict[str, object]

    @property
    def problem(self) -> str:
        """Name of the problem: the case without its variant."""
        return self.case.partition("__")[0]

    @property
    def variant(self) -> str:
        """What was changed in the problem before the call: `dropjunk`, a tie order, or nothing."""
        return self.case.partition("__")[2]

    @property
    def tolerance(self) -> float:
        """Largest absolute difference that the evaluator's own precision explains."""
        is_single = self.value.dtype == np.float32 or self.about.get("precision") == "float32"
        return 1e-6 if is_single else 1e-12


@dataclass(frozen=True)
class RecordedError:
    """An exception that an evaluator raised on a problem."""

    case: str
    peer: str
    function: str
    options: dict[str, object]
    error: str
    message: str


def _load_index() -> dict[str, dict]:
    return json.loads((FOLDER / "retrieval.json").read_text(encoding="utf-8"))


def _load_problems(arrays: dict[str, NDArray[np.generic]]) -> dict[str, Problem]:
    names = dict.fromkeys(key.partition("/")[0] for key in arrays if "/" in key)
    return {name: _problem({key: arrays[f"{name}/{key}"] for key in _INPUTS}) for name in names}


_INPUTS = ("distance_order", "query_identities", "gallery_identities", "query_cameras", "gallery_cameras")


def _problem(inputs: dict[str, NDArray[np.generic]]) -> Problem:
    return Problem(inputs.pop("distance_order").astype(np.float64), **inputs)


def _load_records(index: dict[str, dict], values: NDArray[np.float64]) -> dict[str, Record]:
    records, start = {}, 0
    for key, (dtype, shape) in index["recorded"].items():
        case, _, output = key.partition("/")
        stop = start + math.prod(shape)
        value = values[start:stop].reshape(shape).astype(dtype)
        records[key] = Record(case, output, value, index["outputs"][output])
        start = stop
    return records


def _load_errors(index: dict[str, dict]) -> dict[str, RecordedError]:
    return {key: _error(*key.split("/")[:2], about) for key, about in index["errors"].items()}


def _error(case: str, peer: str, about: dict[str, object]) -> RecordedError:
    return RecordedError(case, peer, about["function"], about["options"], about["error"], about["message"])


with np.load(FOLDER / "retrieval.npz") as _file:
    _arrays = dict(_file)
_index = _load_index()

PROBLEMS = _load_problems(_arrays)
RECORDS = _load_records(_index, _arrays["recorded"])
ERRORS = _load_errors(_index)
