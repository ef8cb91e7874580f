"""One copy of a batch for all metrics that are fed it."""

from __future__ import annotations

import weakref

import torch
from torch import Tensor


class _SharedCopies:
    """Gives every metric that is fed the same batch on the CPU the same tensor, so that they hold, and rank, it once.

    On a device each clones a view for itself; they rank it once as well, for the values are compared then.
    """

    def __init__(self) -> None:
        self._last: tuple[weakref.ref[Tensor], int, weakref.ref[Tensor]] | None = None

    def __call__(self, values: Tensor) -> Tensor:
        """A tensor to keep, as `detached_copy` makes it."""
        # An inference tensor keeps no count of changes in place, and to compare values on a device waits for it.
        if values.is_inference() or values.device.type != "cpu":
            return detached_copy(values)
        if self._last is not None:
            source, version, owned = self._last[0](), self._last[1], self._last[2]()
            is_last = source is values and version == values._version  # noqa: SLF001 - no public name
            if is_last and owned is not None and _has_values_of(owned, values):
                return owned
        kept = detached_copy(values)
        self._last = (weakref.ref(values), values._version, weakref.ref(kept))  # noqa: SLF001
        return kept


shared_copy = _SharedCopies()


def _has_values_of(owned: Tensor, values: Tensor) -> bool:
    """Whether a tensor is still what `detached_copy` would make: NumPy, for one, writes without counting versions."""
    return owned.data_ptr() == values.data_ptr() or torch.equal(owned, values)


def detached_copy(values: Tensor) -> Tensor:
    """A tensor to keep: a view is cloned, so that the batch that it is a part of does not stay alive."""
    values = values.detach()
    is_view = values.untyped_storage().nbytes() > values.numel() * values.element_size()
    return values.clone() if is_view else values
