"""The images of a metric, and their numbers: they order detections with equal scores, and tell repetitions apart.

An image is known by its `image_id`. Repetitions of it, as samplers deal them out to fill the last batch, count once:
their ground truths have the same fingerprint of 64 bits. Two images with one id are an error if their ground truths
differ; advice is given if only their detections do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection import inputs
from reid_torchmetrics.functional.fingerprints import mixed

from .image_ids import NAME_LENGTHS, joined_ids, kind_of_ids
from .shape_batches import CORNER_STATES, OverlapTable, table_states
from .unsound import are_sound

# Columns of a fingerprint.
_COLUMNS = tuple(f"ground_truth_{name}" for name in ("boxes", "areas", "labels", "crowds", "counts"))
_MANY_BOXES = 1 << 17  # of one batch, converted some at a time

# Metadata of the fields that a metric has as states: the state without rows.
_BOXES = {"empty": torch.empty((0, 4), device="cpu")}
_FLOATS = {"empty": torch.empty(0, device="cpu")}
_INTS = {"empty": torch.empty(0, dtype=torch.int64, device="cpu")}
_FLAGS = {"empty": torch.empty(0, dtype=torch.bool, device="cpu")}
_PAIRS = {"empty": torch.empty((0, 2), dtype=torch.int64, device="cpu")}
_BYTES = {"empty": torch.empty(0, dtype=torch.uint8, device="cpu")}


@dataclass(frozen=True)
class Images:
    """Images in order of `update`, with boxes as x, y, width, height; `counts` are numbers of boxes per image.

    Many detected boxes of one batch stay in their own format, as they are no copies: see `detection_format`.
    """

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
    """in place of ids: see `image_names`"""
    image_name_lengths: Tensor | None = field(metadata=_INTS)
    fingerprints: Callable[[], Tensor]
    """computes the fingerprints of all images, without the selection of `at`; rarely needed"""
    ground_truth_difficult: Tensor | None = field(default=None, metadata=_FLAGS)
    """ground truths that need not be detected, in metrics with such a flag"""
    listed_labels: Tensor | None = field(default=None, metadata=_INTS)
    """in metrics that know lists of classes, image after image: absent classes, then classes with more objects"""
    listed_counts: Tensor | None = field(default=None, metadata=_PAIRS)
    """numbers of both, [images, 2]"""
    tables: Mapping[str, OverlapTable] = field(default_factory=dict)
    """overlaps of masks and other shapes, by `iou_type`"""
    detection_format: str = "xywh"
    """of `detection_boxes`"""

    @classmethod
    def joined(cls, states: Mapping[str, list[Tensor]], box_format: str, device: torch.device) -> Images:
        """Join the batches of a metric.

        Boxes are converted in their own dtype, as in TorchMetrics. An area that is not positive means width times
        height.

        Raises:
            ValueError: only some of merged metrics were given `image_id`, or some as an int and others as a str.
        """
        given, states = states, dict(states)
        # Conversion comes before joining: joined, boxes of several dtypes have the widest one. But runs of one dtype
        # are joined first: a GPU converts a joined block as fast as a single one.
        are_kept = len(states["detection_boxes"]) == 1 and len(states["detection_boxes"][0]) >= _MANY_BOXES
        for name in ("detection_boxes", "ground_truth_boxes")[are_kept:]:
            runs = [[*run] for _, run in groupby(states[name], lambda block: block.dtype)]
            states[name] = [inputs.to_xywh(_cat(run, STATES[name], device), box_format) for run in runs]
        shapes = [name.removesuffix("_overlaps") for name in states if name.endswith("_overlaps")]
        empty = _ALL_STATES | table_states(shapes)
        joined = {name: _cat(blocks, empty[name], device) for name, blocks in states.items() if name in empty}
        columns: dict[str, Any] = {name: joined[name] for name in _ALL_STATES if name in joined}
        areas, boxes = columns["ground_truth_areas"].double(), columns["ground_truth_boxes"]
        columns["ground_truth_areas"] = torch.where(areas > 0, areas, inputs.box_areas(boxes))
        columns |= joined_ids(columns)
        columns["tables"] = {name: OverlapTable(*(joined[state] for state in table_states([name]))) for name in shapes}
        columns["detection_format"] = box_format if are_kept else "xywh"
        return cls(**columns, fingerprints=lambda: fingerprints(given, device))

    def __len__(self) -> int:
        """Number of images."""
        return len(self.detection_counts)

    @property
    def device(self) -> torch.device:
        """Device of the evaluation."""
        return self.detection_counts.device

    @property
    def kind_of_ids(self) -> str | None:
        """Whether `image_id` is an "int" or a "str"; None without ids."""
        return kind_of_ids(vars(self))

    def names(self) -> list[str] | None:
        """The `image_id` of each image if it is a name, else None."""
        if self.image_name_bytes is None or self.image_name_lengths is None:
            return None
        return inputs.unpack_names(self.image_name_bytes, self.image_name_lengths)

    def at(self, kept: Tensor) -> Images:
        """The images of a mask."""
        columns: dict[str, Any] = {name: each for name, each in vars(self).items() if isinstance(each, Tensor)}
        # A mask for each kind of rows: of detections, ground truths, bytes of names, and lists.
        counts = {kind: columns[name] for kind, name in _COUNTS.items() if name in columns}
        rows = {kind: kept.repeat_interleave(each if each.ndim == 1 else each.sum(1)) for kind, each in counts.items()}
        for name, column in columns.items():
            columns[name] = column[kept if name in _OF_IMAGES else rows[name.rpartition("_")[0]]]
        pair = counts["detection"], counts["ground_truth"]
        return replace(self, **columns, tables={name: table.at(kept, *pair) for name, table in self.tables.items()})


_ALL_STATES: dict[str, Tensor] = {each.name: each.metadata["empty"] for each in fields(Images) if each.metadata}
EXTRAS = {"difficult": ("ground_truth_difficult",), "lists": ("listed_labels", "listed_counts")}
"""states that only some metrics have"""
STATES = {name: empty for name, empty in _ALL_STATES.items() if not any(name in names for names in EXTRAS.values())}
"""the states of any metric without rows, joined by `Images`"""
_OF_GROUND_TRUTHS = [name for name in STATES if name.startswith("ground_truth")]
# Numbers of rows that an image has in the states of each name.
_COUNTS = {"detection": "detection_counts", "ground_truth": "ground_truth_counts"}
_COUNTS |= {"image_name": NAME_LENGTHS, "listed": "listed_counts"}
_OF_IMAGES = ("image_ids", *_COUNTS.values())


def empty_states(iou_types: Sequence[str], extras: Sequence[str]) -> dict[str, Tensor]:
    """All states without rows: of boxes, of other shapes, and of `EXTRAS`."""
    states = STATES | table_states(iou_types) | {name: _ALL_STATES[name] for key in extras for name in EXTRAS[key]}
    return states | CORNER_STATES if "rotated" in iou_types else states


def _cat(blocks: list[Tensor], empty: Tensor, device: torch.device) -> Tensor:
    blocks = [block.to(device) for block in blocks] or [empty.to(device)]
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks)


@dataclass(frozen=True)
class ImageNumbering:
    """The numbers of the images of all processes."""

    sizes: list[int]
    """number of images of each process"""
    ids: Tensor | None
    """the `image_id` of each image, process by process; of names, their places in `names`"""
    fingerprints: Callable[[], Tensor]
    """of the ground truths, if images have ids"""
    names: tuple[str, ...] | None = None
    """distinct names, ascending, if images have names"""

    @classmethod
    def alone(cls, images: Images) -> ImageNumbering:
        """Number the images of a single process."""
        named = images.names()
        if named is None:
            return cls([len(images)], images.image_ids, images.fingerprints)
        names, places = inputs.number_names(named)
        return cls([len(images)], places.to(images.device), images.fingerprints, names)

    @property
    def ids_by_number(self) -> Tensor:
        """The `image_id` of each image, by its number; the number itself without ids or with names."""
        return torch.arange(sum(self.sizes), device="cpu") if self.ids is None else self.ids.unique()

    def number(self, images: Images, process: int) -> NumberedImages:
        """Number the images of a process, without repetitions of its own images or of lower processes' images.

        Raises:
            ValueError: images with different ground truths have the same id, on any processes.
        """
        if self.ids is None:
            sizes = torch.tensor(self.sizes, device=images.device)
            return NumberedImages(images, interleaved_numbers(sizes, process))
        # Of all images with one id, on all processes, the first counts; the others must repeat it.
        numbers, first = number_ids(self.ids.to(images.device))
        is_first = first == torch.arange(len(first), device=first.device)
        if bool(is_first.all()):
            return NumberedImages(images, numbers.split(self.sizes)[process])
        prints = self.fingerprints()
        changed: list[Any] = self.ids[prints != prints[first.to(prints.device)]].unique().tolist()
        if changed:
            kind, first_id = ("numbers", changed[0]) if self.names is None else ("names", self.names[changed[0]])
            more = f", and {len(changed) - 1} more such {kind}" if len(changed) > 1 else ""
            came = f"{first_id!r} for images whose ground truths differ{more}"
            raise ValueError(f"`image_id` must be the same only for repetitions of an image; got {came}.")
        numbers, is_first = (each.split(self.sizes)[process] for each in (numbers, is_first))
        return NumberedImages(images.at(is_first), numbers[is_first])


@dataclass(frozen=True)
class NumberedImages:
    """Images without repetitions, each with its number among the images of all processes."""

    images: Images
    numbers: Tensor
    """int32 [images]"""

    def lists(self) -> Tensor | None:
        """Listed classes: number of the image, label, and 0 if absent, 1 if with more objects; None if unknown."""
        if self.images.listed_labels is None or self.images.listed_counts is None:
            return None
        counts = self.images.listed_counts.flatten()
        place = torch.arange(len(counts), device=counts.device).repeat_interleave(counts)
        return torch.stack([self.numbers.long()[place // 2], self.images.listed_labels, place % 2], 1)

    def boxes(self, iou_type: str = "bbox") -> tuple[inputs.Detections, inputs.GroundTruths]:
        """All boxes or other shapes, packed for the evaluation."""
        images, table = self.images, self.images.tables.get(iou_type)
        counts = images.detection_counts, images.ground_truth_counts
        boxes: Any = inputs.BoxShapes(images.detection_boxes, box_format=images.detection_format)
        true_boxes: Any = images.ground_truth_boxes
        if table is not None:
            boxes, true_boxes = inputs.TableShapes.of_images(*table, *counts)
        labels, true_labels = images.detection_labels, images.ground_truth_labels
        numbers = self.numbers.repeat_interleave(counts[0], output_size=len(labels))
        true_numbers = self.numbers.repeat_interleave(counts[1], output_size=len(true_labels))
        scores = images.detection_scores
        detections = inputs.Detections.unchecked(boxes=boxes, scores=scores, labels=labels, images=numbers)
        # `update` checked the boxes, but they have been converted since: ground truths may have overflowed.
        is_sound = table is not None or are_sound({name: getattr(images, name) for name in _OF_GROUND_TRUTHS}, "xywh")
        made: Callable[..., inputs.GroundTruths] = inputs.GroundTruths.unchecked if is_sound else inputs.GroundTruths
        crowds, areas = images.ground_truth_crowds, (images if table is None else table).ground_truth_areas
        return detections, made(boxes=true_boxes, labels=true_labels, images=true_numbers, is_crowd=crowds, areas=areas)


@torch.no_grad()
def fingerprints(states: Mapping[str, list[Tensor]], device: torch.device) -> Tensor:
    """A fingerprint of the ground truths of each image, int64; 0 without any.

    Boxes and areas count as given: converted ones depend on the dtype of their batch. Detections do not count: a
    network gives slightly different ones in another batch or on another device.
    """
    joined = [[block.to(device) for block in states[name]] for name in _COLUMNS]
    if not joined[0]:
        return torch.empty(0, dtype=torch.int64, device=device)
    # One hash for each ground truth, summed over the image.
    boxes, areas, labels, crowds, counts = map(torch.cat, joined)
    of_box = labels.long() * 2 + crowds
    for column in (*boxes.double().unbind(1), areas.double().clamp(min=0)):  # 0 or less means width times height
        of_box = mixed(of_box, (column + 0.0).view(torch.int64))  # -0.0 is 0.0
    image = segments.numbers(counts, len(of_box))
    return torch.zeros_like(counts).index_add_(0, image, of_box)  # modulo 2^64, so in any order


def number_ids(ids: Tensor) -> tuple[Tensor, Tensor]:
    """The place of each id among the distinct ids, ascending, int32, and the first place where it is."""
    distinct, numbers = ids.unique(return_inverse=True)
    place = torch.arange(len(ids), device=ids.device)
    first = place.new_full((len(distinct),), len(ids)).scatter_reduce_(0, numbers, place, "amin")
    return numbers.int(), first.index_select(0, numbers)


def interleaved_numbers(sizes: Tensor, process: int) -> Tensor:
    """Numbers of the images of one process, int32, round-robin over processes of these sizes.

    Image i of process p comes after all images of an earlier place, and after image i of lower processes. So if a
    sampler deals a data set out in turn, its images are numbered in the order of the data set.
    """
    places = torch.arange(int(sizes[process]), device=sizes.device)
    # Images of an earlier place on any process, and of the same place on lower ones.
    earlier = torch.minimum(sizes[:, None], places).sum(0)
    return (earlier + (sizes[:process, None] > places).sum(0)).int()
