"""Files of results whose arrays or values do not fit each other are refused, before they are inflated."""

import json
import re
import tracemalloc
import zipfile
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
import torch

from reid_torchmetrics.files import StoredArray
from reid_torchmetrics.functional.detection import DetectionResults
from reid_torchmetrics.functional.retrieval import PositiveRanks, RetrievalResults, evaluate_scores
from reid_torchmetrics.tasks import Comparison
from tests.files.broken_files import contents_of, file_of, parts_of, refused, reloaded, with_header
from tests.functional.asked_of_results import answers
from tests.functional.saved_results import ALL, COMPARISON, DETECTION, RETRIEVAL, difference
from tests.profiles import PROFILE, of_each
from tests.report import problems
from tests.tasks.comparison import two_models


def with_another_first(array: np.ndarray, value: float) -> np.ndarray:
    """With a value for the first number that is finite."""
    changed = array.copy()
    changed[tuple(np.argwhere(np.isfinite(array))[0])] = np.asarray(value).astype(array.dtype)
    return changed


BROKEN = {
    "shortened": lambda array: array[:-1] if array.ndim and array.size else None,
    "with another axis": lambda array: array[None],
    "of bools, or of numbers for bools": lambda array: array.astype("i1" if array.dtype == bool else bool),
    "of complex numbers": lambda array: array.astype("c16") if array.dtype.kind == "f" else None,
    "with NaN": lambda array: with_another_first(array, np.nan) if array.dtype.kind == "f" and array.size else None,
    "out of range": lambda array: with_another_first(array, -9) if array.dtype != bool and array.size else None,
}
MAY_DIFFER = ("with NaN", "out of range")
"""values, and not the dtype or the shape: an array with others may be one of other results"""
LENGTHS = {("drawn.cmc", "shortened")}  # of any length from `max_rank` on


@pytest.mark.sampled
@pytest.mark.parametrize("kind", [RetrievalResults, DetectionResults, Comparison])
@pytest.mark.slow
def test_a_file_with_an_array_that_does_not_fit_is_refused_or_of_other_results(kind, tmp_path):
    seen = set()
    for make in {RetrievalResults: RETRIEVAL, DetectionResults: DETECTION, Comparison: COMPARISON}[kind].values():
        header, arrays = parts_of(contents_of(make(), tmp_path))
        for name, array in arrays.items():
            place = re.sub(r"camera_pairs\.\w+", "camera_pairs", name)
            for what, change in BROKEN.items():
                if (place, what) in seen or (changed := change(array)) is None:
                    continue
                seen.add((place, what))
                contents = file_of(header, arrays | {name: changed})
                if what in MAY_DIFFER and is_read(kind, contents, tmp_path):
                    answers(kind.load(tmp_path / "broken.npz"))  # it answers, or refuses by a ValueError
                elif (name, what) not in LENGTHS:
                    said = refused(contents, tmp_path, kind)
                    assert re.fullmatch(r"[^.]*(\.\S[^.]*)*\.", said), (name, what)
    assert len(seen) > {RetrievalResults: 100, DetectionResults: 120, Comparison: 12}[kind]


def is_read(kind, contents: bytes, folder) -> bool:
    path = folder / "broken.npz"
    path.write_bytes(contents)
    try:
        kind.load(path)
    except ValueError:
        return False
    return True


EXTREMES = {
    "i": [-1, -9, 0, 1, 5, 1 << 31, 1 << 62, (1 << 62) + 1, (1 << 63) - 1, -(1 << 63)],
    "u": [0, 1, 255],
    "f": [np.nan, np.inf, -np.inf, 0, -1, 0.5, 2, 1e300],
    "b": [0, 1],
}
"""values by the kind of a dtype"""
NUM_TRIES = 10 if PROFILE == "nightly" else 1


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("name", of_each(["drawn", "coco", "graded lists", "metric", "lvis", *ALL], suite=5))
def test_a_file_with_any_values_is_refused_or_answers_every_question(name, tmp_path):
    results, random = ALL[name](), np.random.default_rng(0)
    header, arrays = parts_of(contents_of(results, tmp_path))
    for place, array in arrays.items():
        for _ in range(NUM_TRIES if array.size else 0):
            changed = array.copy()
            with np.errstate(all="ignore"):
                values = np.array(random.choice(EXTREMES[array.dtype.kind], size=2)).astype(array.dtype)
            changed.reshape(-1)[random.integers(array.size, size=2)] = values
            if is_read(type(results), file_of(header, arrays | {place: changed}), tmp_path):
                answers(type(results).load(tmp_path / "broken.npz"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["embeddings", "graded lists", "coco", "two models"])
def test_a_file_with_an_array_more_or_less_is_refused(name, tmp_path):
    results = ALL[name]()
    header, arrays = parts_of(contents_of(results, tmp_path))
    assert difference(type(results).load(results.save(tmp_path / "whole")), reloaded(results, tmp_path)) == ""
    for each in arrays:
        less = {other: arrays[other] for other in arrays if other != each}
        assert f"program: '{each}'" in refused(file_of(header, less), tmp_path, type(results))
    said = refused(file_of(header, arrays | {"ranks.more": np.ones(3)}), tmp_path, type(results))
    assert said.endswith("every array must be in a field; got 'ranks.more'.")


def npy_of(array: np.ndarray, *, said: str | None = None) -> bytes:
    """An entry of an archive, with a header that says another shape."""
    file = BytesIO()
    np.save(file, array)
    return file.getvalue().replace(f"{array.shape}".encode(), (said or f"{array.shape}").encode())


@pytest.mark.parametrize("num_bytes", [None, 128 + 8 * 20])
@pytest.mark.parametrize(("size", "said"), [(1 << 21, "(2097152,)"), (1 << 21, "(20,)    "), (20, "(2097152,)")])
def test_an_array_of_another_size_is_refused_before_it_is_inflated(size, said, num_bytes, tmp_path):
    results, file, values = RETRIEVAL["embeddings"](), BytesIO(), np.zeros(size)
    header, arrays = parts_of(contents_of(results, tmp_path))
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            is_changed = name == "query_cameras"
            archive.writestr(f"{name}.npy", npy_of(values, said=said) if is_changed else npy_of(array))
            if is_changed and num_bytes is not None:  # the list of entries says another size, too
                archive.getinfo("query_cameras.npy").file_size = num_bytes
        archive.writestr(zipfile.ZipInfo("header.json"), json.dumps(header))
    path = tmp_path / "large.npz"
    path.write_bytes(file.getvalue())
    tracemalloc.start()
    with pytest.raises(ValueError, match="damaged"):
        RetrievalResults.load(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 8 << 20


def test_a_header_is_not_compressed(tmp_path):
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", " " * 100_000)
    assert refused(file.getvalue(), tmp_path).endswith("header.json must not be compressed.")


@pytest.mark.parametrize("said", [-5, 0, 1.0, True, "1", None])
def test_a_format_that_never_was_is_refused(said, tmp_path):
    contents = contents_of(problems.detection(), tmp_path)
    broken = with_header(contents, lambda header: header | {"format": said})
    assert refused(broken, tmp_path).endswith(f"`format` must be an int of at least 1; got {said!r}.")


@pytest.mark.parametrize(
    ("name", "kind", "changes"),
    [
        ("embeddings", "$QueryCounts", {"total": 21, "valid": 16, "junk": -3, "not_ranked": True}),
        ("embeddings", "$Protocol", {"rule": 1, "reports": {"$tuple": [1]}, "k": 0}),
        ("embeddings", "$Setup", {"ties": 1, "cameras": "yes", "rerank": 2}),
        (
            "coco",
            "$CocoGrid",
            {"iou_thresholds": [0.5], "max_detection_thresholds": [1], "area_ranges": {"$mapping": []}},
        ),
        ("two models", "$Difference", {"p_value": 7.0, "num_better": -1, "mean_a": "1", "p_holm": -1.0, "low": 9.0}),
        ("embeddings", "fields", {"max_rank": 0, "counts": {"$QueryCounts": {}}}),
        ("embeddings", "fields", {"drawn": 1, "camera_pairs": {"$mapping": [["map", 1]]}}),
        ("embeddings", "fields", {"label_names": {"$mapping": [["x", {"$mapping": []}]]}}),
        ("coco", "fields", {"rule": "unheard", "evaluator": {"$tuple": ["voc", {"$mapping": []}]}}),
        ("coco", "fields", {"evaluator": {"$tuple": ["coco", {"$mapping": [["match", 1]]}]}}),
        ("coco", "fields", {"evaluator": {"$tuple": ["coco", {"$mapping": [["confidence", 0.5]]}]}}),
    ],
)
def test_a_header_with_a_value_that_does_not_fit_is_refused(name, kind, changes, tmp_path):
    results = ALL[name]()
    header, arrays = parts_of(contents_of(results, tmp_path))
    for field, value in changes.items():
        text = json.dumps(header)
        fields = json.loads(text, object_hook=lambda each, of=(field, value): with_field(each, kind, *of))
        assert json.dumps(fields) != text
        refused(file_of(fields, arrays), tmp_path, type(results))


def with_field(each: dict, kind: str, field: str, value: object) -> dict:
    if kind in each:
        assert field in each[kind]
        each[kind][field] = value
    return each


@pytest.mark.parametrize(
    ("name", "field", "protocol"),
    [("drawn", "drawn", "vehicleid"), ("curve by another rule", "ranks_for_cmc", "market1501")],
)
def test_a_ranking_that_the_protocol_needs_is_not_left_out(name, field, protocol, tmp_path):
    # Without it, the numbers would be those of the whole gallery, or of the other camera rule.
    changes = {} if name == "drawn" else {"cmc_same_camera": "all"}
    header, arrays = parts_of(contents_of(two_models.evaluated(0, protocol, **changes), tmp_path))
    without = header | {"fields": header["fields"] | {field: None}}
    left = {place: array for place, array in arrays.items() if not place.startswith(f"{field}.")}
    assert len(left) < len(arrays)
    assert f"`{field}` must be there" in refused(file_of(without, left), tmp_path, RetrievalResults)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [("embeddings", "max_rank", 1 << 40), ("coco", "grid", {"max_detection_thresholds": [1] * 4000})],
)
def test_a_file_whose_numbers_would_take_much_memory_is_refused_before_they_are_computed(
    name, field, value, tmp_path, monkeypatch
):
    results = ALL[name]()
    header, arrays = parts_of(contents_of(results, tmp_path))
    if name == "coco":
        value = {"$CocoGrid": header["fields"]["grid"]["$CocoGrid"] | value}
    contents = file_of(header | {"fields": header["fields"] | {field: value}}, arrays)
    monkeypatch.setenv("REID_TORCHMETRICS_MAX_INFLATED", "1000000")
    said = refused(contents, tmp_path, type(results))
    assert "the numbers of " in said
    assert "REID_TORCHMETRICS_MAX_INFLATED" in said


def test_a_million_equal_ranks_are_saved_without_compression(tmp_path, monkeypatch):
    monkeypatch.setenv("REID_TORCHMETRICS_MAX_INFLATED", "1000")
    ones = torch.ones(20_000, dtype=torch.int64)
    ranks = PositiveRanks(ones, ones, ones)
    results = evaluate_scores(torch.ones(1, 1), [1], [1])
    counts = replace(results.counts, total=20_000, valid=20_000)
    many = replace(results, ranks=ranks, counts=counts, query_index=ones, query_identities=ones, problem=None)
    assert RetrievalResults.load(many.save(tmp_path / "many.npz"))["map"] == 1.0


def test_names_of_queries_are_as_many_as_queries(tmp_path):
    header, arrays = parts_of(contents_of(RETRIEVAL["named lists"](), tmp_path))
    text = json.dumps(header)
    cut = text.replace('"query_names": {"$tuple": ["q", "r"]}', '"query_names": {"$tuple": ["q"]}')
    assert cut != text
    assert "query_names" in refused(file_of(json.loads(cut), arrays), tmp_path, RetrievalResults)


def test_bits_of_bfloat16_are_int16():
    with pytest.raises(TypeError, match=r"^bits of bfloat16 must be int16; got float32\.$"):
        StoredArray("float32", (2,), lambda: torch.zeros(2)).as_bfloat16()


def test_results_that_could_not_be_loaded_are_not_saved(tmp_path):
    results = replace(RETRIEVAL["embeddings"](), camera_pairs=None)
    path = results.save(tmp_path / "results.npz")
    before = path.read_bytes()
    some = results.nearest(2, [3, 1])
    with pytest.raises(ValueError, match=r"`rank_lists.query` must have shape \[20\]; got \[2\]\."):
        replace(results, rank_lists=some).save(path)
    with pytest.raises(ValueError, match=r"^`counts` must be those of the ranks; got"):
        replace(results, counts=replace(results.counts, junk=99)).save(path)
    assert path.read_bytes() == before


def test_an_evaluator_of_ones_own_is_not_saved(tmp_path):
    results = DETECTION["coco"]()
    ours = replace(results.evaluator, match=len, title="ours")
    with pytest.raises(ValueError, match=r"^`evaluator` must be one of coco, .*, with its options; got 'ours'\.$"):
        replace(results, evaluator=ours).save(tmp_path / "results.npz")


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("graded lists", "ranks.judged.grade", -1.0),
        ("graded lists", "ranks.judged.num_before", -1),
        ("embeddings", "ranks.rank", 0),
        ("embeddings", "ranks.num_positives", 1 << 62),
        ("drawn", "drawn.cmc", np.nan),
        ("drawn", "drawn.average_precision", 2.0),
        ("drawn", "drawn.weight", -0.5),
        ("embeddings", "camera_pairs.map.mean", np.nan),
        ("embeddings", "camera_pairs.map.num_valid", -1),
        ("embeddings", "rank_lists.scores", np.nan),
        ("embeddings", "rank_lists.index", -2),
        ("named lists", "rank_lists.index", 99),
        ("graded lists", "rank_lists.first_positive_rank", 0),
        ("coco", "matches.scores", np.nan),
        ("coco", "matches.images", 99),
        ("coco", "matches.rows", 99),
        ("coco", "matches.ground_truths", 99),
        ("coco", "matches.columns", -1),
        ("coco", "matches.num_positives", 99),
        ("coco", "positives", 99),
        ("coco", "images", 99),
        ("coco", "objects.detection", 1 << 40),
        ("localization", "matches.overlaps", -0.5),
    ],
)
def test_a_value_that_no_results_have_is_refused(name, place, value, tmp_path):
    results = ALL[name]()
    header, arrays = parts_of(contents_of(results, tmp_path))
    changed = arrays | {place: with_another_first(arrays[place], value)}
    assert "a file that is truncated, damaged" in refused(file_of(header, changed), tmp_path, type(results))
