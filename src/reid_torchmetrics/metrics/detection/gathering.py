"""Images that are sharded over processes: each process matches its own, and tells the others its matches.

Boxes stay where they are, but for those of a few images that are to be shown.

The number of collectives depends on the number of processes alone, not on the images: three, and one with image ids, to
agree on what follows, and one for each process to send its ids with fingerprints, and one to send its matches.

An error on one process is an error on all: see `functional.world` and `base.process_group` for what must be guarded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.functional.world import Alone, World, all_gather_rows, differing
from reid_torchmetrics.metrics.base import DistributedWorld, Settings, meet
from reid_torchmetrics.metrics.detection.images import ImageBoxes, ImageNumbering, Images
from reid_torchmetrics.metrics.detection.local_matches import LocalMatches, MatchRequest
from reid_torchmetrics.metrics.detection.sampler_padding import ends, warn_if_padded
from reid_torchmetrics.metrics.detection.tensor_exchange import exchange_tensors


@torch.no_grad()
def match_sharded_images(
    world: DistributedWorld | Alone,
    collect: Callable[[], Images],
    request: MatchRequest,
    describe: Callable[[], Settings],
) -> tuple[ImageNumbering, list[LocalMatches]]:
    """All images of all processes, and the matches of each process.

    `collect` gives this process's images, and `describe` what was asked for, which must be the same on all. An error at
    the end is this process's alone: `conclude` tells the others.

    Raises:
        DistributedMetricError: an error on some process, metrics that differ, or image ids on some processes only.
    """
    images, numbering = _meet(world, collect, describe)
    matches = request.run(numbering.number(images, world.process))
    if world.size == 1:
        return numbering, [matches]
    received = exchange_tensors(world, [tensor.to(world.device).contiguous() for tensor in matches.to_tensors()])
    return numbering, [_local_matches(each, request, images.device) for each in received]


@torch.no_grad()
def gather_images(
    world: DistributedWorld | Alone,
    collect: Callable[[], Images],
    image: Tensor,
    describe: Callable[[], Settings],
) -> dict[int, ImageBoxes]:
    """The boxes of some images of all processes, by their `image_id`, or their numbers where there are none.

    Images that no process has are left out. The other arguments and errors are those of `match_sharded_images`.
    """
    images, numbering = _meet(world, collect, describe)
    numbered = numbering.number(images, world.process)
    own_ids = numbering.ids_by_number.to(images.device)[numbered.numbers.long()]
    is_chosen = torch.isin(own_ids, image.to(images.device))
    parts = ImageBoxes.listed(own_ids[is_chosen], numbered.images.at(is_chosen))
    if world.size == 1:
        return ImageBoxes.by_image(parts)
    received = exchange_tensors(world, [part.to(world.device).contiguous() for part in parts])
    found: dict[int, ImageBoxes] = {}
    for each in received:
        found |= ImageBoxes.by_image([tensor.to(images.device) for tensor in each])
    return found


class _Status(NamedTuple):
    """What a process tells the others of its images."""

    num_images: int
    has_ids: int
    first: int
    """fingerprint of the first image; see `sampler_padding.ends`"""
    last: int


def _meet(
    world: DistributedWorld | Alone, collect: Callable[[], Images], describe: Callable[[], Settings]
) -> tuple[Images, ImageNumbering]:
    """This process's images and what all processes must know of all images."""

    def look() -> tuple[Images, _Status]:
        images = collect()
        first_and_last = ends(images) if world.size > 1 else (0, 0)
        return images, _Status(len(images), int(images.image_ids is not None), *first_and_last)

    images, table = meet(world, look, describe)
    # Processes without images agree with any other.
    states = [_Status._make(row) for row in table]
    use = {status.has_ids for status in states if status.num_images}
    if len(use) > 1:
        raise differing("use of `image_id`", [_use(status) for status in states])
    sizes = [status.num_images for status in states]
    if world.size == 1:
        return images, ImageNumbering(sizes, images.image_ids, images.fingerprints)
    # With ids all processes number all images; without, each place is dealt out in turn.
    if not any(use):
        warn_if_padded(world, sizes, [(status.first, status.last) for status in states])
        return images, ImageNumbering(sizes, None, images.fingerprints)
    ids, prints = _share_ids(world, images, sizes)
    return images, ImageNumbering(sizes, ids, lambda: prints)


def _share_ids(world: World, images: Images, sizes: Sequence[int]) -> tuple[Tensor, ...]:
    """The ids of all images, and the fingerprints of their ground truths, process by process."""

    def prepare() -> Tensor:
        listed = torch.empty((sum(sizes), 2), dtype=torch.int64, device=world.device)
        if images.image_ids is not None:
            listed.split(list(sizes))[world.process].copy_(torch.stack([images.image_ids, images.fingerprints()], 1))
        return listed

    listed = world.guarded(prepare)
    all_gather_rows(world, listed, sizes)
    return listed.unbind(1)


def _use(status: _Status) -> str:
    return "no images" if not status.num_images else "given" if status.has_ids else "not given"


def _local_matches(tensors: list[Tensor], request: MatchRequest, device: torch.device) -> LocalMatches:
    return LocalMatches.from_tensors([tensor.to(device) for tensor in tensors], request)
