"""Images that are spread over ranks: each rank matches its own, and tells the others its matches.

The number of collectives depends on the number of ranks alone, not on the images: three, and one with image ids, to
agree on what follows, and one for each rank to send its ids with fingerprints, and one to send its matches.

An error on one rank is an error on all: see `base.process_group` for which steps are to be a `Group.together`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from reid_torchmetrics.metrics.base import Group, Settings, differing, meet
from reid_torchmetrics.metrics.detection.images import ImageNumbering, Images
from reid_torchmetrics.metrics.detection.local_matches import LocalMatches, MatchRequest
from reid_torchmetrics.metrics.detection.packed_matches import from_columns, to_columns
from reid_torchmetrics.metrics.detection.sampler_padding import ends, warn_if_padded

_DTYPES = (
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
)
_MOST_AXES = 3
_ALIGNMENT = 8  # bytes: a part of a buffer is read as any dtype


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
    columns = to_columns(request.run(numbering.number(images, group.rank)))
    received = _send(group, [column.to(group.device).contiguous() for column in columns])
    return numbering, [_local_matches(each, request, images.device) for each in received]


def _meet(
    group: Group, collect: Callable[[], Images], describe: Callable[[], Settings]
) -> tuple[Images, ImageNumbering]:
    """This rank's images and what all ranks must know of all images."""

    def look() -> tuple[Images, Settings, list[int]]:
        images = collect()
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


def _local_matches(columns: list[Tensor], request: MatchRequest, device: torch.device) -> LocalMatches:
    return from_columns([column.to(device) for column in columns], request)


def _form(column: Tensor) -> list[int]:
    """Dtype and shape of a tensor, as so many numbers for any of them."""
    return [_DTYPES.index(column.dtype), *column.shape, *[-1] * (_MOST_AXES - column.ndim)]


def _send(group: Group, columns: Sequence[Tensor]) -> list[list[Tensor]]:
    """The tensors of every rank; one broadcast a rank, in which the forms of the tensors come first."""
    forms = torch.tensor([number for column in columns for number in _form(column)], device=group.device)
    listed = [forms, *columns]
    spans = [_span(column.dtype, column.shape) for column in listed]
    _, table = group.exchange(lambda: (None, [len(forms), sum(spans)]), 2)
    sizes = [size for _, size in table]

    def prepare() -> Tensor:
        buffer = torch.zeros(sum(sizes), dtype=torch.uint8, device=group.device)
        own = buffer.split(sizes)[group.rank]
        for column, place in zip(listed, own.split(spans), strict=True):
            data = column.view(-1).view(torch.uint8)
            place[: len(data)] = data
        return buffer

    buffer = group.together(prepare)
    group.share(buffer, sizes)
    return [_tensors(part, length) for part, (length, _) in zip(buffer.split(sizes), table, strict=True)]


def _tensors(part: Tensor, num_numbers: int) -> list[Tensor]:
    """The tensors of a rank; so many numbers are their forms."""
    shapes = [(torch.int64, [num_numbers]), *_shapes(_read(part, torch.int64, [num_numbers]).tolist())]
    places = part.split([_span(*each) for each in shapes])
    return [_read(place, *each) for place, each in zip(places[1:], shapes[1:], strict=True)]


def _shapes(numbers: Sequence[int]) -> Iterator[tuple[torch.dtype, list[int]]]:
    """Dtypes and shapes, given the forms of tensors one after the other."""
    for first in range(0, len(numbers), 1 + _MOST_AXES):
        dtype, *shape = numbers[first : first + 1 + _MOST_AXES]
        yield _DTYPES[dtype], [size for size in shape if size >= 0]


def _span(dtype: torch.dtype, shape: Sequence[int]) -> int:
    """Bytes that a tensor takes, up to the next place where another may begin."""
    return -(-torch.Size(shape).numel() * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT


def _read(place: Tensor, dtype: torch.dtype, shape: Sequence[int]) -> Tensor:
    return place[: torch.Size(shape).numel() * dtype.itemsize].view(dtype).view(*shape)
