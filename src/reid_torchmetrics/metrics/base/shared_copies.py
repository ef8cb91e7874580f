"""One copy of a batch for all metrics that are fed it."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor

_last: list[Any] = [lambda: None, 0, lambda: None]
"""the batch that came last, weakly, how often it had been written to, and what was kept of it, weakly"""


def shared_copy(values: Tensor) -> Tensor:
    """A tensor to keep, as `detached_copy` makes it, the same one for all metrics that are fed a batch.

    On a device each clones a view for itself; they rank it once as well, for the values are compared then.
    """
    # An inference tensor keeps no count of changes in place, and to compare values on a device waits for it.
    if values.is_inference() or values.device.type != "cpu":
        return detached_copy(values)
    source, version, owned = _last
    kept: Tensor | None = owned()
    now = values._version  # noqa: SLF001 - no public name
    is_last = source() is values and version == now
    # NumPy, for one, writes without counting versions.
    if kept is None or not is_last or (kept.data_ptr() != values.data_ptr() and not torch.equal(kept, values)):
        kept = detached_copy(values)
        _last[:] = weakref.ref(values), now, weakref.ref(kept)
    return kept


def detached_copy(values: Tensor) -> Tensor:
    """A tensor to keep: a view is cloned, so that the batch that it is a part of does not stay alive."""
    values = values.detach()
    is_view = values.untyped_storage().nbytes() > values.numel() * values.element_size()
    return values.clone() if is_view else values
