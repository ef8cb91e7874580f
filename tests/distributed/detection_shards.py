"""Images that are spread over processes, and what one process makes of them."""

import functools
import hashlib
from collections.abc import Mapping
from contextlib import ExitStack
from unittest import mock

import torch
from torch import Tensor, distributed

from reid_torchmetrics.metrics.detection.detection_map import DetectionMAP
from tests.distributed.failures import message_of
from tests.distributed.shards import SHARDINGS
from tests.functional.detection.detection_samples import fed, images

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


def text_of(call) -> str:
    """What `message_of` says; an error that all processes have is the error itself, after which they go on, too."""
    try:
        return message_of(call)
    except ValueError as error:
        assert message_of(lambda: "all processes") == "no error but all processes"
        return str(error)


def counts_collectives(process: int, size: int, num_images: int, options: dict[str, object], make=images) -> int:
    calls = []
    names = ("broadcast", "all_gather", "all_reduce", "barrier", "all_gather_object", "all_to_all_single")
    names += ("all_gather_single" if hasattr(distributed, "all_gather_single") else "all_gather_into_tensor",)
    patches = [
        mock.patch.object(distributed, name, functools.partial(_counted, calls, getattr(distributed, name)))
        for name in names
    ]
    own = make(process, num_images, with_ids=bool(options.pop("with_ids")))
    for item in own[1]:
        if isinstance(item.get("image_id"), int):
            item["image_id"] = item["image_id"] * size + process
    metric = fed(DetectionMAP(**options), *own)
    with ExitStack() as patched:
        for patch in patches:
            patched.enter_context(patch)
        metric.compute()
    return len(calls)


def _counted(calls: list[str], function, *args, **options):
    calls.append(function.__name__)
    return function(*args, **options)
