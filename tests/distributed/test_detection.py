"""`DetectionMAP` on several processes: the same values however the images are spread, and errors on all processes."""

import pytest
import torch
from torch import distributed
from torchmetrics import MetricCollection
from torchmetrics.utilities.distributed import gather_all_tensors

from reid_torchmetrics.metrics.detection.detection_map import DetectionMAP
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
from tests.functional.detection.detection_samples import fed


def evaluates(process: int, size: int, sharding: str, seeds: list[int]) -> list[object]:
    found = []
    for seed in seeds:
        average = "micro" if seed % 2 else "macro"
        metric = DetectionMAP(average=average, **OPTIONS)
        order = shards(sharding, size)[process]
        fed(metric, *at(problem(seed), order[::-1] if seed % 3 else order), size=1 + seed % 4)
        found.append(prints(metric.compute()))
    return found


@pytest.mark.parametrize(
    ("size", "sharding"), [(1, "round_robin"), (2, "uneven"), (2, "empty_first"), *((3, name) for name in SHARDINGS)]
)
def test_values_with_image_id_are_the_same_for_every_distribution_of_images(processes, size, sharding):
    seeds = [1, 2]
    expected = [
        prints(alone(problem(seed), average="micro" if seed % 2 else "macro", **OPTIONS).compute()) for seed in seeds
    ]
    for found in processes.run(size, evaluates, sharding, seeds):
        assert found == expected


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


def nothing(process: int, size: int) -> list[object]:
    metric, empty = DetectionMAP(**OPTIONS), DetectionMAP(metric="map")
    none = torch.tensor([])
    empty.update([dict.fromkeys(("boxes", "scores", "labels"), none)], [dict.fromkeys(("boxes", "labels"), none)])
    value = metric.compute()
    assert len(metric.results().detections()) == 0
    return [float(value["map"]), len(value["classes"]), float(empty.compute())]


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_processes_without_images_and_images_without_boxes_give_minus_one(processes):
    assert processes.run(2, nothing) == [[-1, 0, -1]] * 2


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
