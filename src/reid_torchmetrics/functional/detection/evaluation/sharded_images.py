"""Images sharded over processes: each process matches its own images, and sends its matches to the others.

Boxes are not sent, except those of images that are to be shown.

The number of collectives depends on the number of processes alone, not on the images: 5, and one broadcast of each
process, which sends its matches. With image ids each broadcasts once more: the ids with fingerprints.

An error on one process is an error on all: see `functional.world` and `base.process_group` for what must be guarded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.batches import ImageNumbering, Images
from reid_torchmetrics.functional.detection.inputs import as_words, num_words, number_names, unpack_names
from reid_torchmetrics.functional.result_cache import Kept, drawn_number, number_of_all
from reid_torchmetrics.functional.world import SentRows, Settings, World, agree, differing, exchange_rows

from .image_boxes import Asked, ImageBoxes, listed_ids, places_of
from .image_matches import ImageMatches, MatchRequest, matchings, merge_image_matches
from .tensor_exchange import exchange_tensors

Result = TypeVar("Result")

_MOST_IMAGES = 256  # in which detections are looked at
_KINDS = (None, "int", "str")  # of `Images.kind_of_ids`


class _ProcessImages(NamedTuple):
    """Numbers that a process sends of its images."""

    num_images: int
    kind_of_ids: int
    """place in `_KINDS`"""
    num_name_bytes: int
    num_listed: int
    """entries of lists of classes"""
    num_unlisted: int
    """detections that need such lists, where there are none"""

    @classmethod
    def of(cls, images: Images) -> _ProcessImages:
        """Count the images of a process."""
        num_bytes, num_listed = (
            0 if each is None else len(each) for each in (images.image_name_bytes, images.listed_labels)
        )
        num_unlisted = 0 if images.listed_labels is None or num_listed else _num_unlisted(images)
        return cls(len(images), _KINDS.index(images.kind_of_ids), num_bytes, num_listed, num_unlisted)


@dataclass(frozen=True)
class ShardedImages:
    """The images of this process as the states of a metric, and the processes that share the data set."""

    world: World
    states: Mapping[str, list[Tensor]]
    device: torch.device
    """where the images are evaluated"""
    box_format: str
    """how their boxes are given"""
    owner: str
    """the metric or function that has them"""
    options: Callable[[], Mapping[str, str]]
    """options of the value as text, the same on all processes"""
    accept: Callable[[], None] = lambda: None
    """raises if this process has refused a batch"""

    def images(self) -> Images:
        """The images of this process."""
        return Images.joined(self.states, self.box_format, self.device)

    @torch.no_grad()
    def match(self, request: MatchRequest, asked: Mapping[str, str] = MappingProxyType({})) -> ImageMatches:
        """The matches of the images of all processes, made now or for another metric.

        `asked` are arguments that the matches do not depend on, as text, which must be the same on all processes, too:
        they decide which messages follow.

        They follow from the processes, the states, the device, the format and the request, which all are in the key of
        the cache. An error at the end is this process's alone: `conclude` tells the others.

        Raises:
            DistributedMetricError: an error on some process, metrics that differ, or image ids on some processes only.
        """
        world, key = self.world, (request, self.world.members, self.device, self.box_format)

        def find() -> tuple[Kept[ImageMatches] | None, list[int]]:
            """Kept matches, the number of new ones, and the number of the kept ones."""
            kept = matchings.find(self.states, key) if request.is_plain else None
            return kept, [drawn_number(), 0 if kept is None else kept.number]

        kept = None if world.members else find()[0]
        if kept is None:
            # First message: what is asked for and which images there are. Kept matches are used if all processes have
            # them, for images may have changed on another process alone.
            method = "results" if request.with_origins else "compute"
            kept, images, of_processes, numbers = self._meet(method, lambda: {**request.describe(), **asked}, find)
            kept = kept if number_of_all([offered for _, offered in numbers]) else None
        if kept is not None:
            return kept.result
        # Second: image ids, if there are any. Then each process matches its own images.
        numbering = _number(world, images, of_processes)
        numbered = numbering.number(images, world.process)
        sides, is_difficult = numbered.boxes(request.iou_type), numbered.images.ground_truth_difficult
        parts = [request.run(*sides, is_difficult=is_difficult, lists=numbered.lists())]
        # Third: the matches of all processes.
        if world.size > 1:
            received = self._exchange(parts[0].to_tensors(), images.device)
            parts = [ImageMatches.from_tensors(tensors, request) for tensors in received]
        matches = merge_image_matches(parts)
        if any(each.num_unlisted for each in of_processes) and not any(each.num_listed for each in of_processes):
            matches = replace(matches, num_without_lists=sum(each.num_images for each in of_processes))
        num_repeated = len(images) - len(numbered.images)
        if num_repeated:
            matches = replace(matches, num_repeated=num_repeated)
        if not request.is_plain:
            return replace(matches, ids=numbering.ids_by_number, names=numbering.names)
        if world.members or self.states["detection_counts"]:  # only newer images end the others
            matchings.keep(self.states, key, Kept(numbers[0][0], matches))
        return matches

    @torch.no_grad()
    def boxes_of(self, image: Asked | None = None) -> tuple[dict[int, ImageBoxes], tuple[str, ...] | None]:
        """The boxes of images of all processes by `image_id`, and the names of all images where they have names.

        Images without an `image_id` go by their number, images with names by the number of their name. Images that no
        process has are left out; None stands for all images. Errors are those of `match`.
        """

        def ask() -> tuple[list[int] | list[str] | None, Sequence[int]]:
            return None if image is None else listed_ids(image), ()

        def describe() -> dict[str, str]:
            return {"image": "all" if image is None else repr(listed_ids(image))}

        # All processes learn of all ids, as in `match`; then each sends the boxes that were asked for.
        # Rotated boxes as corners; "xywh" is not converted.
        given = {name: self.states.get(name.replace("_boxes", "_corners"), each) for name, each in self.states.items()}
        as_given = replace(self, box_format="xywh", states=given)
        asked, images, of_processes, _ = as_given._meet("boxes_of", describe, ask)  # noqa: SLF001 - of the same class
        numbering = _number(self.world, images, of_processes)
        names, numbered = numbering.names, numbering.number(images, self.world.process)
        images, ids = numbered.images, numbering.ids_by_number.to(images.device)[numbered.numbers.long()]
        if asked is not None:
            places = [place for place in places_of(asked, names) if place is not None]
            is_chosen = torch.isin(ids, torch.tensor(places, dtype=torch.int64, device=ids.device))
            images, ids = images.at(is_chosen), ids[is_chosen]
        tensors = ImageBoxes.listed(ids, images)
        parts = [tensors] if self.world.size == 1 else self._exchange(tensors, images.device)
        boxes: dict[int, ImageBoxes] = {}
        for part in parts:
            boxes |= ImageBoxes.by_image(part, names)
        return boxes, names

    def _meet(
        self, method: str, describe: Callable[[], Mapping[str, str]], find: Callable[[], tuple[Result, Sequence[int]]]
    ) -> tuple[Result, Images, list[_ProcessImages], list[list[int]]]:
        """Exchange the first message: what is found, this process's images, and counts and numbers of all processes."""

        def look() -> tuple[tuple[Result, Images], list[int]]:
            self.accept()
            found, numbers = find()
            images = self.images()
            return (found, images), [*_ProcessImages.of(images), *numbers]

        (found, images), table = agree(
            self.world, look, lambda: Settings(self.owner, method, self.options(), describe())
        )
        num = len(_ProcessImages._fields)
        return found, images, [_ProcessImages(*row[:num]) for row in table], [row[num:] for row in table]

    def _exchange(self, tensors: Sequence[Tensor], device: torch.device) -> list[list[Tensor]]:
        """The tensors of all processes, on a device."""
        sent = [tensor.to(self.world.device).contiguous() for tensor in tensors]
        return [[tensor.to(device) for tensor in received] for received in exchange_tensors(self.world, sent)]


def _num_unlisted(images: Images) -> int:
    """Number of detections, in the first images, of classes without ground truths in their image."""
    sides = []
    for side in ("detection", "ground_truth"):
        counts, labels = getattr(images, f"{side}_counts")[:_MOST_IMAGES], getattr(images, f"{side}_labels")
        numbers = segments.numbers(counts)
        sides.append(torch.stack([numbers, labels[: len(numbers)].long()]))
    groups = torch.cat(sides, 1).unique(dim=1, return_inverse=True)[1]
    return int((~torch.isin(*groups.split([each.shape[1] for each in sides]))).sum())


def _number(world: World, images: Images, of_processes: Sequence[_ProcessImages]) -> ImageNumbering:
    """Number the images of all processes.

    Raises:
        DistributedMetricError: image ids on some processes only, or ints on some and names on others.
    """
    # Processes without images agree with any other.
    kinds = {_KINDS[each.kind_of_ids] for each in of_processes if each.num_images}
    if len(kinds) > 1:
        raise differing("use of `image_id`", [_use(each, kinds) for each in of_processes])
    if world.size == 1:
        return ImageNumbering.alone(images)
    # With ids all processes number all images; without, each place is dealt out in turn.
    if any(kinds):
        return _share_ids(world, images, of_processes, are_names="str" in kinds)
    return ImageNumbering([each.num_images for each in of_processes], None, images.fingerprints)


def _use(images: _ProcessImages, kinds: set[str | None]) -> str:
    if not images.num_images:
        return "no images"
    kind = _KINDS[images.kind_of_ids]
    if kind is None:
        return "not given"
    return f"given as {kind}" if {"int", "str"} <= kinds else "given"


def _share_ids(
    world: World, images: Images, of_processes: Sequence[_ProcessImages], *, are_names: bool
) -> ImageNumbering:
    """Exchange image ids, in one broadcast of each process."""
    # A process's part of the buffer: ids or the lengths of names, then fingerprints, then the bytes of names.
    sizes = [each.num_images for each in of_processes]
    spans = [(each.num_images, each.num_images, num_words(each.num_name_bytes)) for each in of_processes]
    totals = [sum(span) for span in spans]
    (buffer,) = exchange_rows(world, totals, SentRows(lambda: _id_columns(images) if len(images) else []))
    parts = [part.split(span) for part, span in zip(buffer.split(totals), spans, strict=True)]
    ids, prints = (torch.cat([part[column] for part in parts]) for column in (0, 1))
    if not are_names:
        return ImageNumbering(sizes, ids, lambda: prints)
    named = [name for lengths, _, words in parts for name in unpack_names(words.view(torch.uint8), lengths)]
    names, places = number_names(named)
    return ImageNumbering(sizes, places.to(world.device), lambda: prints, names)


def _id_columns(images: Images) -> list[Tensor]:
    if images.image_name_bytes is None or images.image_name_lengths is None:
        assert images.image_ids is not None  # noqa: S101 - else nothing is shared
        return [images.image_ids, images.fingerprints()]
    return [images.image_name_lengths, images.fingerprints(), as_words(images.image_name_bytes)]
