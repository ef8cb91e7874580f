"""Images on several processes: one process says of all what a single one says, and errors come on all.

Processes are threads, which talk to each other through memory.
"""

import random
import re
import warnings

import pytest
import torch

from reid_torchmetrics import DetectionMAP, VocMAP
from reid_torchmetrics.functional.detection.evaluation import match_shards
from reid_torchmetrics.functional.detection.evaluation.sharded_images import exchange_tensors, packed
from reid_torchmetrics.functional.world import DistributedMetricError
from reid_torchmetrics.tasks.image_boxes import find_boxes
from tests.distributed import threads
from tests.distributed.detection_shards import at
from tests.distributed.shards import SHARDINGS
from tests.functional.detection.batches.test_image_names import NAMES, of, tensors
from tests.functional.detection.detection_samples import fed, images, is_same, named
from tests.tasks.test_image_boxes import numbers_of, turned

GIVEN = images(31, len(NAMES), num_levels=3, with_ids=True)
SEEN = GIVEN[0], named(GIVEN[1], NAMES)


def test_tensors_of_any_kind_and_number_come_to_every_process():
    sent = [
        [torch.arange(11) % 3 == 0, torch.arange(6).view(2, 3), torch.empty(0, 4)],
        [torch.tensor([], dtype=torch.bool)],
        [
            torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
            torch.arange(16).view(8, 2) < 5,
            torch.tensor([3e300]).double(),
        ],
    ]
    for found in threads.run(3, lambda world: exchange_tensors(world, lambda: sent[world.process])):
        for received, given in zip(found, sent, strict=True):
            assert [each.dtype for each in received] == [each.dtype for each in given]
            assert all(torch.equal(*pair) for pair in zip(received, given, strict=True))


def test_flags_take_a_bit_and_a_view_takes_its_own_values():
    flags, number = torch.ones(80_000, dtype=torch.bool), torch.zeros(80_000)[:1]
    assert len(packed([flags, number])) - len(packed([flags[:0], number])) == pytest.approx(10_000, abs=100)


def together(metrics: list, ask) -> list:
    """What `ask` says of each of some metrics, which are those of so many processes."""

    def process(world: threads.ThreadWorld) -> object:
        metrics[world.process]._processes = world
        return ask(metrics[world.process])

    return threads.run(len(metrics), process)


def results_of(metric: DetectionMAP):
    request = metric._request().of_results()
    options = {"rule": "coco", "confidence": None, "class_names": {}, "boxes": False}
    return match_shards(metric._evaluated_images(), [request], **options)[0]


def dealt(seen, order: list[list[int]], make=DetectionMAP) -> list:
    return [fed(make(), *at(seen, own), size=4) for own in order]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("sharding", SHARDINGS)
@pytest.mark.slow
def test_all_processes_number_the_names_of_all(size, sharding):
    expected = fed(DetectionMAP(), *SEEN).results()
    generator = random.Random(size)  # noqa: S311
    order = [generator.sample(own, len(own)) for own in SHARDINGS[sharding](len(NAMES), size)]
    if not sharding.startswith("padded"):
        order[-1] += order[0][:3]  # in this process again, or in another one, too
    for found in together(dealt(SEEN, order), results_of):
        assert found.image_names == expected.image_names == tuple(sorted(NAMES))
        for each in (type(found).detections, type(found).image_errors):
            assert is_same(tensors(each(found)), tensors(each(expected)))
            assert torch.equal(each(found).image, each(expected).image)
        assert is_same(found.summary(), expected.summary())
        assert torch.equal(found.matches.images, expected.matches.images)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.slow
def test_random_names_are_those_of_one_process(seed):
    generator = random.Random(seed)  # noqa: S311
    size, num_names = generator.randint(1, 4), generator.randint(1, 9)
    names: set[str] = set()
    while len(names) < num_names:
        names.add("".join(generator.choices("aA0/.é日😀\udcff\0", k=generator.randint(0, 3))))
    preds, target = images(seed, num_names, num_levels=2, with_ids=True)
    seen = preds, named(target, [*names])
    order: list[list[int]] = [[] for _ in range(size)]
    for place in [*range(num_names), *generator.choices(range(num_names), k=3)]:
        generator.choice(order).append(place)
    ours = together(dealt(seen, order), results_of)
    plain = together(dealt((preds, target), order), results_of)
    for found, expected in zip(ours, plain, strict=True):
        assert found.image_ids == sorted(names)
        assert is_same(tensors(found.detections()), tensors(expected.detections()))
        assert is_same(found.summary(), expected.summary())


def test_other_ground_truths_under_one_name_are_an_error_on_all():
    order = [[*range(8)], [*range(8, len(NAMES))], []]
    metrics = dealt(SEEN, order)
    place = next(place for place in order[0] if len(SEEN[1][place]["labels"]))
    name = SEEN[1][place]["image_id"]
    metrics[2].update(SEEN[0][:1], [SEEN[1][place] | {"labels": SEEN[1][place]["labels"] + 1}])
    said = f"`image_id` must be the same only for repetitions of an image; got {name!r} for images whose ground truths"

    def ask(metric: DetectionMAP) -> str:
        with pytest.raises(ValueError, match=f"^{re.escape(said)} differ\\.$"):
            results_of(metric)
        return "refused"

    assert together(metrics, ask) == ["refused"] * 3


@pytest.mark.parametrize(
    ("batches", "said"),
    [
        ([of("a"), of(3)], "process 0: given as str; process 1: given as int"),
        ([of("a"), None, of(3)], "process 0: given as str; process 1: no images; process 2: given as int"),
        ([of("a"), ([{}], None)], "process 0: given; process 1: not given"),
        ([([{}], None), of("a"), of(3)], "process 0: not given; process 1: given as str; process 2: given as int"),
    ],
)
def test_names_on_some_processes_and_numbers_on_others_are_an_error_on_all(batches, said):
    plain = of(1)[0], [{key: value for key, value in of(1)[1][0].items() if key != "image_id"}]
    metrics = [DetectionMAP() for _ in batches]
    for metric, batch in zip(metrics, batches, strict=True):
        if batch is not None:
            metric.update(*(plain if batch[1] is None else batch))
    text = f"All processes must have the same use of `image_id`; got {said}."

    def ask(metric: DetectionMAP) -> str:
        with pytest.raises(DistributedMetricError, match=f"^{re.escape(text)}$"):
            metric._sharded().match(metric._request())
        return "refused"

    assert together(metrics, ask) == ["refused"] * len(metrics)


def test_areas_of_the_detections_of_some_processes_only_are_an_error_on_all():
    preds, target = of(1)
    without = [{key: value for key, value in target[0].items() if key != "image_id"}]
    with_areas = [preds[0] | {"detection_area": torch.ones(len(preds[0]["labels"]))}]
    metrics = [DetectionMAP() for _ in range(3)]
    metrics[0].update(with_areas, without)
    metrics[2].update(preds, without)
    uses = "process 0: given; process 1: no detections; process 2: not given"
    text = f"All processes must have the same use of `detection_area`; got {uses}."

    def ask(metric: DetectionMAP) -> str:
        with pytest.raises(DistributedMetricError, match=f"^{re.escape(text)}$"):
            metric._sharded().match(metric._request())
        return "refused"

    assert together(metrics, ask) == ["refused"] * len(metrics)


@pytest.mark.parametrize("chosen", [["b/á.jpg", "", "a\0"], ("ab",), [], torch.tensor([5, 0])])
def test_boxes_are_asked_for_by_name_wherever_they_are(chosen):
    expected = fed(DetectionMAP(), *SEEN).boxes_of(chosen)
    metrics = dealt(SEEN, SHARDINGS["padded"](len(NAMES), 3))
    for found, names in together(metrics, lambda metric: find_boxes(metric._sharded(), chosen)):
        assert names == tuple(sorted(NAMES))
        ids = {each["image_id"] for each in expected[1]}
        assert {boxes.ground_truths["image_id"] for boxes in found.values()} == ids
        asked = [found[names.index(each["image_id"])] for each in expected[1]]
        sides = [each.detections for each in asked], [each.ground_truths for each in asked]
        assert numbers_of(sides) == numbers_of(expected)


def test_corners_are_asked_for_wherever_they_are():
    metrics = [VocMAP(iou_type="rotated") for _ in range(3)]
    for number, (metric, item) in enumerate(zip(metrics[1:], turned()[1], strict=True)):
        metric.update([item | {"scores": torch.tensor([0.5 + number / 4])}], [item])
    for found, names in together(metrics, lambda metric: find_boxes(metric._sharded())):
        of_image = {names[place]: each.detections["rotated_boxes"].tolist() for place, each in found.items()}
        assert of_image == {"a": [[8, 7, 10, 7, 10, 11, 8, 11]], "b": [[0, 0, 4, 0, 5, 3, 1, 3]]}


def said_of(target, order: list[list[int]]) -> list[str]:
    """The warnings where the processes hold these images, without ids and detections."""
    none = {"boxes": torch.empty(0, 4), "scores": torch.empty(0), "labels": torch.empty(0, dtype=torch.int64)}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        metrics = dealt(([none] * len(target), target), order)
        together(metrics, results_of)
    return [str(one.message) for one in told]


def kinds(num_kinds: int, num_images: int) -> list[dict[str, torch.Tensor]]:
    """Images with one box each, the last of which are the same."""
    label = torch.tensor([1])
    places = [min(place, num_kinds - 1) for place in range(num_images)]
    return [{"boxes": torch.tensor([[0.0, 0.0, 9.0, 1.0 + place]]), "labels": label} for place in places]


GATHERED = "Several processes hold images with the same ground truths, and each counts them: they seem to have been"
REPEATED = "A distributed sampler seems to have repeated images to make the numbers even, and they count twice: all"


@pytest.mark.needs("diagnosis")
@pytest.mark.parametrize(
    ("num_kinds", "num_images", "text"), [(8, 8, GATHERED), (7, 7, REPEATED), (8, 16, GATHERED), (8, 17, REPEATED)]
)
def test_images_that_all_processes_hold_are_said_to_be_gathered_if_eight_and_half_of_them_differ(
    num_kinds, num_images, text
):
    (told,) = said_of(kinds(num_kinds, num_images), [[*range(num_images)]] * 2)
    assert told.startswith(text)


def test_images_without_ground_truths_do_not_look_repeated():
    none = {"boxes": torch.empty(0, 4), "labels": torch.empty(0, dtype=torch.int64)}
    assert said_of([none, *kinds(2, 2), none], [[0, 1, 3], [0, 2, 3]]) == []
