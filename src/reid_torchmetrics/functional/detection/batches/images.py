"""The images that a metric holds, and their numbers, which decide who goes first among equal scores.

What tells images apart: by their ground truths a number of 64 bits, by their detections whether they are others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import groupby
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.inputs import (
    NAME_BYTES,
    NAME_LENGTHS,
    Detections,
    GroundTruths,
    box_areas,
    joined_ids,
    number_names,
    to_xywh,
    unpack_names,
)
from reid_torchmetrics.functional.fingerprints import mixed
from reid_torchmetrics.functional.world import ALONE, warn_once

from .checks import are_sound
from .shape_batches import TABLE_STATES, Table, table_states

_COLUMNS = tuple(f"ground_truth_{name}" for name in ("boxes", "areas", "labels", "crowds", "counts"))


@torch.no_grad()
def fingerprints(states: Mapping[str, list[Tensor]], device: torch.device) -> Tensor:
    """A number for each image that a metric holds, int64, and 0 where an image has no ground truths.

    Boxes and areas are looked at as they were given: what is computed from them depends on the dtype of their batch.
    Detections are not: the same network gives slightly others in another batch or on another device.
    """
    joined = [[block.to(device) for block in states[name]] for name in _COLUMNS]
    if not joined[0]:
        return torch.empty(0, dtype=torch.int64, device=device)
    boxes, areas, labels, crowds, counts = map(torch.cat, joined)
    of_box = labels.long() * 2 + crowds
    for column in (*boxes.double().unbind(1), areas.double().clamp(min=0)):  # 0 or less stands for width times height
        of_box = mixed(of_box, (column + 0.0).view(torch.int64))  # -0.0 is 0.0
    image = segments.numbers(counts, len(of_box))
    return torch.zeros_like(counts).index_add_(0, image, of_box)  # modulo 2^64, so in any order


def changed_repetitions(ids: Tensor, prints: Tensor) -> Tensor:
    """The ids that images with different ground truths share, ascending."""
    ordered, order = ids.sort(stable=True)
    prints = prints[order]
    is_changed = (ordered[1:] == ordered[:-1]) & (prints[1:] != prints[:-1])
    changed: Tensor = ordered[1:][is_changed].unique()
    return changed


_CLOSE = 0.1  # of the sums: rounding takes or leaves a weak detection


def num_with_other_detections(ids: Tensor, counts: Tensor, scores: Tensor, boxes: Tensor) -> int:
    """How many images that came again, with the same id, have other detections; 0 if most of those have the same.

    Others are those whose scores or boxes have another sum: a detection may be lost by rounding.
    """
    columns = torch.stack([scores.double(), boxes.double().abs().sum(1)], dim=1)
    sums = segments.reduce(columns, "sum", lengths=counts)
    ordered, order = ids.sort(stable=True)
    is_first = torch.ones_like(ordered, dtype=torch.bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    again, first = sums[order][~is_first], sums[order[is_first]][is_first.cumsum(0) - 1][~is_first]
    num_others = int(((again - first).abs() > _CLOSE * first).any(1).sum())
    return num_others if 2 * num_others > len(again) else 0


# Fields that the metric holds as states, and what these are without rows.
_BOXES = MappingProxyType({"empty": torch.empty((0, 4), device="cpu")})
_FLOATS = MappingProxyType({"empty": torch.empty(0, device="cpu")})
_INTS = MappingProxyType({"empty": torch.empty(0, dtype=torch.int64, device="cpu")})
_FLAGS = MappingProxyType({"empty": torch.empty(0, dtype=torch.bool, device="cpu")})
_BYTES = MappingProxyType({"empty": torch.empty(0, dtype=torch.uint8, device="cpu")})


@dataclass(frozen=True)
class Images:
    """Boxes of images in the order in which they came, as x, y, width, height; `counts` are those of each image."""

    detection_boxes: Tensor = field(metadata=_BOXES)
    detection_scores: Tensor = field(metadata=_FLOATS)
    detection_labels: Tensor = field(metadata=_INTS)
    detection_counts: Tensor = field(metadata=_INTS)
    ground_truth_boxes: Tensor = field(metadata=_BOXES)
    ground_truth_labels: Tensor = field(metadata=_INTS)
    ground_truth_crowds: Tensor = field(metadata=_FLAGS)
    ground_truth_areas: Tensor = field(metadata=_FLOATS)
    ground_truth_counts: Tensor = field(metadata=_INTS)
    image_ids: Tensor | None = field(metadata=_INTS)
    image_name_bytes: Tensor | None = field(metadata=_BYTES)
    """in the place of ids: see `image_names`"""
    image_name_lengths: Tensor | None = field(metadata=_INTS)
    fingerprints: Callable[[], Tensor]
    """of the ground truths of all images that were joined; they are seldom asked for"""
    ground_truth_difficult: Tensor | None = None
    """those that need not be found, of metrics that know them"""
    tables: Mapping[str, Table] = field(default_factory=dict)
    """overlaps of what is no box, by `iou_type`"""

    @classmethod
    def joined(cls, states: Mapping[str, list[Tensor]], box_format: str, device: torch.device) -> Images:
        """The batches that a metric holds.

        Boxes are converted in the dtype in which they came, as TorchMetrics does. An area that is not positive stands
        for width times height.

        Raises:
            ValueError: only some of merged metrics were given `image_id`, or some as an int and others as a str.
        """
        given, states, tables = states, dict(states), _tables(states, device)
        for name in ("detection_boxes", "ground_truth_boxes"):
            states[name] = [
                to_xywh(_cat(run, STATES[name], device), box_format) for run in _runs_of_dtypes(states[name])
            ]
        columns: dict[str, Any] = {name: _cat(states[name], empty, device) for name, empty in STATES.items()}
        areas, boxes = columns["ground_truth_areas"].double(), columns["ground_truth_boxes"]
        columns["ground_truth_areas"] = torch.where(areas > 0, areas, box_areas(boxes))
        columns |= joined_ids(columns)
        if "ground_truth_difficult" in states:
            columns["ground_truth_difficult"] = _cat(states["ground_truth_difficult"], _FLAGS["empty"], device)
        return cls(**columns, fingerprints=lambda: fingerprints(given, device), tables=tables)

    def __len__(self) -> int:
        """Number of images."""
        return len(self.detection_counts)

    @property
    def device(self) -> torch.device:
        """Where they are evaluated."""
        return self.detection_counts.device

    @property
    def kind_of_ids(self) -> str | None:
        """Whether their `image_id` is an "int" or a "str"; None where they have none."""
        if self.image_ids is not None:
            return "int"
        return None if self.image_name_lengths is None else "str"

    def names(self) -> list[str] | None:
        """Their `image_id` where it is a name."""
        if self.image_name_bytes is None or self.image_name_lengths is None:
            return None
        return unpack_names(self.image_name_bytes, self.image_name_lengths)

    def at(self, kept: Tensor) -> Images:
        """Only the images of a mask."""
        found = kept.repeat_interleave(self.detection_counts)
        true = kept.repeat_interleave(self.ground_truth_counts)
        rows = {name: found if name.startswith("detection") else true for name in STATES}
        rows |= dict.fromkeys(("detection_counts", "ground_truth_counts", "image_ids", NAME_LENGTHS), kept)
        if self.image_name_lengths is not None:
            rows[NAME_BYTES] = kept.repeat_interleave(self.image_name_lengths)
        columns = [(name, getattr(self, name)) for name in STATES]
        chosen: dict[str, Any] = {name: None if each is None else each[rows[name]] for name, each in columns}
        if self.ground_truth_difficult is not None:
            chosen["ground_truth_difficult"] = self.ground_truth_difficult[true]
        counts = self.detection_counts, self.ground_truth_counts
        tables = {name: table.at(kept, *counts) for name, table in self.tables.items()}
        return replace(self, **chosen, tables=tables)

    def areas_of_ground_truths(self, iou_type: str) -> Tensor:
        """The areas that decide on the area range."""
        return self.tables[iou_type].ground_truth_areas if iou_type in self.tables else self.ground_truth_areas


STATES: dict[str, Tensor] = {each.name: each.metadata["empty"] for each in fields(Images) if each.metadata}
"""the states of the metric without rows: what `Images` joins"""


def empty_states(iou_types: Sequence[str], flags: Sequence[str]) -> dict[str, Tensor]:
    """All states without rows: those of boxes, of other shapes, and of more flags of ground truths."""
    return STATES | table_states(iou_types) | {f"ground_truth_{flag}": _FLAGS["empty"] for flag in flags}


def _tables(states: Mapping[str, list[Tensor]], device: torch.device) -> dict[str, Table]:
    names = [name.removesuffix("_overlaps") for name in states if name.endswith("_overlaps")]
    empty = table_states(names)
    joined = {name: _cat(states[name], none, device) for name, none in empty.items()}
    return {name: Table(*(joined[f"{name}_{state}"] for state in TABLE_STATES)) for name in names}


def _runs_of_dtypes(blocks: list[Tensor]) -> list[list[Tensor]]:
    """Blocks in their order, parted where the dtype changes: on a GPU a kernel costs the same for one as for many."""
    return [[*run] for _, run in groupby(blocks, lambda block: block.dtype)]


def _cat(blocks: list[Tensor], empty: Tensor, device: torch.device) -> Tensor:
    blocks = [block.to(device) for block in blocks] or [empty.to(device)]
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks)


@dataclass(frozen=True)
class ImageNumbering:
    """The numbers of the images of all processes."""

    sizes: list[int]
    """number of images of each process"""
    ids: Tensor | None
    """their `image_id`, process by process; where these are names, their places in `names`"""
    fingerprints: Callable[[], Tensor]
    """of their ground truths, if they have ids"""
    names: tuple[str, ...] | None = None
    """all distinct ones, ascending, if images have names"""

    @classmethod
    def alone(cls, images: Images) -> ImageNumbering:
        """Of the images of one process."""
        named = images.names()
        if named is None:
            return cls([len(images)], images.image_ids, images.fingerprints)
        names, places = number_names(named)
        return cls([len(images)], places.to(images.device), images.fingerprints, names)

    @property
    def ids_by_number(self) -> Tensor:
        """The `image_id` of each image, by its number; the number itself where there are none, or names."""
        return torch.arange(sum(self.sizes), device="cpu") if self.ids is None else self.ids.unique()

    @property
    def called(self) -> Sequence[int | str]:
        """What each image is called, by its number: its `image_id`, or the number itself where there are none."""
        return self.ids_by_number.tolist() if self.names is None else self.names

    def number(self, images: Images, process: int) -> NumberedImages:
        """Give the images of a process their numbers, without repetitions of what it or a lower one has.

        Raises:
            ValueError: images with other ground truths have the same id, on whatever process they are.
        """
        if self.ids is None and len(self.sizes) == 1:
            return NumberedImages(images, torch.arange(len(images), dtype=torch.int32, device=images.device))
        if self.ids is None:
            sizes = torch.tensor(self.sizes, device=images.device)
            return NumberedImages(images, interleaved_numbers(sizes, process))
        # Of all processes' images with one id the first counts, and only if the others are repetitions of it.
        numbers, is_first = number_ids(self.ids.to(images.device))
        if bool(is_first.all()):
            return NumberedImages(images, numbers.split(self.sizes)[process])
        changed = changed_repetitions(self.ids, self.fingerprints()).tolist()
        if changed:
            raise _same_id_of_others(changed if self.names is None else [self.names[place] for place in changed])
        if process == 0:  # others were used alike
            _warn_of_other_detections(images, self.ids.split(self.sizes)[0])
        numbers, is_first = (each.split(self.sizes)[process] for each in (numbers, is_first))
        return NumberedImages(images.at(is_first), numbers[is_first])


@dataclass(frozen=True)
class NumberedImages:
    """Images without repetitions, each with its number among the images of all processes."""

    images: Images
    numbers: Tensor
    """int32 [images]"""

    def boxes(self, *, one_class: bool, iou_type: str = "bbox") -> tuple[Detections, GroundTruths]:
        """All boxes or other shapes, as the evaluation takes them; with `one_class` all labels are 0."""
        held = self.images
        labels = [held.detection_labels, held.ground_truth_labels]
        if one_class:
            labels = [torch.zeros_like(each) for each in labels]
        columns: tuple[dict[str, Any], dict[str, Any]] = (
            {
                "boxes": held.detection_boxes,
                "scores": held.detection_scores,
                "labels": labels[0],
                "images": _repeat(self.numbers, held.detection_counts, len(labels[0])),
            },
            {
                "boxes": held.ground_truth_boxes,
                "labels": labels[1],
                "images": _repeat(self.numbers, held.ground_truth_counts, len(labels[1])),
                "is_crowd": held.ground_truth_crowds,
                "areas": held.ground_truth_areas,
            },
        )
        if iou_type in held.tables:
            shapes = held.tables[iou_type].shapes(held.detection_counts, held.ground_truth_counts)
            columns[0]["boxes"], columns[1]["boxes"] = shapes
            columns[1]["areas"] = held.areas_of_ground_truths(iou_type)
        # Boxes were checked when they came, but have been converted since: those of ground truths are looked at again.
        found = Detections.unchecked(**columns[0])
        if iou_type in held.tables or are_sound({name: getattr(held, name) for name in STATES}, "xywh"):
            return found, GroundTruths.unchecked(**columns[1])
        return found, GroundTruths(**columns[1])


def _warn_of_other_detections(images: Images, ids: Tensor) -> None:
    """Say once if images of this process came again and were detected otherwise, which no sampler does."""
    detections = images.detection_counts, images.detection_scores, images.detection_boxes
    number = num_with_other_detections(ids.to(images.device), *detections)
    if number:
        warn_once(
            ALONE,
            "other detections",
            f"{number} images came again on their process with other detections, and do not count: of images with the"
            " same `image_id` the first counts. Was `reset` forgotten after the last evaluation, or does `image_id`"
            " begin anew in each batch? It must be the image's number or name in its data set.",
        )


def _same_id_of_others(changed: Sequence[int | str]) -> ValueError:
    kind = "names" if isinstance(changed[0], str) else "numbers"
    more = f", and {len(changed) - 1} more such {kind}" if len(changed) > 1 else ""
    return ValueError(
        f"`image_id` must be the same only for repetitions of an image; got {changed[0]!r} for images whose ground"
        f" truths differ{more}."
    )


def number_ids(ids: Tensor) -> tuple[Tensor, Tensor]:
    """The place of each id among the distinct ids, ascending, int32, and which are the first of their value, bool."""
    ordered, order = ids.sort(stable=True)
    is_new = torch.ones_like(ordered, dtype=torch.bool)
    is_new[1:] = ordered[1:] != ordered[:-1]
    numbers = torch.empty_like(order, dtype=torch.int32)
    numbers[order] = is_new.cumsum(0, dtype=torch.int32) - 1
    is_first = torch.empty_like(is_new)
    is_first[order] = is_new
    return numbers, is_first


def interleaved_numbers(sizes: Tensor, process: int) -> Tensor:
    """Numbers of the images of one process, int32, if images are numbered round-robin over processes of these sizes.

    Image i of process p comes after all images of an earlier place, and after image i of lower processes. A sampler
    that deals a data set out in turn has its images numbered in the order of the data set.
    """
    places = torch.arange(int(sizes[process]), device=sizes.device)
    earlier = torch.minimum(sizes[:, None], places).sum(0)
    return (earlier + (sizes[:process, None] > places).sum(0)).int()


def _repeat(numbers: Tensor, counts: Tensor, total: int) -> Tensor:
    return numbers.repeat_interleave(counts, output_size=total)
