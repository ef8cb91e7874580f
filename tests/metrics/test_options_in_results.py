"""An option that changes numbers is a part of results: it is in everything that they print, and `compare` refuses it.

The values of options are those of `test_options.py`. Here each option of each metric class is in one of the tables
below, or changes the results; so a new option fails until it does, or is in a table.
"""

import itertools
import re
import warnings
from typing import Any

import pytest
import torch

from reid_torchmetrics import DetectionMAP, DetectionMetrics, EmbeddingMetric, ReIDMetrics, ReIDOpenSet, compare
from reid_torchmetrics.functional.detection import evaluate_images
from reid_torchmetrics.functional.detection.inputs.shape_types import SHAPES_IN_WORDS
from reid_torchmetrics.functional.retrieval.evaluation import PROTOCOL_FIELDS
from reid_torchmetrics.report import write_report
from reid_torchmetrics.tasks.reranking import KReciprocal
from tests.metrics.test_options import CLASSES, needed_by, values_of
from tests.metrics.test_shared_results import OPTIONS, batches_of_boxes, batches_of_embeddings
from tests.profiles import PROFILE, each_row

NEUTRAL = {
    "backend": "neither is used",
    "box_format": "a property of the input",
    "class_metrics": "results have the numbers of classes in any case",
    "class_names": "only names",
    "class_values": "decides which numbers are logged",
    "classes": "decides which numbers are logged",
    "directions": "decides which embeddings are queries",
    "extended_summary": "results have the whole grid in any case",
    "keep_shapes": "for files",
    "max_bytes": "numbers do not depend on blocks",
    "max_rank": "the length of a curve",
    "metric": "selects a number by its name",
    "packed": "a property of the input",
    "postfix": "names of logged numbers",
    "prefix": "names of logged numbers",
    "ranks": "selects numbers by their names",
    "top_k": "selects a number by its name",
    "values": "decides which numbers are logged",
}
"""options that change no number of the results, with the reason"""
NEUTRAL_IN = {
    DetectionMAP: {"confidence": "for `metric` alone"},
    DetectionMetrics: {"confidence": "for the logged numbers alone"},
    ReIDOpenSet: dict.fromkeys(("fpir", "rank", "rule"), "for the value of `compute` alone"),
}
"""the same for single classes"""
OF_THE_MODEL = {"similarity", "rerank"}
"""options by which models differ, so that `compare` takes both and prints both"""
WITHOUT_DRAWS = ("ReIDMeasure", "ReIDOpenSet")  # of galleries


def results_of(kind: type, **options: Any) -> Any:
    """The results of a metric with some options, on samples with all labels and shapes."""
    is_of_embeddings = issubclass(kind, (EmbeddingMetric, ReIDMetrics))
    metric = kind(**options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for batch in batches_of_embeddings() if is_of_embeddings else batches_of_boxes():
            metric.update(**batch)
        return metric.results()


def words_in(value: Any) -> list[str]:
    """All texts in a value for JSON."""
    if isinstance(value, dict):
        return [*map(str, value), *itertools.chain.from_iterable(map(words_in, value.values()))]
    if isinstance(value, (list, tuple)):
        return [*itertools.chain.from_iterable(map(words_in, value))]
    return [value] if isinstance(value, str) else []


def without_numbers(text: str) -> str:
    """A text without its values, and with numbers of one or two digits, such as thresholds."""
    return re.sub(r"\d\.\d{3,}|n/a", "", text)


def printed(results: Any) -> dict[str, str]:
    """Everything that results print, without their numbers."""
    (caption,) = (line for line in results.to_latex().splitlines() if line.startswith(r"\caption"))
    return {
        "str": without_numbers(str(results)),
        "to_markdown": results.to_markdown().splitlines()[-1],
        "to_latex": caption,
        "to_dict": "\n".join(words_in(results.to_dict())),
        "html": without_numbers(results._repr_html_()),
    }


def settings(kind: type) -> list[tuple[str, Any]]:
    """Each option of a class that changes numbers, with other values than the default.

    Metrics of one number share the fields of the protocol, which `ReIDMetrics` has, too: they have them at night alone.
    """
    neutral = NEUTRAL.keys() | NEUTRAL_IN.get(kind, {}).keys()
    if kind.__name__ in WITHOUT_DRAWS:
        neutral |= {"gallery_draw"}
    if PROFILE != "nightly" and issubclass(kind, EmbeddingMetric):
        neutral |= set(PROTOCOL_FIELDS) - OPTIONS[kind].keys()
    pairs = []
    for option, values in sorted(values_of(kind).items()):
        if option not in neutral:
            pairs += [(option, value) for value in values]
    return pairs


@each_row("name", CLASSES)
def test_each_option_that_changes_numbers_is_printed_and_refused_by_compare(name):
    kind = CLASSES[name]
    usual_results: dict[str, tuple[Any, dict[str, str]]] = {}
    for option, value in settings(kind):
        needed = needed_by(kind, option)
        if repr(needed) not in usual_results:
            usual = results_of(kind, **needed)
            usual_results[repr(needed)] = usual, printed(usual)
        usual, usual_words = usual_results[repr(needed)]
        other = results_of(kind, **needed | {option: value})
        told = f"{option}={value!r} of {name}: keep it in its results, or add it to `NEUTRAL` with the reason"
        for form, words in printed(other).items():
            assert words != usual_words[form], f"{form} lacks {told}"
        if option in OF_THE_MODEL:
            text = str(compare(usual, other, num_resamples=3, num_permutations=3))
            assert text != str(compare(usual, usual, num_resamples=3, num_permutations=3)), told
        else:
            with pytest.raises(ValueError, match=r"`b` must (be evaluated as `a` was|hold the|have the|report one)"):
                compare(usual, other, num_resamples=3, num_permutations=3)


def test_neutral_options_are_options_that_leave_the_results_alike():
    known = set().union(*(values_of(kind) for kind in CLASSES.values()))
    assert NEUTRAL.keys() <= known
    for kind, options in NEUTRAL_IN.items():
        assert options.keys() <= values_of(kind).keys()


@pytest.mark.sampled
@pytest.mark.parametrize("iou_type", SHAPES_IN_WORDS)
def test_every_output_says_which_shapes_were_matched(iou_type, tmp_path):
    results = results_of(DetectionMAP, iou_type=iou_type)
    words = f"{SHAPES_IN_WORDS[iou_type]} matched by the rules of COCO"
    loaded = type(results).load(results.save(tmp_path / "results.npz"))
    for outputs in (printed(results), printed(loaded)):
        for form, text in outputs.items():
            assert words.lower() in text.lower(), form
    assert results.to_dict()["iou_type"] == iou_type
    page = write_report(results, tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"{words}; means over classes.</li>" in page
    assert f"<p>{SHAPES_IN_WORDS[iou_type]} of " in page or f">{SHAPES_IN_WORDS[iou_type]} of " in page
    text = str(compare(results, loaded, num_resamples=3, num_permutations=3))
    assert words in text


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("iou_type", SHAPES_IN_WORDS)
def test_the_function_says_what_the_metric_says(iou_type):
    (batch,) = batches_of_boxes()
    options: dict[str, Any] = {"iou_type": iou_type, "invalid": "drop"}
    if iou_type == "keypoints":
        options["sigmas"] = [0.05] * 17
    results = evaluate_images(batch["preds"], batch["target"], **options)
    assert results.conventions == results_of(DetectionMAP, **options).conventions
    assert "invalid objects left out" in str(results)


def test_an_area_range_of_another_name_in_the_first_place_is_printed():
    text = str(results_of(DetectionMAP, area_ranges={"tiny": (0, 64)}))
    assert "| area=  tiny | maxDets=100 ]" in text.splitlines()[1]
    assert "; area ranges tiny 0 to 8² pixels; " in text


def test_results_of_two_types_of_one_metric_are_not_compared():
    metric = DetectionMAP(iou_type=("bbox", "segm"))
    (batch,) = batches_of_boxes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metric.update(**batch)
        boxes, masks = metric.results("bbox"), metric.results("segm")
    with pytest.raises(ValueError, match="`b` must be evaluated as `a` was; got iou_type='segm' and not 'bbox'"):
        compare(boxes, masks)


def test_areas_in_the_input_are_printed_and_refused_by_compare():
    (batch,) = batches_of_boxes()
    results = []
    for has_areas in (False, True):
        preds = [dict(image) for image in batch["preds"]]
        if has_areas:
            for image in preds:
                image["detection_area"] = torch.ones(len(image["labels"]))
        metric = DetectionMAP()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            metric.update(preds, batch["target"])
            results.append(metric.results())
    without, given = map(str, results)
    assert "areas of detections as given" not in without
    assert "areas of detections as given" in given
    text = "`b` must be evaluated as `a` was; got areas of detections in the input (`detection_area`) for `{}` alone."
    for pair, owner in ((results, "b"), (results[::-1], "a")):
        with pytest.raises(ValueError, match=f"^{re.escape(text.format(owner))}$"):
            compare(*pair)


def test_results_with_and_without_invalid_objects_are_not_compared():
    results = [results_of(DetectionMAP, invalid=invalid) for invalid in ("count", "drop")]
    text = "`b` must be evaluated as `a` was; got invalid='drop' for `{}` alone."
    for pair, owner in ((results, "b"), (results[::-1], "a")):
        with pytest.raises(ValueError, match=f"^{re.escape(text.format(owner))}$"):
            compare(*pair)


def test_a_model_of_reranked_scores_is_told_from_the_one_without():
    plain, reranked = (results_of(ReIDMetrics, rerank=rerank) for rerank in (None, KReciprocal(k1=4, k2=2)))
    assert printed(plain)["to_dict"] != printed(reranked)["to_dict"]
