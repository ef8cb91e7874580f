"""The ids of the images of all processes, numbers or names, with what tells their ground truths apart."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from reid_torchmetrics.functional.world import World, all_gather_rows

from .image_names import as_words, num_words, number_names, unpack_names
from .images import ImageNumbering, Images


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

    def prepare() -> Tensor:
        listed = torch.empty(sum(totals), dtype=torch.int64, device=world.device)
        if len(images):
            listed.split(totals)[world.process].copy_(torch.cat(_columns(images)))
        return listed

    listed = world.guarded(prepare)
    all_gather_rows(world, listed, totals)
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
