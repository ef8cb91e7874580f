"""Notice that processes hold the same images, where no `image_id` tells so; `functional.retrieval` does it for samples.

They come from a sampler that repeats the first images of a data set at the end of the last processes, or were gathered
by hand. Images are told apart by their ground truths, exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from reid_torchmetrics.functional.world import World, warn_once

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
