"""Adapts `torchmetrics.Metric` to states that are lists of batches: they only ever grow, and they are large.

What the base class does to list states at every step (copy them for `forward`, walk over them in `.to`) costs more
the longer the epoch. All processes agree on how `compute` ends: with a value, or with an error. The hooks below were
tried on torchmetrics 1.6 and 1.9.
"""

from __future__ import annotations

import copy
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import takewhile
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat
from torchmetrics.utilities.distributed import gather_all_tensors
from torchmetrics.utilities.prints import rank_zero_only

from reid_torchmetrics._arrays import compute_device, lacks_float64
from reid_torchmetrics._extras import require
from reid_torchmetrics.functional.world import Alone, WarningLog, World, concluding

from .process_group import DistributedWorld

_FORWARD_FLAGS = (
    *("_update_count", "_computed", "_to_sync", "_should_unsync", "_enable_grad", "_is_synced", "_cache"),
    "compute_on_cpu",
)
_NOT_SCRIPTED = ("update_called", "_world", "_forward_cache")
_heard: WeakIdKeyDictionary = WeakIdKeyDictionary()  # subjects of warnings, by the first batch that they are about
_last: list[Any] = [lambda: None, 0, lambda: None]
"""the batch that came last, weakly, how often it had been written to, and what was kept of it, weakly"""
_PLAIN = {list, int, bool, str, dict, set, type(None)}  # told by their type alone: `isinstance` asks a metaclass


class GrowingStates(Metric):
    """A metric with states that are lists of tensors; `update` appends to them.

    They are added by `_add_growing_states`. Syncing gathers none of them: `compute` combines the processes of `_world`.
    An error of one process is raised on all of them, in `compute` and wherever the metric is synced.
    """

    __jit_unused_properties__: ClassVar[list[str]] = [*Metric.__jit_unused_properties__, *_NOT_SCRIPTED]

    is_differentiable = False
    full_state_update = False
    plot_lower_bound = 0.0
    plot_upper_bound: float | None = 1.0

    _processes: DistributedWorld | None = None
    """the processes that share the samples, while they are several and the metric is synced"""
    _owned = ""
    """a state of tensors of its own, shared by metrics of one compute group alone"""
    _states_before_forward: dict[str, list[Tensor]] | None = None
    """what the metric holds while `forward` evaluates a batch alone; None outside `forward`"""
    _deferred_error: Exception | None = None
    """why a batch is missing: `update` raised it, on this process only, and all are to know before they compute"""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._empty_states: dict[str, Tensor] = {}
        self._told: set[str] = set()

    def __setattr__(self, name: str, value: Any) -> None:
        """As in the base class, but without a search for modules: most of a constructor and a collection's `update`."""
        own = self.__dict__
        is_plain = type(value) in _PLAIN or not isinstance(value, (Tensor, torch.nn.Module))
        if is_plain and (name in own or not (hasattr(type(self), name) or self._is_registered(name))):
            own[name] = value
        else:
            super().__setattr__(name, value)

    def _is_registered(self, name: str) -> bool:
        """Whether a module keeps an attribute in a place of its own, or has no places yet."""
        get, absent = self.__dict__.get, (name,)
        return name in get("_modules", absent) or name in get("_parameters", absent) or name in get("_buffers", absent)

    def _add_growing_states(self, empty: Mapping[str, Tensor]) -> None:
        """Add states; each of `empty` has no rows, and the dtype and number of axes of what will be appended."""
        # As `add_state` does, which copies each default, in a fifth of the time.
        vars(self).update({name: [] for name in empty})
        self._defaults.update({name: [] for name in empty})
        self._persistent.update(dict.fromkeys(empty, False))
        self._reductions.update(dict.fromkeys(empty, dim_zero_cat))
        self._empty_states.update(empty)

    @contextmanager
    def sync_context(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        """As in the base class, but an exception inside is raised on all processes, and leaves the metric unsynced."""
        try:
            # Also what follows `compute` inside may fail, such as to copy the value; no process may remember it then.
            with super().sync_context(*args, **kwargs), concluding(self._world):
                yield
        except BaseException:
            if self._is_synced:
                self.unsync()
            raise

    def _synced(self) -> AbstractContextManager[None]:
        """Combine the processes for a while, under the same conditions as `compute` does."""
        is_new, gather = not self._is_synced, self.dist_sync_fn
        return self.sync_context(dist_sync_fn=gather, should_sync=self._to_sync and is_new, should_unsync=is_new)

    @property
    def _world(self) -> World:
        return self._processes or Alone(self._warning_log())

    def _warning_log(self) -> WarningLog:
        """What this metric was warned of since `reset`; metrics of a compute group share batches, and hear it once."""
        batches = (self._states_before_forward or vars(self))[self._owned] if self._owned else []
        return WarningLog(_heard.setdefault(batches[0], self._told) if batches else self._told)

    def _warn(self, about: str, text: str) -> None:
        """Warn of a batch on process 0."""
        rank_zero_only(self._warning_log().warn_once)(about, text)

    @contextmanager
    def _deferring_errors(self) -> Iterator[None]:
        """Remember the error that refuses a batch."""
        try:
            yield
        except Exception as error:
            self._deferred_error = _copied(error)
            raise

    def _raise_deferred_error(self) -> None:
        """Raise the error of `update` on all processes, once, if a batch is missing because it was refused."""
        if self._deferred_error is not None and self._world.size > 1:  # of one process `update` has raised it
            refused, self._deferred_error = self._deferred_error, None
            raise refused

    def _log_instead(self) -> str | None:
        """What `self.log` takes in the place of this metric; None if it takes the metric."""
        return None

    @property
    def _forward_cache(self) -> Any:
        """What `forward` gave last; Lightning reads it as soon as `self.log` is given the metric."""
        reader = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0]  # noqa: SLF001
        instead = self._log_instead() if reader in {"lightning", "pytorch_lightning"} else None
        if instead is not None:
            raise TypeError(
                f"`value` of `self.log` must be a metric of one number; got {type(self).__name__}: log `{instead}`."
            )
        return self.__dict__.get("_forward_cache")  # where the base class has it, for pickles and copies

    @_forward_cache.setter
    def _forward_cache(self, value: Any) -> None:
        self.__dict__["_forward_cache"] = value

    def _append(self, batch: Mapping[str, Tensor]) -> None:
        """Store what a batch adds to each state."""
        for name, values in batch.items():
            getattr(self, name).append(values)

    def _held(self) -> dict[str, list[Tensor]]:
        """The states, also while `forward` has put them aside."""
        return self._states_before_forward or self._copy_state_dict()

    def reset(self) -> None:
        """Forget all samples, and what was refused."""
        if self._states_before_forward is None:  # `forward` resets, too
            self._deferred_error, self._told = None, set()
        # The base class empties lists in place, also lists that a collection shares. They are plain attributes;
        # `setattr` of a module would look for them among parameters first.
        vars(self).update({name: [] for name in self._defaults})
        self._processes = None
        super().reset()

    def _copy_state_dict(self) -> dict[str, Any]:
        """The lists themselves: `reset` and sums make new ones. The base class copies all batches at each `forward`."""
        return {name: getattr(self, name) for name in self._defaults}

    @torch.jit.unused
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Append a batch and evaluate it alone; under `dist_sync_on_step` with the batches of the other processes."""
        try:
            return self._forward(*args, **kwargs)
        except Exception:
            if self.dist_sync_on_step and self._deferred_error is not None:
                self._join_step()
            raise

    def _join_step(self) -> None:
        """Compute with the other processes a step that this one refused; they wait for its value."""
        with self.sync_context():
            if self._world.size > 1:
                type(self).compute(self)  # raises on all what was refused

    def _forward(self, *args: Any, **kwargs: Any) -> Any:
        """As in the base class, but a batch that is refused changes nothing."""
        # As in a transaction: states and flags are put back. The base class loses what it holds.
        before = {name: getattr(self, name) for name in _FORWARD_FLAGS}
        self._states_before_forward = {name: [*batches] for name, batches in self._held().items()}
        # Members of a collection share lists, and each of them appends the batch: to a list of its own.
        vars(self).update({name: [*batches] for name, batches in self._states_before_forward.items()})
        try:
            return super().forward(*args, **kwargs)
        except BaseException:
            vars(self).update(before | self._states_before_forward)
            raise
        finally:
            self._states_before_forward = None
            if not self._is_synced:  # the base class forgets a step's synchronization without `unsync`
                self._processes = None

    @property
    def update_called(self) -> bool:
        """Whether there may be samples, on any process: one without samples is no mistake to warn of."""
        is_distributed = self.distributed_available_fn
        return super().update_called or (self._to_sync and callable(is_distributed) and bool(is_distributed()))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Take the samples of a checkpoint; the base class appends later batches to the checkpoint's own lists."""
        loaded = [name for name in self._defaults if prefix + name in state_dict]
        super()._load_from_state_dict(state_dict, prefix, *args)
        for name in loaded:
            setattr(self, name, list(getattr(self, name)))
            self._computed = None
            self._update_count = max(self._update_count, len(getattr(self, name)))

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Add another metric's samples behind its own; the base class puts them before, and keeps its value."""
        batches_before = self._copy_state_dict()
        super().merge_state(incoming_state)
        # The base class has put the other's batches first, and its own behind them.
        for name, batches in batches_before.items():
            merged = getattr(self, name)
            setattr(self, name, [*batches, *merged[: len(merged) - len(batches)]])
        self._computed = None
        if isinstance(incoming_state, GrowingStates):
            self._deferred_error = self._deferred_error or incoming_state._deferred_error  # noqa: SLF001

    def _move_list_states_to_cpu(self) -> None:
        """Move what the last batches added; the base class walks over all batches at each update."""
        for batches in (getattr(self, name) for name in self._defaults):
            # In front of the last batch that was moved before all were.
            new = [*takewhile(lambda batch: batch.device.type != "cpu", reversed(batches))]
            batches[len(batches) - len(new) :] = [batch.cpu() for batch in reversed(new)]

    def _apply(self, fn: Callable[[Tensor], Tensor], exclude_state: Sequence[str] = ()) -> torch.nn.Module:
        """Move or cast the states, but integers and states of float64 are never cast; `compute_on_cpu` keeps all there.

        Lightning calls `.to(device)` at every `log`: where nothing would change, no batch is visited.
        """
        fn = _of_floats(fn)
        if self.compute_on_cpu or not self._would_change(fn):
            return super()._apply(fn, exclude_state=tuple(self._defaults))
        exact = [name for name, empty in self._empty_states.items() if empty.dtype == torch.float64]
        before = {name: getattr(self, name) for name in exact if name not in exclude_state}
        result = super()._apply(fn, exclude_state=exclude_state)
        for name, batches in before.items():
            moved = zip(batches, getattr(self, name), strict=True)
            setattr(self, name, [batch.to(cast.device) for batch, cast in moved])
        return result

    def _would_change(self, fn: Callable[[Tensor], Tensor]) -> bool:
        # All batches of a state went the same way, so the first and the last tell what the others are.
        states = [getattr(self, name) for name in self._defaults]
        kinds = {(batch.dtype, batch.device) for batches in states for batch in (*batches[:1], *batches[-1:])}
        probes = (torch.empty(0, dtype=dtype, device=device) for dtype, device in kinds)
        return any((new.dtype, new.device) != kind for new, kind in zip(map(fn, probes), kinds, strict=True))

    def _sync_dist(self, dist_sync_fn: Any = None, process_group: Any = None) -> None:
        """Remember who shares the samples; only a user's own `dist_sync_fn` gathers them."""
        process_group = process_group or self.process_group
        gathered = {}
        if self.dist_sync_fn is None and dist_sync_fn in (None, gather_all_tensors):
            device = torch.device("cpu") if self.compute_on_cpu else self.device
            world = DistributedWorld(process_group, device, self._warning_log())
            self._processes = world if world.size > 1 else None
        else:
            gathered = {name: dist_sync_fn(self._whole(name), group=process_group) for name in self._defaults}
        # A user's function may give one tensor, or one for each process, some of them empty.
        for name, parts in gathered.items():
            listed = [parts] if isinstance(parts, Tensor) else parts
            setattr(self, name, [part for part in listed if len(part)])

    def _whole(self, name: str) -> Tensor:
        """A state as one tensor, also if there is nothing in it: every process must have something to gather."""
        batches, empty = getattr(self, name), self._empty_states[name]
        whole = torch.cat(batches) if batches else empty.to(compute_device(self.device))
        # A process may hold narrower integers; a matrix of labels is one of bools.
        return whole.long() if empty.dtype == torch.int64 and whole.dtype != torch.bool else whole

    def unsync(self, should_unsync: bool = True) -> None:  # noqa: FBT002 - the base class's signature
        """Undo `sync`; the lists are the same as before, so a collection's members keep sharing them."""
        super().unsync(should_unsync)
        if should_unsync:
            self._processes = None

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot one value, or several over time; see `torchmetrics.Metric`. Needs matplotlib."""
        require("A figure", "matplotlib")
        return self._plot(val, ax)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the processes: they cannot be pickled or copied."""
        return super().__getstate__() | {"_processes": None}

    __hash__ = torch.nn.Module.__hash__  # the base class hashes every batch


def _copied(error: Exception) -> Exception:
    """The same error without its traceback: that would keep the batch alive."""
    try:
        return copy.copy(error).with_traceback(None)
    except Exception:  # noqa: BLE001 - an exception with arguments of its own may not be copied
        return RuntimeError(f"{type(error).__name__}: {error}")


def _of_floats(fn: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A function for floating point tensors; integers, and float64 where the device has none, are only moved."""

    def apply(values: Tensor) -> Tensor:
        if values.is_floating_point() and values.dtype != torch.float64:
            return fn(values)
        device = fn(torch.empty(0, device=values.device)).device
        if values.dtype == torch.float64:
            return values.to(compute_device(device)) if lacks_float64(device) else fn(values)
        return values.to(device)

    apply.__qualname__ = str(fn)  # the base class recognizes casts by it
    return apply


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
