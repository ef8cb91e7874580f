"""Images that are sharded over processes: each process matches its own, and tells the others its matches.

Boxes stay where they are, but for those of a few images that are to be shown.

The number of collectives depends on the number of processes alone, not on the images: three, and one with image ids, to
agree on what follows, and one for each process to send its ids with fingerprints, and one to send its matches.

An error on one process is an error on all: see `functional.world` and `base.process_group` for what must be guarded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.functional.world import Alone, differing
from reid_torchmetrics.metrics.base import DistributedWorld, Settings, drawn_number, meet, number_of_all

from .image_boxes import Asked, ImageBoxes, places_of
from .images import ImageNumbering, Images
from .local_matches import LocalMatches, MatchRequest, merge_local_matches
from .match_cache import Matched, matchings
from .same_images import signs, warn_of_same_images
from .shared_ids import share_ids
from .tensor_exchange import exchange_tensors


@torch.no_grad()
def match_sharded_images(
    world: DistributedWorld | Alone,
    states: Mapping[str, list[Tensor]],
    device: torch.device,
    request: MatchRequest,
    *,
    accept: Callable[[], None],
    describe: Callable[[], Settings],
) -> Matched:
    """The matches of all images of all processes, or those that were made for another metric.

    They follow from the processes, the states, the device where these are evaluated, and the request, which all are in
    the key of what is kept. An error at the end is this process's alone: `conclude` tells the others.

    Args:
        world: the processes that share the images.
        states: what this process holds.
        device: where its images are evaluated.
        request: which matches are wanted, and how the states are read.
        accept: raises if this process has refused a batch.
        describe: says what was asked for, which must be the same on all processes.

    Raises:
        DistributedMetricError: an error on some process, metrics that differ, or image ids on some processes only.
    """
    members = () if isinstance(world, Alone) else world.members
    key = (request, members, device)
    kept = matchings.find(states, key) if request.is_plain and isinstance(world, Alone) else None
    if kept is not None:
        return kept.result

    def look() -> tuple[Images, list[int]]:
        nonlocal kept
        accept()
        if request.is_plain and members:
            kept = matchings.find(states, key)
        images = Images.joined(states, request.box_format, device)
        return images, [drawn_number(), 0 if kept is None else kept.number]

    met = _meet(world, look, describe)
    # Images may have changed on another process alone: a matching is used again if all processes have it.
    if kept is not None and number_of_all([offered for _, offered in met.numbers]) is not None:
        return kept.result
    numbering = met.number(world)
    parts = [request.run(numbering.number(met.images, world.process))]
    if world.size > 1:
        sent = [tensor.to(world.device).contiguous() for tensor in parts[0].to_tensors()]
        parts = [_local_matches(each, request, met.images.device) for each in exchange_tensors(world, sent)]
    matched = Matched(request, merge_local_matches(parts), numbering)
    if request.is_plain and (members or states["detection_counts"]):  # nothing but newer images ends what has none
        # without its numbering, which holds the images
        matchings.keep(states, key, replace(matched, numbering=None), number=met.numbers[0][0])
    return matched


@torch.no_grad()
def gather_images(
    world: DistributedWorld | Alone,
    collect: Callable[[], Images],
    image: Asked,
    describe: Callable[[], Settings],
) -> tuple[dict[int, ImageBoxes], tuple[str, ...] | None]:
    """The boxes of some images of all processes, by their `image_id`, or their numbers where there are none, or names.

    Second are the names by number. Images that no process has are left out. The other arguments and errors are those of
    `match_sharded_images`.
    """
    met = _meet(world, lambda: (collect(), ()), describe)
    images, numbering = met.images, met.number(world)
    numbered = numbering.number(images, world.process)
    own_ids = numbering.ids_by_number.to(images.device)[numbered.numbers.long()]
    asked = [place for place in places_of(image, numbering.names) if place is not None]
    is_chosen = torch.isin(own_ids, torch.tensor(asked, dtype=torch.int64, device=images.device))
    parts = ImageBoxes.listed(own_ids[is_chosen], numbered.images.at(is_chosen))
    if world.size == 1:
        return ImageBoxes.by_image(parts, numbering.names), numbering.names
    received = exchange_tensors(world, [part.to(world.device).contiguous() for part in parts])
    found: dict[int, ImageBoxes] = {}
    for each in received:
        found |= ImageBoxes.by_image([tensor.to(images.device) for tensor in each], numbering.names)
    return found, numbering.names


_KINDS = (None, "int", "str")  # what `Images.kind_of_ids` may be


class _Status(NamedTuple):
    """What a process tells the others of its images."""

    num_images: int
    kind_of_ids: int
    """place in `_KINDS`"""
    num_name_bytes: int
    first: int
    """fingerprint of the first image; see `same_images.signs`"""
    total: int


@dataclass(frozen=True)
class _Met:
    """This process's images, and what all processes said of theirs."""

    images: Images
    states: list[_Status]
    numbers: list[list[int]]
    """what each said besides"""

    def number(self, world: DistributedWorld | Alone) -> ImageNumbering:
        """What all processes must know of all images.

        Raises:
            DistributedMetricError: image ids on some processes only, or ints on some and names on others.
        """
        images, states = self.images, self.states
        # Processes without images agree with any other.
        use = {_KINDS[status.kind_of_ids] for status in states if status.num_images}
        if len(use) > 1:
            raise differing("use of `image_id`", [_use(status, use) for status in states])
        if world.size == 1:
            return ImageNumbering.alone(images)
        sizes = [status.num_images for status in states]
        # With ids all processes number all images; without, each place is dealt out in turn.
        if not any(use):
            told = [(status.first, status.total) for status in states]
            warn_of_same_images(world, images.fingerprints, sizes, told)
            return ImageNumbering(sizes, None, images.fingerprints)
        return share_ids(world, images, sizes, [status.num_name_bytes for status in states], are_names="str" in use)


def _meet(
    world: DistributedWorld | Alone,
    look: Callable[[], tuple[Images, Sequence[int]]],
    describe: Callable[[], Settings],
) -> _Met:
    """Begin to compute: `look` gives this process's images and numbers for the others."""

    def say() -> tuple[Images, list[int]]:
        images, numbers = look()
        told = signs(images.fingerprints()) if world.size > 1 and images.kind_of_ids is None else (0, 0)
        kind, names = _KINDS.index(images.kind_of_ids), images.image_name_bytes
        return images, [*_Status(len(images), kind, 0 if names is None else len(names), *told), *numbers]

    images, table = meet(world, say, describe)
    num = len(_Status._fields)
    return _Met(images, [_Status._make(row[:num]) for row in table], [row[num:] for row in table])


def _use(status: _Status, use: set[str | None]) -> str:
    if not status.num_images:
        return "no images"
    kind = _KINDS[status.kind_of_ids]
    if kind is None:
        return "not given"
    return f"given as {kind}" if {"int", "str"} <= use else "given"


def _local_matches(tensors: list[Tensor], request: MatchRequest, device: torch.device) -> LocalMatches:
    return LocalMatches.from_tensors([tensor.to(device) for tensor in tensors], request)
