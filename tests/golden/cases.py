"""Loads the recorded outputs of other evaluators, see `README.md` beside this file."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent
THEMES = (
    "retrieval",
    "ties",
    "cutoffs",
    "pairs",
    "draws",
    "embeddings",
    "listed",
    "reranking",
    "detections",
)  # one pair of files each


@dataclass(frozen=True)
class Problem:
    """Distances and labels that evaluators were given; `README.md` says where distances are an order only."""

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


@dataclass(frozen=True)
class Recording:
    """What one pair of files holds: inputs by problem and name, and what evaluators returned or raised."""

    inputs: dict[str, dict[str, NDArray[np.generic]]]
    records: dict[str, Record]
    errors: dict[str, RecordedError]


def load(theme: str) -> Recording:
    index = json.loads((FOLDER / f"{theme}.json").read_text(encoding="utf-8"))
    with np.load(FOLDER / f"{theme}.npz") as file:
        arrays = dict(file)
    values = arrays.pop("recorded")
    inputs: dict[str, dict[str, NDArray[np.generic]]] = {}
    for key, array in arrays.items():
        problem, _, name = key.partition("/")
        inputs.setdefault(problem, {})[name] = array
    errors = {key: _error(*key.split("/")[:2], about) for key, about in index.get("errors", {}).items()}
    return Recording(inputs, _load_records(index, values), errors)


def _load_records(index: dict[str, dict], values: NDArray[np.float64]) -> dict[str, Record]:
    records, start = {}, 0
    order_dependent = set(index.get("order_dependent", ()))
    for key, (dtype, shape) in index["recorded"].items():
        case, _, output = key.partition("/")
        stop = start + math.prod(shape)
        value = values[start:stop].reshape(shape).astype(dtype)
        about = index["outputs"].get(key) or index["outputs"][output]
        records[key] = Record(case, output, value, about | {"order_dependent": key in order_dependent})
        start = stop
    return records


def _error(case: str, peer: str, about: dict[str, object]) -> RecordedError:
    return RecordedError(case, peer, about["function"], about["options"], about["error"], about["message"])


def as_problem(inputs: dict[str, NDArray[np.generic]]) -> Problem:
    """A problem of distances and labels, from its inputs; distances are multiples of 1 / 65536 or an order."""
    is_order = "distance_order" in inputs
    distances = inputs["distance_order"] if is_order else inputs["distances"] / 65536
    return Problem(distances.astype(np.float64), *(inputs[name] for name in _LABELS))


_LABELS = ("query_identities", "gallery_identities", "query_cameras", "gallery_cameras")


def true_distances(problem: str) -> NDArray[np.float64]:
    """The distances [queries, gallery] of an `a` problem of which `PROBLEMS` has the order only."""
    low, high = RECORDINGS["pairs"].inputs[problem]["distance_steps"].astype(np.int64)
    ascending = (low + 256 * high).cumsum(axis=1)
    order = RECORDINGS["retrieval"].inputs[problem]["distance_order"]
    return np.take_along_axis(ascending, order.astype(np.int64), axis=1) / 65536


RECORDINGS = {theme: load(theme) for theme in THEMES}
PROBLEMS = {name: as_problem(inputs) for name, inputs in RECORDINGS["retrieval"].inputs.items()}
RECORDS = RECORDINGS["retrieval"].records
ERRORS = RECORDINGS["retrieval"].errors
