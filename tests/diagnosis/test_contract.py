"""Each cause is told once at every entry point that can show it, and no other is; `diagnose` finds it there, too.

A new row of a registry needs an example in `tests/diagnosis/at_doors`: data as users pass them, and the entry points
that cannot show the mistake, with the reason.
"""

import re
import string
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from unittest import mock

from reid_torchmetrics import AdviceWarning, DetectionMAP, PairVerification, ReIDMetrics, diagnose
from reid_torchmetrics.diagnosis import Diagnosis, collecting, detection, lists, pairs, retrieval
from reid_torchmetrics.diagnosis.causes import Cause
from tests.diagnosis.at_doors import detected, doors, image_doors, ranked
from tests.diagnosis.at_doors.doors import Data
from tests.diagnosis.at_doors.on_processes import ON_PROCESSES
from tests.diagnosis.at_doors.ranked import Example
from tests.diagnosis_page import condition
from tests.profiles import PROFILE, each_row, of_each

REGISTRIES: dict[str, Mapping[str, Cause]] = {
    name: registry
    for module in (detection, lists, pairs, retrieval)
    for name, registry in vars(module).items()
    if name.endswith("_CAUSES")
}
EXAMPLES: dict[str, dict[str, list[Example]]] = {
    "RETRIEVAL_CAUSES": ranked.RETRIEVAL_EXAMPLES,
    "PAIR_CAUSES": ranked.PAIR_EXAMPLES,
    "LIST_CAUSES": ranked.LIST_EXAMPLES,
    "INDEX_CAUSES": ranked.INDEX_EXAMPLES,
    "DETECTION_CAUSES": detected.DETECTION_EXAMPLES,
}
DOORS: dict[str, dict[str, Callable]] = {
    "samples": doors.OF_SAMPLES,
    "matrix": doors.OF_MATRICES,
    "batches": doors.OF_BATCHES,
    "lists": doors.OF_LISTS,
    "pairs": doors.OF_PAIRS,
    "persons": doors.OF_PERSONS,
    "index": doors.OF_INDEXES,
    "images": image_doors.OF_IMAGES,
    "image batches": image_doors.OF_IMAGE_BATCHES,
}
RIGHT: dict[str, dict[str, Callable[[], Data]]] = {
    "samples": {
        "trained": ranked.samples,
        "untrained": lambda: ranked.samples(gallery=ranked.vectors(80, 7)),
        "with cameras": lambda: ranked.samples(
            query_cameras=ranked.LABELS % 3, gallery_cameras=ranked.IN_TURNS % 3 + ranked.IN_TURNS % 2
        ),
    },
    "matrix": {kind: lambda kind=kind: ranked.right_matrix(kind) for kind in ("scores", "distances")},
    "lists": {"right": ranked.searched},
    "pairs": {"right": ranked.pairs},
    "images": {
        **{shape: lambda shape=shape: detected.detector(shape) for shape in image_doors.SHAPES},
        **{f"untrained {shape}": lambda shape=shape: detected.untrained(shape) for shape in image_doors.SHAPES},
    },
}
TWO_PROCESSES = "two processes"
ROWS = [f"{registry}.{name}" for registry, rows in REGISTRIES.items() for name in rows]


def pattern_of(row: Cause) -> re.Pattern:
    """What a message of a row looks like."""
    parts = [re.escape(text) for text, *_ in string.Formatter().parse(row.message)]
    return re.compile("(.*)".join(parts) + "(.*)", re.DOTALL)


PATTERNS = {(registry, name): pattern_of(row) for registry, rows in REGISTRIES.items() for name, row in rows.items()}


def told_by(work: Callable[[], object]) -> list[str]:
    """The texts of all advice that is given during a call, on any thread."""
    with mock.patch("reid_torchmetrics.functional.world.warn") as warn:
        work()
    return [text for (text, *category), _ in warn.call_args_list if category == [AdviceWarning]]


def found_by(work: Callable[[], object]) -> list[str]:
    """The names of all causes that are found if all of them are tried during a call."""
    with collecting(Diagnosis()) as answers:
        work()
    return [answer.name for answer in answers.found]


def examples_of(row: str) -> list[Example]:
    registry, _, name = row.partition(".")
    examples = EXAMPLES.get(registry, {}).get(name)
    assert examples, f"write an example of {row} in tests/diagnosis/at_doors"
    return of_each(examples, suite=3)


def doors_of(row: str, example: Example, number: int) -> dict[str, Callable]:
    """All entry points of an example in a nightly run, else one of them, another one for each row."""
    if example.kind not in DOORS:
        return {}
    found = doors_with(example.kind, example.make() if example.kind == "images" else {})
    found = {name: door for name, door in found.items() if name not in example.not_seen}
    if PROFILE == "nightly":
        return found
    return dict([[*found.items()][(ROWS.index(row) + number) % len(found)]]) if found else {}


def doors_with(kind: str, data: Data) -> dict[str, Callable]:
    """The entry points of a kind that take the shape of the data."""
    if kind != "images":
        return DOORS[kind]
    return {name: door for name, door in DOORS[kind].items() if image_doors.takes(name, data)}


@each_row("row", ROWS)
def test_a_mistake_is_told_once_and_alone_at_every_entry_point(row):
    registry, _, name = row.partition(".")
    for number, example in enumerate(examples_of(row)):
        for door, call in doors_of(row, example, number).items():
            texts = told_by(partial(call, example.make()))
            assert len(texts) == 1, (door, texts)
            assert PATTERNS[registry, name].fullmatch(texts[0]), (door, texts)
            assert texts[0].endswith((".", "?"))


@each_row("row", ROWS)
def test_what_is_told_is_found_on_demand_alone(row):
    for number, (kind, make, not_seen) in enumerate(of_each(examples_of(row))):
        name = row.partition(".")[2]
        if kind in ON_PROCESSES and TWO_PROCESSES not in not_seen and kind != "parts":
            assert [answer.name for answer in diagnose(ON_PROCESSES[kind](make(), 0, 1)).found] == [name]
        if "batches" not in kind:  # an evaluation between them is one only if it is not asked
            for door, call in doors_of(row, examples_of(row)[number], number + 1).items():
                assert found_by(partial(call, make())) == [name], door


def told_and_found_on(process: int, size: int, rows: list[str]) -> dict[str, tuple[list[str], list[str]]]:
    """What is found on demand, and told, for the first example of each row, of which this process has a part."""
    outcomes = {}
    for row in rows:
        kind, make, not_seen = examples_of(row)[0]
        if kind in ON_PROCESSES and TWO_PROCESSES not in not_seen:
            metric = ON_PROCESSES[kind](make(), process, size)
            outcomes[row] = [answer.name for answer in diagnose(metric).found], told_by(metric.compute)
    return outcomes


def test_a_mistake_is_told_once_by_the_first_of_two_processes_and_found_on_both(processes):
    rows = ROWS if PROFILE == "nightly" else ROWS[1::6]
    first, second = processes.run(2, told_and_found_on, rows)
    for row, (found, texts) in first.items():
        registry, _, name = row.partition(".")
        assert len(texts) == 1, (row, texts)
        assert PATTERNS[registry, name].fullmatch(texts[0]), (row, texts)
        assert found == [name], row
        assert second[row] == (found, []), row
    assert len(first) > len(rows) / 2


@each_row("kind", RIGHT)
def test_right_and_untrained_models_are_silent_and_nothing_is_found_on_demand(kind):
    for model, make in RIGHT[kind].items():
        for door, call in of_each(doors_with(kind, make()).items()):
            work = partial(call, make())
            assert told_by(work) == [], (model, door)
            assert found_by(work) == [], (model, door)


def batch_by_batch(metric: Any, batches: list[Any]) -> None:
    for batch in batches:
        if isinstance(batch, dict):
            metric(**batch)
        elif batch is not None:
            metric(*batch)


def in_forward(row: str) -> Callable[[], None] | None:
    """A call of `forward` with the first example of a row; None if no metric takes it."""
    kind, make, _ = examples_of(row)[0]
    data = make()
    if kind == "batches":
        return lambda: batch_by_batch(ReIDMetrics(**data["options"]), data["batches"])
    if kind == "image batches":
        return lambda: batch_by_batch(DetectionMAP(), data["batches"])
    if kind == "images" and not data.get("options"):
        return lambda: DetectionMAP(**image_doors.options_of(data))(data["preds"], data["target"])
    if kind == "pairs":
        return lambda: PairVerification()(data["first"], data["second"], data["same"])
    return None


@each_row("row", ROWS)
def test_single_batches_are_told_nothing(row):
    work = in_forward(row)
    assert work is None or told_by(work) == []


def test_rows_are_described_in_sentences_and_are_explained_by_rows_of_their_registry():
    for registry in REGISTRIES.values():
        for name, row in registry.items():
            assert row.name == name
            assert condition(row).endswith(".")
            assert set(row.explained_by) <= set(registry)


def test_examples_are_of_rows_and_entry_points_that_there_are():
    for registry, examples in EXAMPLES.items():
        assert examples.keys() <= REGISTRIES[registry].keys()
        for name, several in examples.items():
            for example in several:
                names = {*DOORS.get(example.kind, {}), TWO_PROCESSES}
                assert example.not_seen.keys() < names, name
                assert all(example.not_seen.values())
