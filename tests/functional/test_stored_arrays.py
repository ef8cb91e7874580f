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

from reid_torchmetrics.functional.detection import DetectionResults
from reid_torchmetrics.functional.result_files import StoredArray
from reid_torchmetrics.functional.retrieval import Comparison, RetrievalResults
from tests.functional.saved_results import ALL, COMPARISON, DETECTION, RETRIEVAL, difference
from tests.functional.test_result_files import contents_of, refused, reloaded, with_header
from tests.report import problems


def parts_of(contents: bytes) -> tuple[dict, dict[str, np.ndarray]]:
    """The header and the arrays of a file."""
    with np.load(BytesIO(contents), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files if name != "header.json"}
        return json.loads(archive["header.json"]), arrays


def file_of(header: dict, arrays: dict[str, np.ndarray]) -> bytes:
    file = BytesIO()
    np.savez(file, **arrays)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("header.json", json.dumps(header))
    return file.getvalue()


def with_another_first(array: np.ndarray, value: float) -> np.ndarray:
    """With a value for the first number that is finite."""
    changed = array.copy()
    changed[tuple(np.argwhere(np.isfinite(array))[0])] = np.asarray(value).astype(array.dtype)
    return changed


BROKEN = {
    "shortened": lambda array: array[:-1] if array.size else None,
    "with another axis": lambda array: array[None],
    "of bools, or of numbers for bools": lambda array: array.astype("i1" if array.dtype == bool else bool),
    "of complex numbers": lambda array: array.astype("c16") if array.dtype.kind == "f" else None,
    "with NaN": lambda array: with_another_first(array, np.nan) if array.dtype.kind == "f" and array.size else None,
    "out of range": lambda array: with_another_first(array, -9) if array.dtype != bool and array.size else None,
}
ANY_NUMBER = re.compile(
    r".*(identities|cameras|camera|query_index|labels)|.*(gained|lost)_index|rank_lists\.(first_positive_)?scores?"
    r"|objects\.scores|boxes\.[34567]"
)
"""arrays of labels and numbers of users, of scores and of boxes"""


ALLOWED = {("cmc", "shortened"), ("boxes.3", "with NaN"), ("boxes.6", "with NaN")}  # of any length; invalid boxes


@pytest.mark.parametrize("kind", [RetrievalResults, DetectionResults, Comparison])
@pytest.mark.slow
def test_a_file_with_an_array_that_does_not_fit_is_refused(kind, tmp_path):
    seen = set()
    for make in {RetrievalResults: RETRIEVAL, DetectionResults: DETECTION, Comparison: COMPARISON}[kind].values():
        header, arrays = parts_of(contents_of(make(), tmp_path))
        for name, array in arrays.items():
            place = re.sub(r"(values|camera_pairs|at_confidence)\.\w+", r"\1", name)
            for what, change in BROKEN.items():
                if (place, what) in seen or (changed := change(array)) is None:
                    continue
                if (what == "out of range" and ANY_NUMBER.fullmatch(name)) or (name, what) in ALLOWED:
                    continue
                seen.add((place, what))
                said = refused(file_of(header, arrays | {name: changed}), tmp_path, kind)
                assert re.fullmatch(r"[^.]*(\.\S[^.]*)*\.", said), (name, what)
    assert len(seen) > {RetrievalResults: 100, DetectionResults: 120, Comparison: 12}[kind]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["embeddings", "graded lists", "coco", "two models"])
def test_a_file_with_an_array_more_or_less_is_refused(name, tmp_path):
    results = ALL[name]()
    header, arrays = parts_of(contents_of(results, tmp_path))
    assert difference(type(results).load(results.save(tmp_path / "whole")), reloaded(results, tmp_path)) == ""
    for each in arrays:
        less = {other: arrays[other] for other in arrays if other != each}
        assert f"program: '{each}'" in refused(file_of(header, less), tmp_path, type(results))
    said = refused(file_of(header, arrays | {"values.more": np.ones(3)}), tmp_path, type(results))
    assert said.endswith("every array must be in a field; got 'values.more'.")


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
            is_changed = name == "per_query.map"
            archive.writestr(f"{name}.npy", npy_of(values, said=said) if is_changed else npy_of(array))
            if is_changed and num_bytes is not None:  # the list of entries says another size, too
                archive.getinfo("per_query.map.npy").file_size = num_bytes
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
        ("coco", "$ClassAverages", {"rule": 1, "has_limits": 1, "confidence": "0.5"}),
        (
            "coco",
            "$CocoGrid",
            {"iou_thresholds": [0.5], "max_detection_thresholds": [1], "area_ranges": {"$mapping": []}},
        ),
        ("two models", "$Difference", {"p_value": 7.0, "num_better": -1, "mean_a": "1", "p_holm": -1.0, "low": 9.0}),
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
        each[kind][field] = value
    return each


@pytest.mark.parametrize(("name", "place"), [("embeddings", "per_query.map"), ("coco", "averages.recall")])
def test_numbers_are_those_of_the_ranks_or_matches_in_files_of_this_version(name, place, tmp_path):
    results = ALL[name]()
    header, arrays = parts_of(contents_of(results, tmp_path))
    changed = arrays | {place: with_another_first(arrays[place], 0.625)}
    said = refused(file_of(header, changed), tmp_path, type(results))
    name_of_field = place if name == "embeddings" else place.removeprefix("averages.")
    assert said.endswith(f"`{name_of_field}` must be what matches or ranks give; got other values.")
    # An earlier version may have computed it otherwise.
    (tmp_path / "earlier.npz").write_bytes(file_of(header | {"version": "0.0.9"}, changed))
    assert difference(results, type(results).load(tmp_path / "earlier.npz")) != ""


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
    results = RETRIEVAL["embeddings"]()
    path = results.save(tmp_path / "results.npz")
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"`per_query\.map` must lie in"):
        replace(results, per_query={"map": results.per_query["map"] + 7}).save(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("embeddings", "per_query.map", 7.0),
        ("graded lists", "ranks.judged.num_before", -1),
        ("drawn", "per_query.map", np.nan),
        ("coco", "averages.recall", 7.0),
        ("ultralytics", "averages.at_confidence.f1", 1.5),
        ("localization", "matches.overlaps", -0.5),
    ],
)
def test_a_number_out_of_its_range_is_refused_of_every_version(name, place, value, tmp_path):
    results = ALL[name]()
    header, arrays = parts_of(contents_of(results, tmp_path))
    changed = arrays | {place: with_another_first(arrays[place], value)}
    said = refused(file_of(header | {"version": "0.0.9"}, changed), tmp_path, type(results))
    assert place.removeprefix("ranks.") in said
