"""Images with names on several processes: what one process says of all of them, and errors on all processes."""

import pytest
from torchmetrics.utilities.distributed import gather_all_tensors

from reid_torchmetrics import DetectionMAP, DetectionMetrics, VocMAP, YoloMAP
from tests.distributed.detection_shards import OPTIONS, at, counts_collectives, prints
from tests.distributed.failures import message_of
from tests.distributed.shards import SHARDINGS
from tests.functional.detection.batches.test_image_names import NAMES
from tests.functional.detection.detection_samples import fed, images, named
from tests.tasks.test_image_boxes import numbers_of

GIVEN = images(31, len(NAMES), num_levels=3, with_ids=True)
SEEN = GIVEN[0], named(GIVEN[1], NAMES)


def every_metric(process: int, size: int, sharding: str) -> list[object]:
    own = at(SEEN, SHARDINGS[sharding](len(NAMES), size)[process])
    metric = DetectionMAP(**OPTIONS)
    gathered = DetectionMAP(dist_sync_fn=gather_all_tensors)
    values = [fed(each, *own).compute() for each in (metric, gathered, VocMAP(), YoloMAP(), DetectionMetrics())]
    found = fed(VocMAP(), *own).results().ranked
    boxes = numbers_of(metric.boxes_of(["b/á.jpg", ""]))
    return [prints(values[0] | {"ious": {}}), [*values[0]["ious"]], *map(prints, values[1:]), found.image_ids, boxes]


@pytest.mark.parametrize("sharding", ["empty_first", "padded_shuffled"])
def test_over_gloo_the_values_are_those_of_one_process(processes, sharding):
    expected = every_metric(0, 1, "round_robin")
    assert processes.run(3, every_metric, sharding) == [expected] * 3


def collectives(process: int, size: int, num_images: int) -> int:
    def with_names(*args, **options):
        preds, target = images(*args, **options)
        return preds, [item | {"image_id": f"{'x' * num_images}{process}/{item['image_id']}"} for item in target]

    return counts_collectives(process, size, num_images, {"with_ids": True}, with_names)


def test_names_cost_as_many_collectives_as_ids(processes):
    assert {tuple(processes.run(2, collectives, num_images)) for num_images in (5, 60)} == {(12, 12)}


def asks_for_others(process: int, size: int) -> list[str]:
    metric = fed(DetectionMAP(), *at(SEEN, [*range(process, len(NAMES), size)]))
    asked = [["a"], ["ab"]][process]
    return [message_of(lambda: metric.boxes_of(asked)), message_of(lambda: metric.boxes_of(["a"] if process else "a"))]


def test_processes_that_ask_for_other_names_or_no_names_are_told(processes):
    others = "All processes must have the same `image`; got process 0: ['a']; process 1: ['ab']."
    no_list = "process 0: TypeError: `image` must hold integers or be a list of names; got str."
    assert processes.run(2, asks_for_others) == [[others, no_list]] * 2
