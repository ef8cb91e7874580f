"""Notice that a sampler has repeated images, where no `image_id` tells so; `metrics.reid` does it for samples."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from itertools import combinations

from reid_torchmetrics.functional.world import World
from reid_torchmetrics.metrics.detection.images import Images


def ends(images: Images) -> list[int]:
    """Fingerprints of the first and the last image; 0 for one without ground truths, which is like many others."""
    if images.kind_of_ids is not None or not len(images):
        return [0, 0]
    prints = images.fingerprints()
    return [int(prints[0]), int(prints[-1])]


def warn_if_padded(world: World, sizes: Sequence[int], found: Sequence[tuple[int, int]]) -> None:
    """Say once if the processes hold equally many images and the last of one is the first of a lower one.

    So it is after `DistributedSampler`: where the number of images is no multiple of the number of processes, it
    repeats the first images of a data set at the end of the last processes. `sizes` and `found`, the `ends`, are of
    all processes.
    """
    is_repeated = any(lower[0] == higher[1] != 0 for lower, higher in combinations(found, 2))
    if is_repeated and len({*sizes}) == 1:
        world.guarded(_say_so if world.process == 0 else lambda: None)  # a warning may be an error


@functools.cache
def _say_so() -> None:
    warnings.warn(
        "All processes hold equally many images, and the last of one has the ground truths of the first of another: a"
        " distributed sampler seems to have repeated images to make the numbers even, and they count twice. Give"
        " `image_id` in `target`, or use `UnpaddedDistributedSampler`.",
        stacklevel=2,
    )
