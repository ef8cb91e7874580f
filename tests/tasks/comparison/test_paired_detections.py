"""Two detectors on the same images: draws of images are evaluated as if the images were there, copy by copy."""

import math
import re
from dataclasses import asdict, fields, replace

import pytest
import torch

from reid_torchmetrics import DetectionMAP, compare
from reid_torchmetrics.functional.detection import (
    DetectionResults,
    Detections,
    GroundTruths,
    evaluate_boxes,
    evaluate_images,
)
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS
from reid_torchmetrics.functional.detection.inputs import CocoGrid
from reid_torchmetrics.tasks import Comparison
from reid_torchmetrics.tasks.comparison import paired_detections
from reid_torchmetrics.tasks.comparison.paired_detections import PairedDetections
from tests.functional.detection.detection_samples import Dicts, fed, images
from tests.reference import averages
from tests.tasks.comparison.two_models import ranked

NUM = 7


def models(seed: int = 3, num_images: int = NUM, *, with_ids: bool = False) -> tuple[list[Dicts], Dicts]:
    """Detections of two models, without equal scores, on the same ground truths."""
    generator = torch.Generator().manual_seed(seed)
    preds, target = images(seed, num_images, num_classes=3, with_ids=with_ids)
    for item in target[::2]:
        item["difficult"] = torch.arange(len(item["labels"])) % 3 == 2
        item["neg_category_ids"] = [0]
    both = []
    for noise in (1.0, 6.0):
        both.append([])
        for item in preds:
            moved = noise * torch.randn(item["boxes"][:, :2].shape, generator=generator)
            scores = torch.rand(len(item["scores"]), generator=generator)
            both[-1].append(item | {"boxes": item["boxes"] + moved.repeat(1, 2), "scores": scores})
    return both, target


def evaluated(preds: Dicts, target: Dicts, **options: object) -> DetectionResults:
    return evaluate_images(preds, target, **options)


def numbers(results: DetectionResults) -> list[float]:
    return [math.nan if value < 0 else value for value in results.means.values()]


def of_draw(both: list[Dicts], target: Dicts, times: list[int], swapped: list[int], **options: object) -> list[float]:
    """The differences where each image is listed as often as it is drawn, evaluated from the beginning."""
    order = [image for image, number in enumerate(times) for _ in range(number)]
    found = []
    for model in (0, 1):
        preds = [both[model ^ swapped[image]][image] for image in order]
        found.append(numbers(evaluated(preds, [target[image] for image in order], **options)))
    return [b - a for a, b in zip(*found, strict=True)]


def compared(*results: DetectionResults, draws: int = 20, **options: object) -> Comparison:
    return compare(*results, **({"num_resamples": draws, "num_permutations": draws} | options))


def numbers_of(comparison: Comparison) -> list[list[float]]:
    return [list(asdict(each).values())[:-3] for each in comparison.differences.values()]


TIMES = [[1] * NUM, [2, 0, 1, 3, 0, 1, 0], [0, 0, 0, 0, 0, 0, 7]]
SWAPPED = [[0] * NUM, [1, 0, 1, 1, 0, 0, 1]]


@pytest.mark.parametrize("evaluator", EVALUATORS)
@pytest.mark.slow
def test_a_draw_has_the_numbers_of_its_images_one_by_one(evaluator):
    both, target = models()
    options = {"evaluator": evaluator} | ({"iou_thresholds": (0.5, 0.75)} if evaluator != "coco" else {})
    pair = [evaluated(preds, target, **options) for preds in both]
    paired = PairedDetections.of((pair[0], pair[1]), ("a", "b"))
    for times, swapped in zip((TIMES[0], TIMES[1], TIMES[1], TIMES[2]), (*SWAPPED[::-1], *SWAPPED[::-1]), strict=True):
        found = paired.difference(torch.tensor(times), torch.tensor(swapped)).tolist()
        expected = of_draw(both, target, times, swapped, **options)
        assert found == pytest.approx(expected, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize(
    "options",
    [
        {"max_detection_thresholds": (1, 100, 200)},
        {"rule": "voc07"},
        {"iou_thresholds": (0.5,)},
        {"evaluator": "ultralytics", "confidence": 0.4},
    ],
)
def test_a_draw_keeps_the_options_of_the_evaluation(options):
    both, target = models(4)
    pair = [evaluated(preds, target, **options) for preds in both]
    paired = PairedDetections.of((pair[0], pair[1]), ("a", "b"))
    found = paired.difference(torch.tensor(TIMES[1]), torch.tensor(SWAPPED[1])).tolist()
    assert found == pytest.approx(of_draw(both, target, TIMES[1], SWAPPED[1], **options), abs=1e-12, nan_ok=True)


@pytest.mark.slow
def test_intervals_and_p_values_are_those_of_the_definition():
    both, target = models(6, 5)
    found = compared(*(evaluated(preds, target) for preds in both), draws=8).differences["map"]
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(5, (8, 5), generator=generator).tolist()
    changes = [of_draw(both, target, [row.count(image) for image in range(5)], [0] * 5)[0] for row in drawn]
    ends = [averages.quantile(sorted(changes), share) for share in (0.025, 0.975)]
    assert [found.low, found.high] == pytest.approx(ends, abs=1e-12)
    whole = [float(evaluated(preds, target)["map"]) for preds in both]
    assert [found.mean_a, found.mean_b, found.difference] == pytest.approx([*whole, whole[1] - whole[0]])
    num_extreme = 0
    for _ in range(8):
        swaps = torch.randint(2, (5,), generator=generator).tolist()
        num_extreme += abs(of_draw(both, target, [1] * 5, swaps)[0]) >= abs(found.difference) - 1e-9
    assert found.p_value == pytest.approx((1 + num_extreme) / 9)


@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_positives_are_those_of_the_matches_in_every_area_range(evaluator):
    both, target = models(8, 12)
    results = evaluated(both[0], target, evaluator=evaluator)
    place = torch.searchsorted(results.classes, results.positives[:, 1].contiguous())
    for area, expected in enumerate(results.matches.num_positives):
        counts = results.positives[:, 2] >> area & 1 == 1
        assert torch.equal(place[counts].bincount(minlength=len(expected)), expected)


def test_all_labels_together_are_one_class():
    both, target = models(12)
    micro = [fed(DetectionMAP(average="micro"), preds, target).results() for preds in both]
    paired = PairedDetections.of((micro[0], micro[1]), ("a", "b"))
    found = paired.difference(torch.tensor(TIMES[1]), torch.tensor(SWAPPED[1])).tolist()
    *both, target = ([item | {"labels": 0 * item["labels"]} for item in side] for side in (*both, target))
    assert found == pytest.approx(of_draw(both, target, TIMES[1], SWAPPED[1]), abs=1e-12, nan_ok=True)


@pytest.mark.slow
def test_images_with_ids_may_come_in_any_order():
    both, target = models(9, with_ids=True)
    a, b = (evaluated(preds, target) for preds in both)
    order = [4, 0, 6, 2, 5, 1, 3]
    shuffled = evaluated([both[1][image] for image in order], [target[image] for image in order])
    for one, other in zip(numbers_of(compared(a, b)), numbers_of(compared(a, shuffled)), strict=True):
        assert one == pytest.approx(other, abs=1e-12, nan_ok=True)


@pytest.mark.slow
def test_classes_are_counted_that_one_model_does_better():
    # Of class 0 model b misses the box that a finds, of class 1 it is the other way round, and class 2 nobody finds.
    box, none = torch.tensor([[0.0, 0.0, 50.0, 50.0]]), torch.zeros(0)
    target = [{"boxes": box, "labels": torch.tensor([label])} for label in (0, 1, 2)]
    hit = [{"boxes": box, "scores": torch.ones(1), "labels": torch.tensor([label])} for label in (0, 1)]
    miss = {"boxes": none.view(0, 4), "scores": none, "labels": none.long()}
    a, b = (evaluated(preds, target) for preds in ([hit[0], miss, miss], [miss, hit[1], miss]))
    found = compared(a, b).differences["map"]
    assert (found.num_better, found.num_worse, found.num_equal) == (1, 1, 1)
    assert found.difference == 0
    assert found.p_value == 1


@pytest.mark.parametrize("num_images", [0, 2])
def test_without_ground_truths_everything_is_undefined(num_images):
    both, target = models(1, num_images)
    empty = [{"boxes": torch.zeros(0, 4), "labels": torch.zeros(0).long()} for _ in target]
    found = compared(*(evaluated(preds, empty) for preds in both))
    assert numbers_of(found)[0] == pytest.approx([math.nan] * 6 + [0, 0, 0, False], nan_ok=True)
    assert found.num_queries == num_images
    assert found.to_dict()["measures"]["map"]["p_value"] is None


@pytest.mark.slow
def test_a_number_that_a_draw_leaves_undefined_has_an_interval_of_the_other_draws():
    # One of two images has ground truths: a draw in four is without, and the others differ by 1.
    box, none = torch.tensor([[0.0, 0.0, 50.0, 50.0]]), torch.zeros(0)
    empty = {"boxes": none.view(0, 4), "labels": none.long()}
    target = [{"boxes": box, "labels": torch.tensor([0])}, empty]
    right = [{"boxes": box, "scores": torch.ones(1), "labels": torch.tensor([0])}, empty | {"scores": none}]
    found = compared(*(evaluated(preds, target) for preds in ([right[1]] * 2, right))).differences["map_50"]
    assert [found.low, found.high] == pytest.approx([1, 1])


BOTH, TARGET = models(13, with_ids=True)
A = evaluated(BOTH[0], TARGET)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"evaluator": "ultralytics"}, "be evaluated as `a` was; got evaluator='Ultralytics' and not 'COCO'."),
        ({"rule": "voc"}, "be evaluated as `a` was; got rule='voc' and not 'coco'."),
        (
            {"max_detection_thresholds": (1, 10)},
            "be evaluated as `a` was; got max_detection_thresholds=[1, 10] and not [1, 10, 100].",
        ),
    ],
)
def test_other_options_are_refused(change, message):
    with pytest.raises(ValueError, match=f"^{re.escape(f'`b` must {message}')}$"):
        compared(A, evaluated(BOTH[1], TARGET, **change))


def test_other_images_and_ground_truths_are_refused():
    fewer = evaluated(BOTH[1][:-1], TARGET[:-1])
    with pytest.raises(ValueError, match=r"^`y` must hold the images of `x`; got image 958 in `x` alone\.$"):
        compared({"x": A, "y": fewer})
    with pytest.raises(ValueError, match=r"^`b` must hold the images of `a`; got image 958 in `b` alone\.$"):
        compared(fewer, A)
    # The label of one ground truth is another.
    place = next(place for place, item in enumerate(TARGET) if len(item["labels"]))
    other = [*TARGET]
    other[place] = TARGET[place] | {"labels": TARGET[place]["labels"] + 1}
    with pytest.raises(
        ValueError, match=r"^`b` must have the ground truths of `a`; got others of label \d in image \d+"
    ):
        compared(A, evaluated(BOTH[1], other))


def test_queries_and_images_are_not_compared():
    for pair in ((A, ranked(1)), (ranked(1), A)):
        with pytest.raises(
            TypeError, match=r"^`b` must be RetrievalResults or DetectionResults, all of one kind; got "
        ):
            compared(*pair)
    with pytest.raises(ValueError, match=r"^`per_identity` must come with results that know identities"):
        compared(A, A, per_identity=True)


def test_results_of_tensors_are_compared():
    sides = {"boxes": torch.tensor([[0.0, 0, 9, 9], [5, 5, 9, 9]]), "labels": torch.tensor([1, 1])}
    truths = GroundTruths(**sides, images=torch.tensor([3, 8]))
    found = [
        evaluate_boxes(Detections(**sides, scores=torch.tensor(scores), images=torch.tensor([3, 8])), truths)
        for scores in ([0.5, 0.75], [0.25, 0.5])
    ]
    assert compared(*found, draws=3).differences["map"].p_value == 1
    assert replace(found[0], class_names={1: "cat"}).num_positives.tolist() == [1, 1]


def test_a_refusal_has_words_for_each_flag_of_a_grid():
    flags = {field.name for field in fields(CocoGrid) if isinstance(field.default, bool)}
    assert flags == set(paired_detections._FLAGS_IN_WORDS)
