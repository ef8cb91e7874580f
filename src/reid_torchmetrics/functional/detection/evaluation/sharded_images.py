"""Images sharded over processes: each process matches its own images and sends its matches to the others.

Boxes are not sent, except those of images to be drawn.

The number of collectives depends only on the number of processes, not on the images: 5, and one broadcast per process,
which sends its matches. With image ids there is one more, and each process broadcasts its ids with fingerprints.

An error on one process is an error on all processes: `functional.world` and `base.process_group` explain what must be
guarded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics.functional.detection.batches import EXTRAS, ImageNumbering, Images
from reid_torchmetrics.functional.detection.inputs import (
    COCO_SIGMAS,
    CocoGrid,
    Detections,
    GroundTruths,
    number_names,
    unpack_names,
)
from reid_torchmetrics.functional.result_cache import Kept, drawn_number, number_of_all
from reid_torchmetrics.functional.world import SentRows, Settings, World, agree, differing, exchange_rows

from .image_matches import ImageMatches, MatchRequest, matchings, merge_image_matches

Result = TypeVar("Result")

_ID_KINDS = (None, "int", "str")  # values of `Images.kind_of_ids`


class ImageCounts(NamedTuple):
    """Numbers that a process sends about its images."""

    num_images: int
    kind_of_ids: int
    """place in `_ID_KINDS`"""
    num_detections: int
    num_areas: int
    """values of `detection_area`"""


@dataclass(frozen=True)
class ShardedImages:
    """The images of this process as states of a metric, and the processes that share the data set."""

    world: World
    states: Mapping[str, list[Tensor]]
    device: torch.device
    """device that evaluates the images"""
    box_format: str
    """format of the users' boxes"""
    owner: str
    """name of the metric or function that evaluates them"""
    options: Callable[[], Mapping[str, str]]
    """returns options of the value as text, the same on all processes"""
    extras: Sequence[str] = ()
    """names of the `EXTRAS` among the states"""
    accept: Callable[[], None] = lambda: None
    """raises if this process has refused a batch"""

    def images(self) -> Images:
        """Return the images of this process."""
        return Images.joined(self.states, self.box_format, self.device, self.extras)

    @torch.no_grad()
    def match(self, request: MatchRequest, asked: Mapping[str, str] = MappingProxyType({})) -> ImageMatches:
        """Return the matches of the images of all processes, computed now or earlier for another metric.

        The matches depend on the processes, the states, the device, the format and the request, which are the key of
        the cache. An error at the end is an error of this process only: `conclude` tells the other processes.

        Args:
            request: the options of the matching.
            asked: texts of arguments that the matches do not depend on. They must be the same on all processes as well,
                because they decide which messages follow.

        Raises:
            DistributedMetricError: an error on some process, metrics that differ, or image ids on some processes only.
        """
        world = self.world
        key = (request, world.members, self.device, self.box_format)

        def find() -> tuple[Kept[ImageMatches] | None, list[int]]:
            """Return cached matches, the number for new matches, and the number of the cached ones."""
            kept = matchings.find(self.states, key) if request.is_aggregate_only else None
            return kept, [drawn_number(), 0 if kept is None else kept.number]

        kept = None if world.members else find()[0]
        if kept is None:
            # First message: the request and the images of each process. Cached matches are used only if all processes
            # have them, because images may have changed on another process.
            kept, images, image_counts, numbers = self.exchange_first_message(
                method="results" if request.with_origins else "compute",
                describe=lambda: {**request.settings_text(), **asked},
                find=find,
            )
            if not number_of_all([offered for _, offered in numbers]):
                kept = None
        if kept is not None:
            return kept.result

        if _have_areas(image_counts):
            request = replace(request, grid=replace(request.grid, has_given_areas=True))

        # Second message: image ids, if there are any. Then each process matches its own images.
        numbering = number_images(world, images, image_counts)
        numbered = numbering.number(images, world.process)
        detections, ground_truths = numbered.boxes(request.iou_type)
        options: dict[str, Any] = {}
        for extra in self.extras:
            options |= EXTRAS[extra].options(numbered)
        parts = [request.run(detections, ground_truths, **options)]

        # Third message: the matches of all processes.
        fingerprints: list[Tensor] = []
        extra_states = chain.from_iterable(EXTRAS[extra].states for extra in self.extras)
        row_counts = [sum(map(len, self.states[name])) for name in extra_states]
        num_extra_rows = torch.tensor(row_counts, dtype=torch.int64, device="cpu")
        if world.size > 1:
            has_ids = numbering.ids is not None
            prints = torch.empty(0, dtype=torch.int64, device=images.device) if has_ids else images.fingerprints()
            received = self.exchange([*parts[0].to_tensors(), prints, num_extra_rows], images.device)
            num_extra_rows = torch.stack([tensors.pop() for tensors in received]).sum(0)
            fingerprints = [tensors.pop() for tensors in received]
            parts = [ImageMatches.from_tensors(tensors, request) for tensors in received]
        matches = replace(
            merge_image_matches(parts),
            num_repeated=len(images) - len(numbered.images),
            fingerprints=fingerprints,
            num_extra_rows=tuple(num_extra_rows.tolist()),
        )
        if not request.is_aggregate_only:
            return replace(matches, ids=numbering.ids_by_number, names=numbering.names)
        # Without images nothing would end the cache entry, unless other processes have some.
        if world.members or self.states["detection_counts"]:
            matchings.keep(self.states, key, Kept(numbers[0][0], matches))
        return matches

    def exchange_first_message(
        self,
        method: str,
        describe: Callable[[], Mapping[str, str]],
        find: Callable[[], tuple[Result, Sequence[int]]],
    ) -> tuple[Result, Images, list[ImageCounts], list[list[int]]]:
        """Check that all processes call the same method with the same settings, and exchange numbers.

        Args:
            method: name of the method.
            describe: returns its settings as text.
            find: returns a result of this process, and numbers to send to the other processes.

        Returns:
            the result of `find`, the images of this process, and counts of images and numbers of each process.
        """

        def work() -> tuple[tuple[Result, Images], list[int]]:
            self.accept()
            result, numbers = find()
            images = self.images()
            counts = ImageCounts(
                num_images=len(images),
                kind_of_ids=_ID_KINDS.index(images.kind_of_ids),
                num_detections=len(images.detection_labels),
                num_areas=0 if images.detection_areas is None else len(images.detection_areas),
            )
            return (result, images), [*counts, *numbers]

        def settings() -> Settings:
            return Settings(self.owner, method, self.options(), describe())

        (result, images), table = agree(self.world, work, settings)
        num_counts = len(ImageCounts._fields)
        image_counts = [ImageCounts(*row[:num_counts]) for row in table]
        return result, images, image_counts, [row[num_counts:] for row in table]

    def exchange(self, tensors: Sequence[Tensor], device: torch.device) -> list[list[Tensor]]:
        """Return the tensors of all processes, on a device."""
        parts = exchange_tensors(self.world, lambda: tensors)
        return [[tensor.to(device) for tensor in part] for part in parts]


def _have_areas(image_counts: Sequence[ImageCounts]) -> bool:
    """Return whether the detections of all processes have areas in the input.

    Raises:
        DistributedMetricError: the detections of some processes only have them.
    """
    uses = []
    for counts in image_counts:
        use = "given" if counts.num_areas else "not given"
        uses.append(use if counts.num_detections else "no detections")
    if {"given", "not given"} <= set(uses):
        raise differing("use of `detection_area`", uses)
    return "given" in uses


def number_images(world: World, images: Images, image_counts: Sequence[ImageCounts]) -> ImageNumbering:
    """Number the images of all processes.

    Raises:
        DistributedMetricError: image ids on some processes only, or ints on some and names on others.
    """
    # Processes without images agree with any other process.
    kinds = {_ID_KINDS[counts.kind_of_ids] for counts in image_counts if counts.num_images}
    if len(kinds) > 1:
        uses = []
        for counts in image_counts:
            kind = _ID_KINDS[counts.kind_of_ids]
            use = "not given"
            if kind is not None:
                use = f"given as {kind}" if {"int", "str"} <= kinds else "given"
            uses.append(use if counts.num_images else "no images")
        raise differing("use of `image_id`", uses)
    if world.size == 1:
        return ImageNumbering.alone(images)
    # With ids all processes number all images. Without ids numbers are assigned to the processes in turn.
    if any(kinds):
        return _share_ids(world, images)
    return ImageNumbering([counts.num_images for counts in image_counts], None, images.fingerprints)


def _share_ids(world: World, images: Images) -> ImageNumbering:
    """Exchange image ids, or names, with the fingerprints of the images."""

    def columns() -> list[Tensor]:
        ids = (images.image_ids, images.image_name_bytes, images.image_name_lengths)
        nothing = torch.empty(0, dtype=torch.int64, device="cpu")
        return [nothing if column is None else column for column in (*ids, images.fingerprints())]

    received = exchange_tensors(world, columns)
    fingerprints = torch.cat([tensors[-1] for tensors in received])
    sizes = [len(tensors[-1]) for tensors in received]
    names: list[str] = []
    for _, name_bytes, name_lengths, _ in received:
        names += unpack_names(name_bytes, name_lengths)
    if not names:
        ids = torch.cat([tensors[0] for tensors in received])
        return ImageNumbering(sizes, ids, lambda: fingerprints)
    distinct_names, places = number_names(names)
    return ImageNumbering(sizes, places, lambda: fingerprints, distinct_names)


def exchange_tensors(world: World, tensors: Callable[[], Sequence[Tensor]]) -> list[list[Tensor]]:
    """Return the tensors of every process, on the CPU; `tensors` returns those of this process."""

    def work() -> tuple[Tensor, list[int]]:
        data = packed(tensors())
        return data, [len(data)]

    data, table = world.guarded_all_gather(work)
    sizes = [size for (size,) in table]
    (buffer,) = exchange_rows(world, sizes, SentRows(lambda: [data], dtype=torch.uint8))
    return [_unpacked(part) for part in buffer.cpu().split(sizes)]


def packed(tensors: Sequence[Tensor]) -> Tensor:
    """Return tensors as bytes, uint8; flags take a bit each."""
    parts: list[tuple[Tensor, list[int] | None]] = []
    for tensor in tensors:
        if tensor.dtype == torch.bool:
            bits = np.packbits(tensor.cpu().numpy())
            parts.append((torch.from_numpy(bits), list(tensor.shape)))
        else:
            parts.append((tensor.cpu().clone(), None))  # of a view all of its memory would be saved
    file = BytesIO()
    torch.save(parts, file)
    return torch.from_numpy(np.frombuffer(file.getvalue(), dtype=np.uint8).copy())


def _unpacked(data: Tensor) -> list[Tensor]:
    """Return the tensors in bytes of `packed`."""
    tensors = []
    for values, shape in torch.load(BytesIO(data.numpy().tobytes()), weights_only=True):
        if shape is None:
            tensors.append(values)
        else:
            flags = np.unpackbits(values.numpy(), count=torch.Size(shape).numel())
            tensors.append(torch.from_numpy(flags).bool().view(shape))
    return tensors


class ShownColumns(NamedTuple):
    """The objects of some images, in `preds` or in `target`."""

    counts: Tensor
    """numbers of objects, [images]"""
    columns: Mapping[str, Tensor]
    """values of the objects by the users' keys, image by image; numbers of pixels in the place of `masks`"""


class ShownImages(NamedTuple):
    """Some images, as they were given.

    `boxes` are those around other shapes, if they were not given. `iscrowd` and `area` are there if some image had
    them, with zeros where another one lacked them.
    """

    preds: ShownColumns
    target: ShownColumns
    sizes: Sequence[Any]
    """height and width of each image as they were given; None if they were not"""
    extremes: Sequence[Tensor] = ()
    """the lowest and the highest value in all masks of an image, [2], if masks are numbers"""


class EvaluatedImages(NamedTuple):
    """The images of a metric, or of a function that takes dicts."""

    sharded: ShardedImages
    """the images of this process"""
    given: Mapping[str, Any]
    """notes of the diagnosis about the input of this process, see `images_given`"""
    value_names: Collection[str] | None = None
    """names of the requested numbers; None for all numbers"""


@dataclass(frozen=True)
class EvaluatedObjects:
    """Packed objects."""

    detections: Detections
    ground_truths: GroundTruths
    grid: CocoGrid
    """the grid of thresholds that they were matched on"""
    iou_type: str | None = None
    """"bbox", "segm", "keypoints" or "rotated"; None for "bbox" if the shapes are boxes"""
    shown: Callable[[], ShownImages] | None = None
    """returns the first images; None for the packed boxes"""
    label_names: Sequence[object] | None = None
    """the users' label for each label number; None if both are equal"""
    sigmas: Sequence[float] = COCO_SIGMAS
    """sigmas of keypoints"""
    num_ignored: int = 0
    """number of ground truths that count although `ignore` marks them"""
