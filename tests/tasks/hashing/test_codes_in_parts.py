"""Whether 0 and 1 are codes is decided by the whole data set: no split into batches, sides or processes changes it.

The data sets are drawn with the rows that mislead: zeros after a ReLU, ternary numbers, and one row alone in a batch.
Their numbers are eighths, whose products are exact in any precision: scores are equal in all entry points, or in none.
"""

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics import ReIDMeanAP, index_recall
from reid_torchmetrics.command import main
from reid_torchmetrics.functional.retrieval import evaluate, evaluate_scores, rank_positives
from reid_torchmetrics.tasks import RankCounter
from tests.distributed import recording
from tests.profiles import each_row, examples

NUM_QUERIES, NUM_GALLERY = 4, 9
MIXTURE = "`embeddings` of all batches, queries and gallery items must be codes of 0 and 1, or all be codes of 1 and -1"


def eighths(values: np.ndarray) -> np.ndarray:
    return ((8 * values).round() / 8).astype(np.float32)


KINDS: dict[str, Callable[[np.random.Generator, tuple[int, int]], np.ndarray]] = {
    "bits": lambda rng, shape: rng.integers(0, 2, shape).astype(np.float32),
    "signs": lambda rng, shape: 2 * rng.integers(0, 2, shape).astype(np.float32) - 1,
    "ternary": lambda rng, shape: rng.integers(-1, 2, shape).astype(np.float32),
    "counts": lambda rng, shape: rng.integers(0, 3, shape).astype(np.float32),
    "real": lambda rng, shape: eighths(rng.standard_normal(shape)),
    "after a ReLU": lambda rng, shape: eighths(np.maximum(rng.standard_normal(shape) - 0.5, 0)),
    "bools": lambda rng, shape: rng.integers(0, 2, shape).astype(bool),
    "integers of 0 and 1": lambda rng, shape: rng.integers(0, 2, shape).astype(np.int8),
    "integers of 1 and -1": lambda rng, shape: 2 * rng.integers(0, 2, shape) - 1,
}


def drawn(seed, kinds, dimension):
    """Embeddings and identities of queries and gallery, each side of its kind, some rows zero where zeros occur."""
    rng = np.random.default_rng(seed)
    sides = []
    for kind, number in zip(kinds, (NUM_QUERIES, NUM_GALLERY), strict=True):
        values = KINDS[kind](rng, (number, dimension))
        if kind not in ("signs", "integers of 1 and -1"):
            values[rng.random(number) < 0.2] = 0
        sides.append((values, rng.integers(0, 3, number)))
    return sides


def as_codes(sides):
    """The numbers whose product ranks, by the rule: floats, with 0 and 1 as -1 and 1; None for a mixture."""
    everything = np.concatenate([values.ravel().astype(float) for values, _ in sides])
    has_zero, has_other = 0 in everything, not np.isin(everything, (0, 1)).all()
    if not has_other:
        return [2 * values.astype(float) - 1 for values, _ in sides]
    if has_zero and any(values.dtype.kind != "f" for values, _ in sides):
        return None
    for (values, _), (other_values, _) in (sides, sides[::-1]):
        if set(values.ravel()) == {0, 1} and 0 not in other_values:
            return None
    return [values.astype(float) for values, _ in sides]


def expected_map(sides):
    numbers = as_codes(sides)
    if numbers is None:
        return None
    identities = [identities for _, identities in sides]
    return evaluate_scores(numbers[0] @ numbers[1].T, *identities, protocol="hashing", k=None, ties="expected")["map"]


def metric_of(sides, size=100, process=0, num_processes=1, **options):
    metric = ReIDMeanAP(protocol="hashing", k=None, **options)
    for is_query, (values, identities) in zip((True, False), sides, strict=True):
        for place, first in enumerate(range(0, len(values), size)):
            if place % num_processes == process:
                rows = slice(first, first + size)
                index = np.arange(len(values))[rows]
                metric.update(values[rows], identities[rows], is_query=is_query, index=index)
    return metric


def by_evaluate(sides, _size):
    (query, query_identities), (gallery, gallery_identities) = sides
    return evaluate(query, gallery, query_identities, gallery_identities, protocol="hashing", k=None)["map"]


def by_metric(sides, size):
    return float(metric_of(sides, size).compute())


def by_merged_metrics(sides, size):
    first, second = (metric_of(sides, size, process, 2) for process in range(2))
    first.merge_state(second)
    return float(first.compute())


def by_checkpoint(sides, size):
    metric = metric_of(sides, size)
    metric.persistent(mode=True)
    restored = ReIDMeanAP(protocol="hashing", k=None)
    restored.persistent(mode=True)
    restored.load_state_dict(pickle.loads(pickle.dumps(metric.state_dict())))
    return float(restored.compute())


def by_processes(sides, size):
    def compute(world):
        options = {"distributed_available_fn": recording.is_shared}
        return float(metric_of(sides, size, world.process, world.size, **options).compute())

    with recording.threads_as_processes():
        outcomes, _ = recording.run(3, compute)
    values = set()
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
        values.add(outcome.value)
    (value,) = values
    return value


ENTRY_POINTS = [by_evaluate, by_metric, by_merged_metrics, by_checkpoint, by_processes]


@examples(40)
@given(
    st.integers(0, 10**6),
    st.sampled_from(sorted(KINDS)),
    st.one_of(st.none(), st.sampled_from(sorted(KINDS))),
    st.integers(1, 4),
    st.sampled_from([1, 2, 100]),
)
def test_every_split_of_a_data_set_has_the_number_of_the_whole(seed, query_kind, gallery_kind, dimension, size):
    sides = drawn(seed, (query_kind, gallery_kind or query_kind), dimension)
    expected = expected_map(sides)
    for find in ENTRY_POINTS:
        if expected is None:
            with pytest.raises(ValueError, match=MIXTURE):
                find(sides, size)
        else:
            assert find(sides, size) == pytest.approx(expected, abs=1e-6, nan_ok=True), find.__name__


def write_shards(folder, sides, size):
    """Files of each side, of `size` rows each."""
    for role, (values, identities) in zip(("query", "gallery"), sides, strict=True):
        (folder / role).mkdir()
        for first in range(0, len(values), size):
            rows = slice(first, first + size)
            np.savez(folder / role / f"{first}.npz", feat=values[rows], identities=identities[rows])
    return folder / "query", folder / "gallery"


@each_row("kind", KINDS)
def test_the_command_decides_by_all_files(kind, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sides = drawn(len(kind), (kind, kind), 3)
    expected = expected_map(sides)
    paths = [str(path) for path in write_shards(tmp_path, sides, 4)]
    np.save("lists.npy", np.tile(np.arange(NUM_GALLERY), (NUM_QUERIES, 1)))
    commands = [["evaluate", *paths], ["evaluate", *paths, "--stream"], ["lists", "lists.npy", "--exact", *paths]]
    for words in commands:
        status = main([*words, "--protocol", "hashing", "--json", "out.json"])
        if expected is None:
            assert status != 0
            assert MIXTURE in capsys.readouterr().err
            continue
        assert status == 0, capsys.readouterr().err
        numbers = json.loads(Path("out.json").read_text(encoding="utf-8"))
        if words[0] == "evaluate":
            assert numbers["measures"]["map"]["value"] == pytest.approx(expected, abs=1e-6), words


CODES = {
    "bits": np.array([[0, 1, 1], [1, 1, 0], [1, 1, 1], [0, 0, 0]]),
    "signs": np.array([[-1, 1, 1], [1, 1, -1], [1, 1, 1], [-1, -1, -1]]),
}


@pytest.mark.parametrize(("first", "second"), [("bits", "signs"), ("signs", "bits")])
def test_codes_of_two_kinds_are_a_mixture_under_hamming_in_any_order_of_blocks(first, second):
    one, other = CODES[first], CODES[second]
    identities = np.arange(4)
    with pytest.raises(ValueError, match=MIXTURE):
        rank_positives(one, other, identities, identities, similarity="hamming")
    with pytest.raises(ValueError, match=MIXTURE):
        index_recall([[0]] * 4, one, [one, other], k=1, similarity="hamming")
    counter = RankCounter(one, one, query_identities=identities, positive_identities=identities, similarity="hamming")
    assert sum(counter.count(one[[row]], [9], key=row) for row in range(4))  # one row alone
    with pytest.raises(ValueError, match=MIXTURE):
        counter.count(other, [9] * 4, key=9)
    metric = ReIDMeanAP(similarity="hamming")
    metric.update(one, identities, is_query=True)
    metric.update(one, identities, is_query=False)
    metric.update(other, identities, is_query=False)
    with pytest.raises(ValueError, match=MIXTURE):
        metric.compute()
