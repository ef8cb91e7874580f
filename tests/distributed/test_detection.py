"""`DetectionMAP` on several processes: the same values however the images are spread, and errors on all processes."""

import warnings

import pytest
import torch
from torch import distributed
from torchmetrics import MetricCollection
from torchmetrics.utilities.distributed import gather_all_tensors

from reid_torchmetrics import DetectionMAP, VocMAP, YoloMAP
from tests.distributed.detection_shards import (
    NUM_IMAGES,
    OPTIONS,
    alone,
    at,
    counts_collectives,
    prints,
    problem,
    shards,
    text_of,
)
from tests.distributed.shards import SHARDINGS
from tests.functional.detection.batches.test_invalid_detections import spoilt
from tests.functional.detection.detection_samples import fed, images
from tests.functional.detection.mask_samples import mask_images
from tests.tasks.test_image_boxes import turned


def shares_an_id(process: int, size: int, changed: bool) -> list[str]:
    """What each call says where the last process has the first image of all again, or another image with its id."""
    preds, target = problem(4)
    own = [*range(process, NUM_IMAGES, size)]
    if process == size - 1:
        preds[own[-1]], first = preds[0], target[0]
        target[own[-1]] = first | {"labels": first["labels"] + 1} if changed else first
    metric = fed(DetectionMAP(metric="map"), *at((preds, target), own))
    return [text_of(metric.compute), text_of(metric.results)]


def test_other_images_with_the_same_id_on_two_processes_are_an_error_on_all(processes):
    number = problem(4)[1][0]["image_id"]
    text = f"`image_id` must be the same only for repetitions of an image; got {number} for images whose ground truths"
    assert processes.run(3, shares_an_id, True) == [[f"{text} differ."] * 2] * 3


def test_the_same_image_with_the_same_id_on_two_processes_counts_once(processes):
    last = [*range(2, NUM_IMAGES, 3)][-1]
    expected = alone(at(problem(4), [place for place in range(NUM_IMAGES) if place != last]), metric="map").compute()
    for value, results in processes.run(3, shares_an_id, False):
        assert value == f"no error but {expected}"
        assert results.startswith("no error but DetectionResults(")


def without_ids(process: int, size: int, sharding: str) -> object:
    metric = DetectionMAP(**OPTIONS)
    return prints(fed(metric, *at(problem(3, with_ids=False), shards(sharding, size)[process])).compute())


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_without_image_id_images_are_numbered_as_processes_lay_them_down_in_turn(processes, sharding):
    dealt = shards(sharding, 3)
    order = [own[place] for place in range(NUM_IMAGES) for own in dealt if place < len(own)]
    if sharding == "round_robin":
        assert order == [*range(NUM_IMAGES)]
    expected = prints(alone(at(problem(3, with_ids=False), order), **OPTIONS).compute())
    assert processes.run(3, without_ids, sharding) == [expected] * 3


def dtypes(process: int, size: int) -> object:
    preds, target = at(problem(6), shards("round_robin", size)[process])
    dtype = (torch.float32, torch.float64, torch.float16)[process]
    for item in preds:
        item["scores"], item["labels"] = (item["scores"] * 4).round().to(dtype) / 4, item["labels"].to(torch.int8)
        item["boxes"] = item["boxes"].to(dtype)
    value = fed(DetectionMAP(**OPTIONS), preds, target).compute()
    return {name: prints(value[name]) for name in ("map", "recall", "map_per_class", "mar_small", "classes", "ious")}


def test_processes_may_hold_boxes_and_scores_of_other_dtypes(processes):
    given = problem(6)
    for item in given[0]:
        item["scores"] = (item["scores"] * 4).round() / 4
    value = alone(given, **OPTIONS).compute()
    for found in processes.run(3, dtypes):
        assert found == {name: prints(value[name]) for name in found}


@pytest.mark.parametrize("with_ids", [True, False])
@pytest.mark.parametrize("options", [{}, OPTIONS | {"average": "micro"}])
def test_the_number_of_collectives_does_not_depend_on_the_images(processes, with_ids, options):
    counts = {
        tuple(processes.run(2, counts_collectives, num_images, options | {"with_ids": with_ids}))
        for num_images in (5, 20, 60)
    }
    once, again = (12, 9) if with_ids else (8, 5)  # with "micro" the classes are matched by themselves
    number = once + (again if options else 0)
    assert counts == {(number, number)}


def every_way(process: int, size: int) -> dict[str, object]:
    given = problem(7)
    order = shards("round_robin", size)
    own = at(given, order[process])
    assert prints(fed(DetectionMAP(sync_on_compute=False), *own).compute()) != prints(alone(given).compute())
    metric = fed(DetectionMAP(sync_on_compute=False), *own)
    with metric.sync_context():
        values = {"sync_context": metric.compute()}
    values["on the CPU"] = fed(DetectionMAP(compute_on_cpu=True), *own).compute()
    values["process group"] = fed(DetectionMAP(process_group=distributed.group.WORLD), *own).compute()
    values["gathered"] = fed(DetectionMAP(dist_sync_fn=gather_all_tensors), *own).compute()
    grown = fed(DetectionMAP(), *at(own, [0, 1]))
    grown.compute()
    values["grown"] = fed(grown, *at(own, [*range(2, len(own[0]))])).compute()
    values["again"] = grown.compute()
    merged = fed(DetectionMAP(), *at(own, [0, 1]))
    merged.merge_state(fed(DetectionMAP(), *own))
    values["merged"] = merged.compute()
    collection = MetricCollection({"one": DetectionMAP(metric="map"), "all": DetectionMAP()})
    values["collection"] = {
        name.removeprefix("all_"): value for name, value in fed(collection, *own).compute().items() if name != "one"
    }
    return {name: prints(value) for name, value in values.items()}


def test_every_way_of_synchronizing_gives_the_same(processes):
    expected = prints(alone(problem(7)).compute())
    for values in processes.run(2, every_way):
        assert values == dict.fromkeys(values, expected)


def steps(process: int, size: int) -> list[object]:
    given = problem(8)
    metric = DetectionMAP(dist_sync_on_step=True)
    found = [prints(metric(*at(given, [first + process, first + process + 2]))) for first in range(0, 16, 4)]
    return [*found, prints(metric.compute())]


def test_a_synchronized_step_gives_the_value_of_the_batches_of_all_processes(processes):
    given = problem(8)
    expected = [prints(alone(at(given, [*range(first, first + 4)])).compute()) for first in range(0, 16, 4)]
    expected.append(prints(alone(at(given, [*range(16)])).compute()))
    assert processes.run(2, steps) == [expected] * 2


def told_of_invalid(given, kind, **options):
    """The value, and what the metric says of its own boxes that are inverted or not finite."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metric = fed(kind(**options), *given, size=3)
    return prints(metric.compute()), metric.num_invalid


def with_invalid(process: int, size: int, sharding: str, kind: type) -> tuple[object, int]:
    return told_of_invalid(at(INVALID, shards(sharding, size)[process]), kind)


INVALID = spoilt(given=problem(7))


@pytest.mark.parametrize("kind", [DetectionMAP, VocMAP, YoloMAP])
@pytest.mark.parametrize(("size", "sharding"), [(2, "round_robin"), (2, "empty_first"), (3, "uneven")])
def test_invalid_boxes_count_as_on_one_process_and_each_counts_its_own(processes, size, sharding, kind):
    value, num_invalid = told_of_invalid(INVALID, kind, sync_on_compute=False)
    assert num_invalid == 4 * NUM_IMAGES
    parts = [4 * len(part) for part in shards(sharding, size)]
    assert processes.run(size, with_invalid, sharding, kind) == [(value, number) for number in parts]


def names_cost(process: int, size: int, num_images: int) -> int:
    def with_names(*args, **options):
        preds, target = images(*args, **options)
        return preds, [item | {"image_id": f"{'x' * num_images}{process}/{item['image_id']}"} for item in target]

    return counts_collectives(process, size, num_images, {"with_ids": True}, with_names)


def test_names_cost_as_many_collectives_as_ids(processes):
    assert {tuple(processes.run(2, names_cost, num_images)) for num_images in (5, 60)} == {(12, 12)}


def with_areas(process: int, size: int) -> list[object]:
    """Masks with areas of detections that are not those of the masks; the first of several processes has no images."""
    preds, target = mask_images(7, 9)
    preds = [item | {"detection_area": 2000.0 * item["scores"].double()} for item in preds]
    metric = DetectionMAP(iou_type="segm", **OPTIONS)
    fed(metric, *at((preds, target), SHARDINGS["empty_first"](9, size)[process]), 2)
    results = metric.results()
    return [prints(metric.compute()), prints(results.summary()), results.averages.grid.has_given_areas]


def test_areas_of_detections_count_on_all_processes_and_all_results_know_of_them(processes):
    expected = with_areas(0, 1)
    assert expected[0] != prints(fed(DetectionMAP(iou_type="segm", **OPTIONS), *mask_images(7, 9)).compute())
    assert expected[2]
    assert processes.run(3, with_areas) == [expected] * 3


SLANTED, UPRIGHT = [0, 0, 4, 0, 5, 3, 1, 3], [8, 7, 10, 7, 10, 11, 8, 11]


def asks_for_corners(process: int, size: int) -> list[object]:
    """All processes; the first has no image."""
    preds, target = turned()
    metric = VocMAP(iou_type="rotated")
    if process:
        metric.update(preds[process - 1 : process], target[process - 1 : process])
    results = metric.results(boxes=True)
    sides = [*metric.boxes_of(["a", "b"]), *results.boxes_of(["a", "b"])]
    return [[each["rotated_boxes"].tolist() for each in side] for side in sides] + [results.detections().boxes.tolist()]


def test_all_processes_get_the_corners_of_all(processes):
    sides = [[[], [SLANTED]], [[UPRIGHT], [SLANTED]]]
    assert processes.run(3, asks_for_corners) == [[*sides, *sides, [SLANTED]]] * 3
