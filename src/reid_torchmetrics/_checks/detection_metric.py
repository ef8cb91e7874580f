"""A rule about images that is not worded where its values are known yet."""

from __future__ import annotations

from collections.abc import Sequence


def images_of_their_own(argument: str, shared: Sequence[int]) -> None:
    """Raise if images that are not the same share a number; `shared` are such numbers."""
    if shared:
        more = f", and {len(shared) - 1} more such numbers" if len(shared) > 1 else ""
        raise ValueError(
            f"`{argument}` must be the same only for repetitions of an image; got {shared[0]} for images whose ground"
            f" truths differ{more}."
        )
