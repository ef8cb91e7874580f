"""The boxes of chosen images, which any process may hold, for drawings.

Users name images by number or by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from reid_torchmetrics import _arrays, _checks
from reid_torchmetrics.functional.detection.batches import Images
from reid_torchmetrics.functional.detection.evaluation import (
    DETECTION_KEYS,
    RESULT_METHODS,
    DetectionResults,
    ImageBoxes,
    ImageDicts,
    ImageIds,
    ShardedImages,
    number_images,
)

_GROUND_TRUTH_COLUMNS = ("boxes", "labels", "crowds")  # the first of `GROUND_TRUTH_KEYS` as fields of `Images`


@torch.no_grad()
def find_boxes(
    sharded: ShardedImages, image: ImageIds | None = None
) -> tuple[dict[int, ImageBoxes], tuple[str, ...] | None]:
    """Return the boxes of some images, held by any process, on all processes; and the names of all images, if any.

    Keys are the numbers of images without an `image_id`, and the numbers of names for images with names. Images that no
    process has are left out; None stands for all images. Errors are those of `ShardedImages.match`.
    """

    def find() -> tuple[list[int] | list[str] | None, Sequence[int]]:
        return None if image is None else _listed_ids(image), ()

    def describe() -> dict[str, str]:
        return {"image": "all" if image is None else repr(_listed_ids(image))}

    # Boxes are sent as the user passed them, because "xywh" is not converted; rotated boxes are sent as corners.
    states = dict(sharded.states)
    for name in sharded.states:
        corners = sharded.states.get(name.replace("_boxes", "_corners"))
        if corners is not None:
            states[name] = corners
    unconverted = replace(sharded, box_format="xywh", states=states)

    # All processes learn all ids, as in `match`; then each sends its boxes in the requested images.
    world = sharded.world
    requested_ids, images, image_counts, _ = unconverted.exchange_first_message("boxes_of", describe, find)
    numbering = number_images(world, images, image_counts)
    names = numbering.names
    numbered = numbering.number(images, world.process)
    images = numbered.images
    ids = numbering.ids_by_number.to(images.device)[numbered.numbers.long()]
    if requested_ids is not None:
        places = [place for place in _places_of(requested_ids, names) if place is not None]
        is_requested = torch.isin(ids, torch.tensor(places, dtype=torch.int64, device=ids.device))
        images = images.at(is_requested)
        ids = ids[is_requested]

    tensors = _columns_of(ids, images)
    parts = [tensors] if world.size == 1 else sharded.exchange(tensors, images.device)
    boxes: dict[int, ImageBoxes] = {}
    for part in parts:
        boxes |= ImageBoxes.by_image(part, names)
    return boxes, names


def _columns_of(ids: Tensor, images: Images) -> list[Tensor]:
    """Return the tensors for `ImageBoxes.by_image`: ids, numbers of objects in each image, and columns of objects."""
    columns = [getattr(images, f"detection_{key}") for key in DETECTION_KEYS]
    columns += [getattr(images, f"ground_truth_{name}") for name in _GROUND_TRUTH_COLUMNS]
    columns.append(images.extras.get("ground_truth_difficult"))
    tensors = [ids, images.detection_counts, images.ground_truth_counts]
    tensors += [column for column in columns if column is not None]
    return tensors


def _boxes_of_results(results: DetectionResults, image: ImageIds) -> ImageDicts:
    """See `DetectionResults.boxes_of`."""
    if results.boxes is None:
        raise ValueError("`boxes` must be True in `results(...)` to use `boxes_of`; got False.")
    return _choose(image, results.boxes, results.image_names)


def _listed_ids(image: ImageIds) -> list[int] | list[str]:
    """Return the ids in a list.

    Raises:
        TypeError: neither integers nor a list of names.
    """
    (image,) = _arrays.as_tensors(image)
    if isinstance(image, Tensor):
        return _checks.integer_labels("image", image).tolist()
    got = type(image).__name__
    if isinstance(image, (tuple, list)):
        other_types = [type(name).__name__ for name in image if not isinstance(name, str)]
        if not other_types:
            return list(image)
        got = f"a {got} with {other_types[0]}"
    raise TypeError(f"`image` must hold integers or be a list of names; got {got}.")


def _places_of(ids: Sequence[int | str], names: Sequence[str] | None) -> list[int | None]:
    """Return the keys of images in `ImageBoxes.by_image`; None for a name that no image has."""
    places = {name: place for place, name in enumerate(names or ())}
    return [image if isinstance(image, int) else places.get(image) for image in ids]


def _choose(image: ImageIds, boxes: Mapping[int, ImageBoxes], names: Sequence[str] | None) -> ImageDicts:
    """Return the detections and the ground truths of some images.

    Raises:
        TypeError: `image` is neither an integer tensor nor a list of names.
        ValueError: an image that was not passed to `update`.
    """
    detections = []
    ground_truths = []
    ids = _listed_ids(image)
    for image_id, place in zip(ids, _places_of(ids, names), strict=True):
        if place is None or place not in boxes:
            raise ValueError(f"`image` must hold images that were given to `update`; got {image_id!r}.")
        detections.append(boxes[place].detections)
        ground_truths.append(boxes[place].ground_truths)
    return detections, ground_truths


RESULT_METHODS["all_boxes"] = lambda sharded: find_boxes(sharded)[0]
RESULT_METHODS["boxes_of_metric"] = lambda sharded, image: _choose(image, *find_boxes(sharded, image))
RESULT_METHODS["boxes_of"] = _boxes_of_results
