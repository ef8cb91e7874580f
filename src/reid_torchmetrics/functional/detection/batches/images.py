"""The images of a metric, and their numbers, which order detections with equal scores and identify repetitions.

An image is identified by its `image_id`. Samplers may repeat images to fill the last batch. Repetitions have the same
id and the same fingerprint of 64 bits of the ground truths, and count once. Two images with one id are an error if
their ground truths differ; if only their detections differ, the diagnosis tells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._registries import Registry
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection import inputs
from reid_torchmetrics.functional.world import mixed

from .image_columns import Dicts
from .image_ids import joined_ids, kind_of_ids
from .invalid_objects import are_valid
from .shape_batches import CORNER_STATES, OverlapTable, table_states

SMALLEST_AREA = torch.finfo(torch.float32).tiny
"""replaces the area 0 of a file in dicts, where 0 means no area: the ranges and overlaps are the same"""


_MANY_BOXES = 1 << 17  # in one batch, converted some at a time

_BOXES = torch.empty((0, 4), device="cpu")
_FLOATS = torch.empty(0, device="cpu")
_INTS = torch.empty(0, dtype=torch.int64, device="cpu")
STATES = {
    "detection_boxes": _BOXES,
    "detection_scores": _FLOATS,
    "detection_labels": _INTS,
    "detection_counts": _INTS,
    "detection_areas": _FLOATS,
    "ground_truth_boxes": _BOXES,
    "ground_truth_labels": _INTS,
    "ground_truth_crowds": torch.empty(0, dtype=torch.bool, device="cpu"),
    "ground_truth_areas": _FLOATS,
    "ground_truth_counts": _INTS,
    "image_ids": _INTS,
    "image_name_bytes": torch.empty(0, dtype=torch.uint8, device="cpu"),
    "image_name_lengths": _INTS,
}
"""the states of any metric without rows, the first fields of `Images`"""


@dataclass(frozen=True)
class Images:
    """Images in the order of `update`, with boxes as x, y, width, height; `counts` are numbers of boxes per image.

    Very many detected boxes of one batch stay in their own format, to avoid a copy: see `detection_format`.
    """

    detection_boxes: Tensor
    detection_scores: Tensor
    detection_labels: Tensor
    detection_counts: Tensor
    detection_areas: Tensor | None
    """areas for the area ranges, in place of those of the shapes; None if they were not given"""
    ground_truth_boxes: Tensor
    ground_truth_labels: Tensor
    ground_truth_crowds: Tensor
    ground_truth_areas: Tensor
    ground_truth_counts: Tensor
    image_ids: Tensor | None
    image_name_bytes: Tensor | None
    """names in place of ids: see `image_names`"""
    image_name_lengths: Tensor | None
    fingerprints: Callable[[], Tensor]
    """function that computes the fingerprints of all images, before any selection by `at`; rarely needed"""
    extras: Mapping[str, Tensor] = field(default_factory=dict)
    """the states of `EXTRAS` that the evaluation uses"""
    tables: Mapping[str, OverlapTable] = field(default_factory=dict)
    """overlaps of masks and other shapes, by `iou_type`"""
    detection_format: str = "xywh"
    """format of `detection_boxes`"""

    @classmethod
    def joined(
        cls,
        states: Mapping[str, list[Tensor]],
        box_format: str,
        device: torch.device,
        extras: Sequence[str] = (),
    ) -> Images:
        """Join the batches of a metric that uses some `EXTRAS`.

        Boxes are converted in their own dtype, as in TorchMetrics. An area that is not positive means width times
        height.

        Raises:
            ValueError: only some batches or merged metrics were given `detection_area`, or only some merged metrics
                `image_id`, or some as an int and others as a str.
        """
        # Very many detected boxes stay as they are, without a copy.
        detection_blocks = states["detection_boxes"]
        keeps_format = len(detection_blocks) == 1 and len(detection_blocks[0]) >= _MANY_BOXES
        converted = dict(states)
        if not keeps_format:
            converted["detection_boxes"] = _to_xywh(detection_blocks, box_format, device)
        converted["ground_truth_boxes"] = _to_xywh(states["ground_truth_boxes"], box_format, device)

        # One tensor for each state.
        shapes = [name.removesuffix("_overlaps") for name in states if name.endswith("_overlaps")]
        empty_extras = extra_states(extras)
        empty = STATES | table_states(shapes) | empty_extras
        joined: dict[str, Tensor] = {}
        for name, no_rows in empty.items():
            blocks = [block.to(device) for block in converted[name] or [no_rows]]
            joined[name] = blocks[0] if len(blocks) == 1 else torch.cat(blocks)  # a single block is not copied
        columns: dict[str, Any] = {name: joined[name] for name in STATES}
        columns["extras"] = {name: joined[name] for name in empty_extras}
        areas = columns["ground_truth_areas"].double()
        box_areas = inputs.box_areas(columns["ground_truth_boxes"])
        columns["ground_truth_areas"] = torch.where(areas > 0, areas, box_areas)
        columns |= joined_ids(columns)
        num_areas = len(columns["detection_areas"])
        if num_areas:
            _checks.given_for_all("detection_area", num_areas, len(columns["detection_labels"]))
        else:
            columns["detection_areas"] = None
        columns["tables"] = {name: OverlapTable(*(joined[state] for state in table_states([name]))) for name in shapes}
        columns["detection_format"] = box_format if keeps_format else "xywh"
        return cls(**columns, fingerprints=lambda: fingerprints(states, device))

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.detection_counts)

    @property
    def device(self) -> torch.device:
        """Device of the evaluation."""
        return self.detection_counts.device

    @property
    def kind_of_ids(self) -> str | None:
        """Kind of `image_id`, "int" or "str"; None without ids."""
        return kind_of_ids(vars(self))

    def names(self) -> list[str] | None:
        """Return the names of the images; None if `image_id` is no name."""
        if self.image_name_bytes is None or self.image_name_lengths is None:
            return None
        return inputs.unpack_names(self.image_name_bytes, self.image_name_lengths)

    def at(self, is_selected: Tensor) -> Images:
        """Return the images of a mask."""
        columns: dict[str, Any] = {name: column for name, column in vars(self).items() if isinstance(column, Tensor)}
        columns |= self.extras
        # A mask of rows for each prefix of the states: detections, ground truths, bytes of names, and those of extras.
        is_row_selected = {}
        for name, counts in columns.items():
            if name.endswith(_COUNTS):
                num_rows = counts.sum(1) if counts.ndim == 2 else counts  # an image may have several counts
                is_row_selected[_prefix(name)] = is_selected.repeat_interleave(num_rows)
        for name, column in columns.items():
            has_row_for_image = name == "image_ids" or name.endswith(_COUNTS)
            columns[name] = column[is_selected if has_row_for_image else is_row_selected[_prefix(name)]]
        tables = {}
        for name, table in self.tables.items():
            tables[name] = table.at(is_selected, self.detection_counts, self.ground_truth_counts)
        extras = {name: columns.pop(name) for name in self.extras}
        return replace(self, **columns, extras=extras, tables=tables)


def _prefix(name: str) -> str:
    """Return the prefix of a state: "detection" of "detection_labels"."""
    return name.rpartition("_")[0]


@dataclass(frozen=True)
class ExtraColumns:
    """Values of images that only some evaluators read, as further states of a metric."""

    states: Mapping[str, Tensor]
    """the states without rows; `ground_truth_...` have a row for each ground truth, and others as many rows for an
    image as their `..._counts` say"""
    pack: Callable[[Dicts, torch.device], dict[str, Tensor]]
    """returns the states of a batch from `target`, after all other checks"""
    options: Callable[[NumberedImages], dict[str, Any]]
    """returns options of the evaluator's `match`"""
    check_detections: Callable[[Dicts], None] | None = None
    """raises unless `preds` can be used; None if any can"""


EXTRAS: Registry[ExtraColumns] = Registry("EXTRAS", {})
"""values that only some evaluators read, which tasks add, by name"""
_GROUND_TRUTH_STATES = [name for name in STATES if name.startswith("ground_truth")]
_COUNTS = ("_counts", "_lengths")
"""ends of the names of states with the number of rows of each image, for all states with their prefix"""


def extra_states(extras: Sequence[str]) -> dict[str, Tensor]:
    """Return the states of some `EXTRAS`, without rows."""
    return dict(chain.from_iterable(EXTRAS[extra].states.items() for extra in extras))


def empty_states(types: Mapping[str, inputs.ShapeType], extras: Sequence[str]) -> dict[str, Tensor]:
    """Return all states without rows: for boxes, other shapes by `iou_type`, and `EXTRAS`."""
    states = STATES | table_states(list(types)) | extra_states(extras)
    if any(kind.has_corners for kind in types.values()):
        states |= CORNER_STATES
    return states


def _to_xywh(blocks: Sequence[Tensor], box_format: str, device: torch.device) -> list[Tensor]:
    """Convert the boxes of all batches to x, y, width and height.

    Conversion comes before joining, as boxes of several dtypes get the widest one when they are joined. But runs of
    one dtype are joined first: a GPU converts a joined block as fast as a single one.
    """
    converted = []
    for _, run in groupby(blocks, lambda block: block.dtype):
        alike = [block.to(device) for block in run]
        converted.append(inputs.to_xywh(alike[0] if len(alike) == 1 else torch.cat(alike), box_format))
    return converted


@dataclass(frozen=True)
class ImageNumbering:
    """The numbers of the images of all processes."""

    sizes: list[int]
    """number of images of each process"""
    ids: Tensor | None
    """the `image_id` of each image, process by process; for names, their positions in `names`"""
    fingerprints: Callable[[], Tensor]
    """function that computes the fingerprints of the ground truths, if images have ids"""
    names: tuple[str, ...] | None = None
    """the distinct names, ascending, if images have names"""

    @classmethod
    def alone(cls, images: Images) -> ImageNumbering:
        """Number the images of a single process."""
        image_names = images.names()
        if image_names is None:
            return cls([len(images)], images.image_ids, images.fingerprints)
        names, positions = inputs.number_names(image_names)
        return cls([len(images)], positions.to(images.device), images.fingerprints, names)

    @property
    def ids_by_number(self) -> Tensor:
        """The `image_id` of each image, by its number; the number itself without ids or with names."""
        if self.ids is None:
            return torch.arange(sum(self.sizes), device="cpu")
        distinct: Tensor = self.ids.unique()
        return distinct

    def number(self, images: Images, process: int) -> NumberedImages:
        """Number the images of a process, without repetitions of its own images or of lower processes' images.

        Raises:
            ValueError: images with different ground truths have the same id, on any processes.
        """
        if self.ids is None:
            sizes = torch.tensor(self.sizes, device=images.device)
            return NumberedImages(images, interleaved_numbers(sizes, process))
        # Among all images with one id, on all processes, the first counts; the others must repeat it.
        numbers, first = number_ids(self.ids.to(images.device))
        is_first = first == torch.arange(len(first), device=first.device)
        if bool(is_first.all()):
            return NumberedImages(images, numbers.split(self.sizes)[process])
        self._check_repetitions(self.ids, first)
        numbers = numbers.split(self.sizes)[process]
        is_first = is_first.split(self.sizes)[process]
        return NumberedImages(images.at(is_first), numbers[is_first])

    def _check_repetitions(self, ids: Tensor, first: Tensor) -> None:
        """Raise unless each image has the ground truths of the first image with its id."""
        prints = self.fingerprints()
        is_changed = prints != prints[first.to(prints.device)]
        changed: list[Any] = ids[is_changed].unique().tolist()
        if not changed:
            return
        if self.names is None:
            kind = "numbers"
            first_id = changed[0]
        else:
            kind = "names"
            first_id = self.names[changed[0]]
        more = f", and {len(changed) - 1} more such {kind}" if len(changed) > 1 else ""
        got = f"{first_id!r} for images whose ground truths differ{more}"
        raise ValueError(f"`image_id` must be the same only for repetitions of an image; got {got}.")


@dataclass(frozen=True)
class NumberedImages:
    """Images without repetitions, each with its number among the images of all processes."""

    images: Images
    numbers: Tensor
    """int32 [images]"""

    def boxes(self, iou_type: str = "bbox") -> tuple[inputs.Detections, inputs.GroundTruths]:
        """Return all boxes or other shapes, packed for the evaluation."""
        images = self.images
        table = images.tables.get(iou_type)
        given_areas = None if images.detection_areas is None else images.detection_areas.double()
        boxes: Any
        true_boxes: Any
        if table is None:
            boxes = inputs.BoxShapes(
                images.detection_boxes, areas_given=given_areas, box_format=images.detection_format
            )
            true_boxes = images.ground_truth_boxes
            areas = images.ground_truth_areas
        else:
            detection_areas = table.detection_areas if given_areas is None else given_areas
            boxes, true_boxes = inputs.TableShapes.of_images(
                *table._replace(detection_areas=detection_areas), images.detection_counts, images.ground_truth_counts
            )
            areas = table.ground_truth_areas

        num_detections = len(images.detection_labels)
        detections = inputs.Detections.unchecked(
            boxes=boxes,
            scores=images.detection_scores,
            labels=images.detection_labels,
            images=self.numbers.repeat_interleave(images.detection_counts, output_size=num_detections),
        )
        # `update` checked the boxes, but they have been converted since: ground truths may have overflowed.
        is_valid = True
        if table is None:
            is_valid = are_valid({name: getattr(images, name) for name in _GROUND_TRUTH_STATES}, "xywh")
        build: Callable[..., inputs.GroundTruths] = inputs.GroundTruths
        if is_valid:
            build = inputs.GroundTruths.unchecked
        num_ground_truths = len(images.ground_truth_labels)
        ground_truths = build(
            boxes=true_boxes,
            labels=images.ground_truth_labels,
            images=self.numbers.repeat_interleave(images.ground_truth_counts, output_size=num_ground_truths),
            is_crowd=images.ground_truth_crowds,
            areas=areas,
        )
        return detections, ground_truths


@torch.no_grad()
def fingerprints(states: Mapping[str, list[Tensor]], device: torch.device) -> Tensor:
    """Compute a fingerprint of the ground truths of each image, int64; 0 without ground truths.

    Boxes and areas count as given: converted ones depend on the dtype of their batch. Detections do not count: a
    network gives slightly different ones in another batch or on another device.
    """
    blocks = [[block.to(device) for block in states[name]] for name in _GROUND_TRUTH_STATES]
    if not blocks[0]:
        return torch.empty(0, dtype=torch.int64, device=device)
    boxes, labels, crowds, areas, counts = map(torch.cat, blocks)
    # One hash for each ground truth, summed over the image.
    hashes = labels.long() * 2 + crowds
    for column in (*boxes.double().unbind(1), areas.double().clamp(min=0)):  # 0 or less means width times height
        hashes = mixed(hashes, (column + 0.0).view(torch.int64))  # -0.0 is 0.0
    image = segments.numbers(counts, len(hashes))
    return torch.zeros_like(counts).index_add_(0, image, hashes)  # modulo 2^64, so in any order


def number_ids(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number of each id among the distinct ids, ascending, int32, and the first position of each id."""
    distinct, numbers = ids.unique(return_inverse=True)
    positions = torch.arange(len(ids), device=ids.device)
    first = positions.new_full((len(distinct),), len(ids)).scatter_reduce_(0, numbers, positions, "amin")
    return numbers.int(), first.index_select(0, numbers)


def interleaved_numbers(sizes: Tensor, process: int) -> Tensor:
    """Numbers of the images of one process, int32, dealt out in turn over processes of these sizes.

    Image i of process p comes after all images with a smaller index, and after image i of lower processes. So if a
    sampler deals a data set out in turn, its images are numbered in the order of the data set.

    Example for sizes 3 and 2: process 0 has the numbers 0, 2, 4, and process 1 the numbers 1, 3.
    """
    index = torch.arange(int(sizes[process]), device=sizes.device)
    # Images with a smaller index on any process, and with the same index on lower processes.
    num_earlier = torch.minimum(sizes[:, None], index).sum(0)
    num_on_lower_processes = (sizes[:process, None] > index).sum(0)
    return (num_earlier + num_on_lower_processes).int()
