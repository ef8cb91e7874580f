"""`DetectionMAP` on several processes: the same values however the images are spread, and errors on all processes."""

import functools
import hashlib
import warnings
from collections.abc import Mapping
from unittest import mock

import pytest
import torch
from torch import Tensor, distributed
from torch.utils.data import DistributedSampler
from torchmetrics import MetricCollection
from torchmetrics.utilities.distributed import gather_all_tensors

from reid_torchmetrics import UnpaddedDistributedSampler
from reid_torchmetrics.metrics.base.process_group import DistributedWorld
from reid_torchmetrics.metrics.detection import box_metric, gathering, local_matches, match_cache, tensor_exchange
from reid_torchmetrics.metrics.detection.detection_map import DetectionMAP
from tests.distributed.shards import SHARDINGS
from tests.distributed.test_errors import message_of, out_of_memory
from tests.metrics.detection.detection_samples import fed, images

OPTIONS = {"class_metrics": True, "extended_summary": True}
NUM_IMAGES = 17

Seen = tuple[list[dict[str, Tensor]], list[dict[str, Tensor]]]


def prints(value: object) -> object:
    """What tells two values apart, dtypes and shapes included; it can be sent to the test."""
    if isinstance(value, Mapping):
        return {name: prints(each) for name, each in value.items()}
    data = value.contiguous().view(-1).view(torch.uint8).numpy().tobytes()
    return str(value.dtype), tuple(value.shape), hashlib.sha256(data).hexdigest()


def problem(seed: int, *, with_ids: bool = True) -> Seen:
    return images(seed, NUM_IMAGES, num_levels=4, with_ids=with_ids)


def at(given: Seen, places: list[int]) -> Seen:
    return tuple([side[place] for place in places] for side in given)


def alone(given: Seen, **options: object) -> DetectionMAP:
    return fed(DetectionMAP(sync_on_compute=False, **options), *given)


def shards(sharding: str, size: int) -> list[list[int]]:
    return SHARDINGS[sharding](NUM_IMAGES, size)


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
def test_with_image_id_the_values_are_the_same_however_images_are_spread(processes, size, sharding):
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


def text_of(call) -> str:
    """What `message_of` says; an error that all processes have is the error itself, after which they go on, too."""
    try:
        return message_of(call)
    except ValueError as error:
        assert message_of(lambda: "all processes") == "no error but all processes"
        return str(error)


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


def padded(process: int, size: int, sampler: str, seeds: list[int]) -> list[list[str]]:
    """The warnings of several metrics, one after the other."""
    said = []
    for seed in seeds:
        given = problem(seed, with_ids=sampler == "ids")
        make = UnpaddedDistributedSampler if sampler == "unpadded" else DistributedSampler
        order = [*make(range(NUM_IMAGES), size, process, shuffle=sampler == "shuffled")]
        metric = fed(DetectionMAP(metric="map"), *at(given, order))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            metric.compute()
        said.append([str(each.message) for each in caught])
    return said


@pytest.mark.parametrize(("size", "sampler"), [(2, "padded"), (3, "padded"), (3, "shuffled")])
def test_images_that_look_repeated_are_said_to_be_once(processes, size, sampler):
    first, *others = processes.run(size, padded, sampler, [9, 11])
    (text,) = first[0]
    assert text.startswith(
        "All processes hold equally many images, and the last of one has the ground truths of the first"
    )
    assert text.endswith("Give `image_id` in `target`, or use `UnpaddedDistributedSampler`.")
    assert [first[1:], *others] == [[[]], *[[[], []]] * (size - 1)]


@pytest.mark.parametrize("sampler", ["ids", "unpadded"])
def test_images_with_ids_or_from_an_unpadded_sampler_do_not_look_repeated(processes, sampler):
    assert processes.run(3, padded, sampler, [9]) == [[[]]] * 3


def look_alike(process: int, size: int) -> list[str]:
    """All processes hold equally many images, none of them twice; first and last have no ground truths."""
    preds, target = problem(8, with_ids=False)
    empty = {"boxes": torch.tensor([]), "labels": torch.tensor([])}
    own = [process, process + size, process + 2 * size]
    metric = fed(DetectionMAP(metric="map"), [preds[place] for place in own], [empty, target[own[1]], empty])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        metric.compute()
    return [str(each.message) for each in caught]


def test_images_without_ground_truths_do_not_look_repeated(processes):
    assert processes.run(3, look_alike) == [[]] * 3


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


def lists(process: int, size: int, sharding: str, average: str) -> tuple[object, object]:
    own = at(problem(5), shards(sharding, size)[process])
    results = fed(DetectionMAP(average=average), *own).results()
    points = results.best_f1()
    return prints(as_dict(results)), prints({"confidence": points.confidence, "f1": points.f1})


def as_dict(results) -> dict[str, object]:
    found = {name: value for name, value in vars(results.detections()).items() if isinstance(value, Tensor)}
    grids = {name: getattr(results.coco, name) for name in ("precision", "recall", "scores", "classes")}
    return found | grids | results.summary() | {"images": results.images}


@pytest.mark.parametrize("sharding", ["uneven", "empty_first", "padded_shuffled"])
@pytest.mark.parametrize("average", ["macro", "micro"])
def test_results_are_the_same_on_all_processes(processes, sharding, average):
    results = alone(problem(5), average=average).results()
    for found, points in processes.run(3, lists, sharding, average):
        assert found == prints(as_dict(results))
        assert points == prints({"confidence": results.best_f1().confidence, "f1": results.best_f1().f1})


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


def counts_collectives(process: int, size: int, num_images: int, options: dict[str, object], make=images) -> int:
    calls = []
    names = ("broadcast", "all_gather", "all_reduce", "barrier", "all_gather_object", "all_gather_into_tensor")
    patches = [
        mock.patch.object(distributed, name, functools.partial(_counted, calls, getattr(distributed, name)))
        for name in names
    ]
    own = make(process, num_images, with_ids=bool(options.pop("with_ids")))
    for item in own[1]:
        if isinstance(item.get("image_id"), int):
            item["image_id"] = item["image_id"] * size + process
    metric = fed(DetectionMAP(**options), *own)
    with patches[0], patches[1], patches[2], patches[3], patches[4], patches[5]:
        metric.compute()
    return len(calls)


def _counted(calls: list[str], function, *args, **options):
    calls.append(function.__name__)
    return function(*args, **options)


@pytest.mark.parametrize("with_ids", [True, False])
@pytest.mark.parametrize("options", [{}, OPTIONS | {"average": "micro"}])
def test_the_number_of_collectives_does_not_depend_on_the_images(processes, with_ids, options):
    counts = {
        tuple(processes.run(2, counts_collectives, num_images, options | {"with_ids": with_ids}))
        for num_images in (5, 20, 60)
    }
    assert counts == {(10, 10) if with_ids else (7, 7)}


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


PLACES = {
    "joining": functools.partial(out_of_memory, box_metric.Images, "joined"),
    "numbering": functools.partial(out_of_memory, gathering.ImageNumbering, "number"),
    "matching": functools.partial(out_of_memory, local_matches, "match_on_grid"),
    "packing": functools.partial(out_of_memory, tensor_exchange, "_to_bits"),
    "unpacking": functools.partial(out_of_memory, tensor_exchange, "_from_bits"),
    "merging": functools.partial(out_of_memory, local_matches, "merge_matches"),
    "averaging": functools.partial(out_of_memory, match_cache, "average_matches"),
}


def fails_then_works(process: int, size: int, place: str) -> tuple[str, object]:
    match_cache.matchings._entries.clear()  # of metrics with the same images
    metric = fed(DetectionMAP(), *at(problem(9), shards("round_robin", size)[process]))
    with PLACES[place]() if process == size - 1 else mock.MagicMock():
        message = message_of(metric.compute)
    assert not metric._is_synced
    return message, prints(metric.compute())


@pytest.mark.parametrize("place", PLACES)
def test_a_process_that_runs_out_of_memory_fails_on_all(processes, place):
    expected = prints(alone(problem(9)).compute())
    message = "process 1: OutOfMemoryError: simulated"
    assert processes.run(2, fails_then_works, place) == [(message, expected)] * 2


def buffers_fail(process: int, size: int) -> str:
    match_cache.matchings._entries.clear()  # of metrics with the same images
    metric = fed(DetectionMAP(), *at(problem(9), shards("round_robin", size)[process]))
    original, calls = DistributedWorld.guarded, []

    def together(group, work):
        calls.append(work)
        fails = mock.Mock(side_effect=torch.cuda.OutOfMemoryError("simulated"))
        return original(group, fails if process == 0 else work)

    with mock.patch.object(DistributedWorld, "guarded", together):
        return message_of(metric.compute)


def test_a_process_without_memory_for_what_it_is_to_receive_fails_on_all(processes):
    assert processes.run(2, buffers_fail) == ["process 0: OutOfMemoryError: simulated"] * 2


def refuses(process: int, size: int, method: str, step: bool) -> list[str]:
    given, said = problem(10), []
    metric = DetectionMAP(metric="map", dist_sync_on_step=step)
    for number, place in enumerate(shards("round_robin", size)[process][:4]):
        preds, target = at(given, [place])
        if (process, number) == (1, 2):
            target = [{"labels": target[0]["labels"], "image_id": 1}]
        if step:
            said.append(message_of(lambda preds=preds, target=target: getattr(metric, method)(preds, target)))
        elif (process, number) == (1, 2):
            with pytest.raises(ValueError, match="boxes"):
                getattr(metric, method)(preds, target)
        else:
            getattr(metric, method)(preds, target)
    return [*said, message_of(metric.compute), message_of(metric.compute)]


@pytest.mark.parametrize("method", ["update", "forward"])
def test_a_batch_that_one_process_refused_is_an_error_on_all_when_they_compute(processes, method):
    first, second = processes.run(2, refuses, method, False)
    assert first == second
    missing = (
        "Expected all dicts in `target` to contain the `boxes` key; got `target[0]` with the keys labels, image_id."
    )
    assert first[0] == f"process 1: ValueError: {missing}"
    assert first[1].startswith("no error but ")


def test_a_batch_that_is_refused_in_a_synchronized_step_fails_that_step_on_all(processes):
    first, second = processes.run(2, refuses, "forward", True)
    assert first == second
    assert [text.startswith("process 1: ValueError: Expected all dicts in `target`") for text in first] == [
        False,
        False,
        True,
        *[False] * 3,
    ]


def differs(process: int, size: int, kind: str) -> str:
    changed = {"options": {"average": "micro"}, "metric": {"metric": "map_50"}, "limits": {}}
    metric = DetectionMAP(**changed.get(kind, {})) if process else DetectionMAP()
    if kind == "limits" and process:
        metric.max_detection_thresholds[-1] = 50
    given = problem(11, with_ids=not (process and kind == "ids"))
    return message_of(fed(metric, *at(given, shards("round_robin", size)[process])).compute)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("options", "have the same `average`; got process 0: 'macro'; process 1: 'micro'."),
        ("metric", "have the same `metric`; got process 0: None; process 1: 'map_50'."),
        ("limits", "have the same `max_detection_thresholds`; got process 0: [1, 10, 100]; process 1: [1, 10, 50]."),
        ("ids", "have the same use of `image_id`; got process 0: given; process 1: not given."),
    ],
)
def test_metrics_or_images_that_differ_between_processes_are_an_error_on_all(processes, kind, said):
    assert processes.run(2, differs, kind) == [f"All processes must {said}"] * 2


def asks(process: int, size: int) -> list[str]:
    metric = fed(DetectionMAP(metric="map"), *at(problem(12), shards("round_robin", size)[process]))
    return [message_of(metric.results if process == 0 else metric.compute), message_of(metric.compute)]


def test_processes_that_ask_for_different_things_learn_it_and_go_on(processes):
    first, second = processes.run(2, asks)
    assert first == second
    asked = "process 0: `DetectionMAP.results`; process 1: `DetectionMAP.compute`."
    assert first[0] == f"All processes must call the same method of the same class; got {asked}"
    assert first[1].startswith("no error but ")


def has_no_thresholds(process: int, size: int) -> list[str]:
    metric = fed(DetectionMAP(metric="map"), *at(problem(12), shards("round_robin", size)[process]))
    given = metric.rec_thresholds
    metric.rec_thresholds = None if process else given
    said = [message_of(metric.compute), message_of(metric.results)]
    metric.rec_thresholds = given
    return [*said, message_of(metric.compute)]


def test_an_error_before_the_first_word_between_processes_is_an_error_on_all(processes):
    first, second = processes.run(2, has_no_thresholds)
    assert first == second
    assert first[:2] == ["process 1: TypeError: 'NoneType' object is not iterable"] * 2
    assert first[2].startswith("no error but ")
