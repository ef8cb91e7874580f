"""Images that are sharded over processes: each process matches its own, and tells the others its matches.

Boxes stay where they are, but for those of a few images that are to be shown.

The number of collectives depends on the number of processes alone, not on the images: three, and one with image ids, to
agree on what follows, and one for each process to send its ids with fingerprints, and one to send its matches.

An error on one process is an error on all: see `functional.world` and `base.process_group` for what must be guarded.

Notice that processes hold the same images, where no `image_id` tells so; `functional.retrieval` does it for samples.

They come from a sampler that repeats the first images of a data set at the end of the last processes, or were gathered
by hand. Images are told apart by their ground truths, exactly.

The ids of the images of all processes, numbers or names, with what tells their ground truths apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.functional.detection.batches import ImageNumbering, Images
from reid_torchmetrics.functional.detection.inputs import as_words, num_words, number_names, unpack_names
from reid_torchmetrics.functional.result_cache import drawn_number, number_of_all
from reid_torchmetrics.functional.world import SentRows, Settings, World, differing, exchange_rows, meet, warn_once

from .image_boxes import Asked, ImageBoxes, places_of
from .local_matches import LocalMatches, Matched, MatchRequest, matchings, merge_local_matches
from .tensor_exchange import exchange_tensors


def share_ids(
    world: World, images: Images, sizes: Sequence[int], num_name_bytes: Sequence[int], *, are_names: bool
) -> ImageNumbering:
    """Tell the other processes the ids of this one's images, and learn theirs: one broadcast of each process.

    Args:
        world: of all processes.
        images: of this process, with ids of the same kind as those of the others.
        sizes: numbers of images of all processes.
        num_name_bytes: how many bytes the names of each take, 0 where ids are numbers.
        are_names: whether ids are names.
    """
    # A process's part of the buffer: ids or the lengths of names, then fingerprints, then the bytes of names.
    spans = [(size, size, num_words(num_bytes)) for size, num_bytes in zip(sizes, num_name_bytes, strict=True)]
    totals = [sum(span) for span in spans]

    (listed,) = exchange_rows(world, totals, SentRows(lambda: _columns(images) if len(images) else []))
    parts = [part.split(span) for part, span in zip(listed.split(totals), spans, strict=True)]
    ids, prints = (torch.cat([part[column] for part in parts]) for column in (0, 1))
    if not are_names:
        return ImageNumbering([*sizes], ids, lambda: prints)
    named = [name for lengths, _, words in parts for name in unpack_names(words.view(torch.uint8), lengths)]
    names, places = number_names(named)
    return ImageNumbering([*sizes], places.to(world.device), lambda: prints, names)


def _columns(images: Images) -> list[Tensor]:
    if images.image_name_bytes is None or images.image_name_lengths is None:
        assert images.image_ids is not None  # noqa: S101 - else nothing is shared
        return [images.image_ids, images.fingerprints()]
    return [images.image_name_lengths, images.fingerprints(), as_words(images.image_name_bytes)]


_LEAST_GATHERED = 8  # images with different ground truths: fewer may be alike in the data set itself


def signs(prints: Tensor) -> list[int]:
    """What the others are told of a process's images: the first, and all if they can be told apart; 0 for nothing."""
    if not len(prints):
        return [0, 0]
    is_telling = len(prints.unique()) >= max(_LEAST_GATHERED, (len(prints) + 1) // 2)
    return [int(prints[0]), int(prints.sum()) if is_telling else 0]  # modulo 2^64, so in any order


def warn_of_same_images(
    world: World, fingerprints: Callable[[], Tensor], sizes: Sequence[int], told: Sequence[Sequence[int]]
) -> None:
    """Say once that processes hold the same images, given the number of images and the `signs` of all."""
    totals = [total for _, total in told if total]
    if len({*totals}) < len(totals):
        warn_once(world, "same images", _GATHERED)
    first = told[0][0]
    if not first or len({*sizes}) > 1:
        return

    def end() -> tuple[Tensor, list[int]]:
        """Length and sum of the run at the end of this process that may be the beginning of process 0."""
        prints = fingerprints()
        places = (prints == first).nonzero()[:, 0].tolist()
        places = places[1:] if world.process == 0 else places  # but for the first image itself
        return prints, [len(prints) - places[0], int(prints[places[0] :].sum())] if len(places) == 1 else [0, 0]

    prints, runs = world.guarded_all_gather(end)
    if any(length for length, _ in runs):
        warn_once(
            world,
            "same images",
            _PADDED,
            lambda: any(length and int(prints[:length].sum()) == total for length, total in runs),
        )


_PADDED = (
    "All processes hold equally many images, and the last of one have the ground truths of the first of another: a"
    " distributed sampler seems to have repeated images to make the numbers even, and they count twice. Give `image_id`"
    " in `target`, or use `UnpaddedDistributedSampler`."
)
_GATHERED = (
    "Several processes hold images with the same ground truths, and each counts them: they seem to have been gathered"
    " by hand, or not to be dealt out at all. Give `image_id` in `target`, or give each process its own images"
    " only, which `compute` combines."
)


@torch.no_grad()
def match_sharded_images(
    world: World,
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
    members = world.members
    key = (request, members, device)
    kept = matchings.find(states, key) if request.is_plain and not members else None
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
    world: World,
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

    def number(self, world: World) -> ImageNumbering:
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
    world: World,
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
