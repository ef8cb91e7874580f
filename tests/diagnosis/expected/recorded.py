"""The recorded numbers of other evaluators, and the searches of the problems that they were computed on."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reid_torchmetrics.functional.retrieval import evaluate, evaluate_scores
from reid_torchmetrics.tasks import evaluate_lists, verify_pairs
from tests.diagnosis.expected.recorded_fields import SEARCHES, cached_search, of_fields
from tests.diagnosis.expected.searches import CURVE, Number, Search, search_in
from tests.fields.comparisons import compared
from tests.fields.test_pairs import CASES as PAIR_CASES
from tests.fields.test_pairs import LEFT_OUT as LEFT_OUT_OF_PAIRS
from tests.functional.retrieval.test_golden_copairs import PROBLEM as PROBLEM_OF_COPAIRS
from tests.functional.retrieval.test_golden_copairs import RULES, options_of
from tests.golden.cases import FOLDER, PROBLEMS, RECORDINGS, Problem, Record, true_distances
from tests.golden.field_cases import load_field
from tests.golden.peers import CUTOFFS


def numbers_in(key: str, value: Any, search: Callable[[], Search]) -> Iterator[Number]:
    """A number, those of a curve, or the mean of values of all queries, without those that are not finite."""
    value = np.asarray(value, dtype=np.float64)
    values = {"": value}
    if "cmc" in key and "per_query" not in key and value.ndim:
        values = {f" at {k}": value[k - 1] for k in CURVE if k <= len(value)}
    elif "P_at_k" in key:
        columns = np.atleast_2d(value).T
        values = {f" at {k}": np.nanmean(column) for k, column in zip(CUTOFFS, columns, strict=True)}
    elif value.ndim:
        values = {" (mean)": value.mean() if len(value) else np.nan}
    for place, number in values.items():
        if np.isfinite(number):
            yield Number(f"{key}{place}", float(number), search)


def of_distances() -> Iterator[Number]:
    """The themes of distances and labels, under the options of Market-1501."""
    for theme in ("retrieval", "ties", "cutoffs"):
        for key, record in RECORDINGS[theme].records.items():
            if record.about["order_dependent"] or record.output in LEFT_OUT:
                continue
            value = record.value
            if "AP_per_query" in key or "AP_valid" in key or "INP_valid" in key:
                value = value[~np.isnan(value)]
            yield from numbers_in(f"{theme}/{key}", value, lambda record=record: _search_of_distances(record.case))


@cache
def _search_of_distances(case: str) -> Search:
    record = Record(case, "", np.zeros(0), {})
    problem = PROBLEMS[record.problem]
    if record.variant == "dropjunk":
        problem = _without_junk(problem)
    elif record.variant:
        problem = replace(problem, distances=_untied(problem, record.variant))
    labels = (problem.query_identities, problem.gallery_identities, problem.query_cameras, problem.gallery_cameras)
    return search_in(evaluate_scores, None, *labels, distances=problem.distances)


def _untied(problem: Problem, variant: str) -> NDArray[np.float64]:
    """The place of each item where ties break in an order."""
    is_same = problem.query_identities[:, None] == problem.gallery_identities
    columns = np.broadcast_to(np.arange(is_same.shape[1]), is_same.shape)
    orders = {
        "optimistic_pos_first": ~is_same,
        "pessimistic_neg_first": is_same,
        "stable_index_order": columns,
        "reverse_index_order": -columns,
    }
    return np.lexsort((orders[variant], problem.distances)).argsort(axis=1).astype(float)


def _without_junk(problem: Problem) -> Problem:
    kept = problem.gallery_identities != -1
    return replace(
        problem,
        distances=problem.distances[:, kept],
        gallery_identities=problem.gallery_identities[kept],
        gallery_cameras=problem.gallery_cameras[kept],
    )


def of_embeddings() -> Iterator[Number]:
    """The theme of embeddings, all by all or with a gallery."""
    for key, record in RECORDINGS["embeddings"].records.items():
        if record.output in LEFT_OUT:
            continue
        yield from numbers_in(f"embeddings/{key}", record.value, lambda case=record.case: _search_of_embeddings(case))


@cache
def _search_of_embeddings(case: str) -> Search:
    inputs = RECORDINGS["embeddings"].inputs[case]
    options = {"similarity": "euclidean", "junk_identities": ()}
    if "embeddings" in inputs:
        return search_in(evaluate, inputs["embeddings"].astype(float), query_identities=inputs["identities"], **options)
    names = ("query_embeddings", "gallery_embeddings", "query_identities", "gallery_identities")
    query, gallery, *labels = (inputs[name] for name in names)
    return search_in(evaluate, query.astype(float), gallery.astype(float), *labels, **options)


@cache
def packages() -> dict[str, dict[str, Any]]:
    """The numbers of packages, by theme and case."""
    recorded: dict[str, dict[str, Any]] = json.loads((FOLDER / "packages.json").read_text(encoding="utf-8"))
    further = json.loads((FOLDER / "further_packages.json").read_text(encoding="utf-8"))
    for theme, cases in further.items():
        for case, numbers in cases.items():
            recorded[theme][case] |= numbers
    return recorded


def of_packages() -> Iterator[Number]:
    """Numbers of lists and of duplicates of files."""
    for case in load_field("lists"):
        for output, number in packages()["lists"].get(case.name, {}).items():
            search = partial(cached_search, "lists", case.name, SEARCHES["lists"], "packages", "")
            yield Number(f"lists/{case.name}/{output}", number, search)
    for seed, problem in packages()["duplicates"].items():
        search = partial(_search_of_duplicates, seed)
        yield from (
            Number(f"duplicates/{seed}/{output}", number, search) for output, number in problem["numbers"].items()
        )


@cache
def _search_of_duplicates(seed: str) -> Search:
    problem = packages()["duplicates"][seed]
    return search_in(evaluate_lists, problem["retrieved"], problem["positives"])


def of_labels() -> Iterator[Number]:
    """The means of copairs under its rules on labels."""
    for rule in RULES:
        average_precision = PROBLEM_OF_COPAIRS[f"{rule}/values"][:, 0]
        search = partial(_search_of_labels, rule)
        yield Number(f"labels/{rule}/copairs/average_precision", float(np.nanmean(average_precision)), search)


@cache
def _search_of_labels(rule: str) -> Search:
    return search_in(evaluate, PROBLEM_OF_COPAIRS["embeddings"], **options_of(rule), empty_target_action="neg")


LEFT_OUT = {
    "layumi/first_hit_rank0": "ranks",
    "layumi/AP_per_query_nan_if_no_positive": "its mean without NaN is not the mAP that is printed",
    "oml/pcf_0.5_0.9": "no measure of retrieval",
    "simpleir/precision_1_3_5_10_percent_BUGGY": "cuts the queries at k, not the ranking",
    "simpleir/accuracy_1_3_5_10_percent": "several numbers",
    "gld/mean_precisions_10": "several numbers",
    "gld/mean_median_position_10": "ranks",
    "gld/GAP": "a list of all queries",
    "gld/GAP_ignore_non_gt": "a list of all queries",
}
"""outputs that are no number of a retrieval evaluation"""


def of_pairs() -> Iterator[Number]:
    """Given pairs, and all pairs of a retrieval problem."""
    for case in PAIR_CASES.values():
        for evaluator, output in compared(case, LEFT_OUT_OF_PAIRS):
            key = f"pairs/{case.name}/{evaluator}/{output}"
            value = np.atleast_1d(case.outputs[evaluator][output])
            values = value if "tar_" in output else [value.mean()]
            search = partial(_search_of_given_pairs, case.name, "accuracy" in output, angles="accuracy_1" in output)
            yield from (Number(f"{key} {place}", float(each), search) for place, each in enumerate(values))
    rates = json.loads((FOLDER / "error_rates.json").read_text(encoding="utf-8"))
    for name, outputs in (*rates.items(), *packages()["pairs"].items()):
        search = partial(_search_of_given_pairs, name, False, angles=False)
        yield from (Number(f"pairs/{name}/{output}", rate, search) for output, rate in outputs.items())
    for key, record in RECORDINGS["pairs"].records.items():
        if "n_pos" not in record.output and record.case != "a11_6q40g_allsamecam":  # has no genuine pair
            for place, each in enumerate(record.value.tolist()):
                if np.isfinite(each):
                    yield Number(f"pairs/{key} {place}", each, partial(_search_of_all_pairs, record.case))


@cache
def _search_of_given_pairs(name: str, are_distances: bool, *, angles: bool) -> Search:
    case = PAIR_CASES[name]
    if not are_distances:
        return search_in(verify_pairs, case.inputs["scores"], case.inputs["same"])
    first, second = case.inputs["first"], case.inputs["second"]
    distances = ((first - second) ** 2).sum(1)
    if angles:  # of facenet
        norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
        distances = np.arccos(np.clip((first * second).sum(1) / norms, -1, 1)) / np.pi
    return search_in(verify_pairs, None, case.inputs["same"], distances=distances)


@cache
def _search_of_all_pairs(name: str) -> Search:
    problem = PROBLEMS[name]
    is_same = problem.query_identities[:, None] == problem.gallery_identities
    is_kept = ~(is_same & (problem.query_cameras[:, None] == problem.gallery_cameras))
    return search_in(verify_pairs, None, is_same[is_kept], distances=true_distances(name)[is_kept])


@cache
def all_numbers() -> tuple[Number, ...]:
    """All recorded numbers of retrieval and of pairs."""
    return (*of_distances(), *of_embeddings(), *of_labels(), *of_packages(), *of_pairs(), *of_fields())
