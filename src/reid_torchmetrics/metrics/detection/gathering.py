"""Images that are spread over ranks: each rank matches its own, and tells the others its matches.

The number of collectives depends on the number of ranks alone, not on the images: three, and one with image ids, to
agree on what follows, and one for each rank to send its ids with fingerprints, and one to send its matches.

An error on one rank is an error on all: see `base.process_group` for which steps are to be a `Group.together`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from reid_torchmetrics.metrics.base import Group, Settings, differing, meet
from reid_torchmetrics.metrics.detection.images import ImageNumbering, Images
from reid_torchmetrics.metrics.detection.local_matches import LocalMatches, MatchRequest
from reid_torchmetrics.metrics.detection.sampler_padding import ends, warn_if_padded
from reid_torchmetrics.metrics.detection.tensor_exchange import exchange_tensors


@torch.no_grad()
def match_sharded_images(
    group: Group, collect: Callable[[], Images], request: MatchRequest, describe: Callable[[], Settings]
) -> tuple[ImageNumbering, list[LocalMatches]]:
    """All images of all ranks, and the matches of each rank.

    `collect` gives this rank's images, and `describe` what was asked for, which must be the same on all ranks. An error
    at the end is this rank's alone: `Group.conclude` tells the others.

    Raises:
        DistributedMetricError: an error on some rank, metrics that differ, or image ids on some ranks only.
    """
    images, numbering = _meet(group, collect, describe)
    tensors = request.run(numbering.number(images, group.rank)).to_tensors()
    received = exchange_tensors(group, [tensor.to(group.device).contiguous() for tensor in tensors])
    return numbering, [_local_matches(each, request, images.device) for each in received]


def _meet(
    group: Group, collect: Callable[[], Images], describe: Callable[[], Settings]
) -> tuple[Images, ImageNumbering]:
    """This rank's images and what all ranks must know of all images."""

    def look() -> tuple[Images, Settings, list[int]]:
        images = collect()
        # What all ranks learn of each: four numbers.
        return images, describe(), [len(images), int(images.image_ids is not None), *ends(images)]

    images, table = meet(group, look, 4)
    if len({has_ids for size, has_ids, *_ in table if size}) > 1:
        raise differing("use of `image_id`", [_use(size, has_ids) for size, has_ids, *_ in table])
    sizes = [size for size, *_ in table]
    if not any(has_ids for size, has_ids, *_ in table if size):
        warn_if_padded(group, sizes, [(first, last) for *_, first, last in table])
        return images, ImageNumbering(sizes, None, images.fingerprints)

    def prepare() -> Tensor:
        listed = torch.empty((sum(sizes), 2), dtype=torch.int64, device=group.device)
        if images.image_ids is not None:
            listed.split(sizes)[group.rank].copy_(torch.stack([images.image_ids, images.fingerprints()], 1))
        return listed

    listed = group.together(prepare)
    group.share(listed, sizes)
    ids, prints = listed.unbind(1)
    return images, ImageNumbering(sizes, ids, lambda: prints)


def _use(size: int, has_ids: int) -> str:
    return "no images" if not size else "given" if has_ids else "not given"


def _local_matches(tensors: list[Tensor], request: MatchRequest, device: torch.device) -> LocalMatches:
    return LocalMatches.from_tensors([tensor.to(device) for tensor in tensors], request)
