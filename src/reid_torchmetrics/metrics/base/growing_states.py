"""Adapts `torchmetrics.Metric` to states that are long lists of batches.

The base class copies list states for every `forward`, and visits every batch in `.to`; both cost more the longer the
epoch is. Here no step depends on the number of batches. All processes agree on how `compute` ends: with a value, or
with an error. The hooks below were tried with torchmetrics 1.6 and 1.9.
"""

from __future__ import annotations

import copy
import sys
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
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
from reid_torchmetrics.functional.world import ALONE, Alone, WarningLog, World, concluding

from .process_group import DistributedWorld

_FORWARD_FLAGS = (
    "_update_count",
    "_computed",
    "_to_sync",
    "_should_unsync",
    "_enable_grad",
    "_is_synced",
    "_cache",
    "compute_on_cpu",
)
"""attributes that `forward` of the base class changes"""
_NOT_SCRIPTED = ("update_called", "_world", "_forward_cache")
_topics_by_batch: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""topics of warnings by the first batch that they are about"""
_last_copy: list[Any] = [lambda: None, 0, lambda: None]
"""the last batch as a weak reference, its version (how often it was written to), and a weak reference to its copy"""
_PLAIN_TYPES = {list, int, bool, str, dict, set, type(None)}
"""types that are recognized without `isinstance`, which asks a metaclass of torch"""


class GrowingStates(Metric):
    """A metric with states that are lists of tensors; `update` appends to them.

    Subclasses add states by `_add_growing_states`. Syncing does not gather the states; instead `compute` exchanges what
    it needs between the processes of `_world`. An error of one process is raised on all processes, in `compute` and
    wherever the metric is synced.
    """

    __jit_unused_properties__: ClassVar[list[str]] = [*Metric.__jit_unused_properties__, *_NOT_SCRIPTED]

    is_differentiable = False
    full_state_update = False
    plot_lower_bound = 0.0
    plot_upper_bound: float | None = 1.0

    _processes: DistributedWorld | None = None
    """the processes that share the samples, while the metric is synced; None for one process"""
    _identity_state = ""
    """name of a state with tensors that only metrics of one compute group share"""
    _states_before_forward: dict[str, list[Tensor]] | None = None
    """the states of the metric while `forward` evaluates a batch alone; None outside `forward`"""
    _deferred_error: Exception | None = None
    """the error by which `update` refused a batch, on this process only; `compute` raises it on all processes"""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Leave the properties of a subclass out of scripts, which take only a part of Python."""
        super().__init_subclass__(**kwargs)
        properties = [name for name, value in vars(cls).items() if isinstance(value, property)]
        cls.__jit_unused_properties__ = [*cls.__jit_unused_properties__, *properties]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._empty_states: dict[str, Tensor] = {}
        self._warned: set[str] = set()
        self._add_growing_states({"_update_key": torch.empty((0, 0), dtype=torch.bool, device="cpu")})

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute as the base class does, but set plain values without a search for modules.

        The search takes most of the time of a constructor and of a collection's `update`.
        """
        attributes = self.__dict__
        is_plain = type(value) in _PLAIN_TYPES or not isinstance(value, (Tensor, torch.nn.Module))
        if is_plain and (name in attributes or not (hasattr(type(self), name) or self._is_registered(name))):
            attributes[name] = value
        else:
            super().__setattr__(name, value)

    def _is_registered(self, name: str) -> bool:
        """Return whether an attribute is a module, parameter or buffer, or the registries of these do not exist yet."""
        for registry in ("_modules", "_parameters", "_buffers"):
            if name in self.__dict__.get(registry, (name,)):
                return True
        return False

    def _add_growing_states(self, empty: Mapping[str, Tensor]) -> None:
        """Add states; `empty` has a tensor without rows for each, with the dtype and axes of its batches."""
        # The same as `add_state` in a fifth of the time, because it copies each default.
        vars(self).update({name: [] for name in empty})
        self._defaults.update({name: [] for name in empty})
        self._persistent.update(dict.fromkeys(empty, False))
        self._reductions.update(dict.fromkeys(empty, dim_zero_cat))
        self._empty_states.update(empty)

    @contextmanager
    def sync_context(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        """Sync as the base class does; an exception inside is raised on all processes, and the metric is unsynced."""
        try:
            # Steps after `compute` may fail as well, such as copying the value. Then no process may cache the value.
            with super().sync_context(*args, **kwargs), concluding(self._processes or ALONE):
                yield
        except BaseException:
            if self._is_synced:
                self.unsync()
            raise

    def _synced(self) -> AbstractContextManager[None]:
        """Sync inside a `with` statement, under the same conditions as `compute`."""
        is_unsynced = not self._is_synced
        return self.sync_context(
            dist_sync_fn=self.dist_sync_fn,
            should_sync=self._to_sync and is_unsynced,
            should_unsync=is_unsynced,
        )

    @property
    def _world(self) -> World:
        return self._processes or Alone(self._warning_log())

    def _warning_log(self) -> WarningLog:
        """Return the topics that this metric has warned about since `reset`.

        The metrics of a compute group share their batches, and therefore their topics.
        """
        if self._identity_state:
            states = self._states_before_forward or vars(self)
            batches = states[self._identity_state]
            if batches:
                return WarningLog(_topics_by_batch.setdefault(batches[0], self._warned))
        return WarningLog(self._warned)

    def _warn(self, topic: str, text: str) -> None:
        """Warn about a batch on process 0."""
        rank_zero_only(self._warning_log().warn_once)(topic, text)

    @contextmanager
    def _deferring_errors(self) -> Iterator[None]:
        """Remember an error by which `update` refuses a batch."""
        try:
            yield
        except Exception as error:
            self._deferred_error = _without_traceback(error)
            raise

    def _raise_deferred_error(self) -> None:
        """Raise the error by which `update` refused a batch, once, on all processes."""
        error = self._deferred_error
        if error is None or self._world.size == 1:  # on a single process `update` has raised it
            return
        self._deferred_error = None
        raise error

    def _log_instead(self) -> str | None:
        """Return code that `self.log` accepts in place of this metric; None if it accepts the metric."""
        return None

    @property
    def _forward_cache(self) -> Any:
        """Value of the last `forward`; Lightning reads it as soon as the metric is passed to `self.log`."""
        reader = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0]  # noqa: SLF001
        if reader in {"lightning", "pytorch_lightning"}:
            code = self._log_instead()
            if code is not None:
                name = type(self).__name__
                raise TypeError(f"`value` of `self.log` must be a metric of one number; got {name}: log `{code}`.")
        return self.__dict__.get("_forward_cache")  # where the base class has it, for pickles and copies

    @_forward_cache.setter
    def _forward_cache(self, value: Any) -> None:
        self.__dict__["_forward_cache"] = value

    def _update_options(self) -> tuple[object, ...]:
        """Return the options by which `update` refuses, changes or drops values."""
        return ()

    def _append(self, batch: Mapping[str, Tensor]) -> None:
        """Append the values of a batch to each state.

        A `MetricCollection` compares the states after the first batch, and updates only one of the metrics with equal
        states. Metrics whose options may treat a later batch differently must not be equal, so the shape of the state
        `_update_key` stands for these options. It has no values.
        """
        for name, values in batch.items():
            getattr(self, name).append(values)
        if not vars(self)["_update_key"]:
            first = next(iter(batch.values()), None)
            device = self.device if first is None else first.device
            number = zlib.crc32(repr(self._update_options()).encode())
            vars(self)["_update_key"].append(torch.empty((number, 0), dtype=torch.bool, device=device))

    def _current_states(self) -> dict[str, list[Tensor]]:
        """Return the states, also while `forward` evaluates a batch alone."""
        return self._states_before_forward or self._copy_state_dict()

    def reset(self) -> None:
        """Forget all samples, warnings and refused batches."""
        if self._states_before_forward is None:  # not a reset by `forward`
            self._deferred_error = None
            self._warned = set()
        # The base class empties lists in place, even lists that other metrics of a collection share.
        vars(self).update({name: [] for name in self._defaults})
        self._processes = None
        super().reset()

    def _copy_state_dict(self) -> dict[str, Any]:
        """Return the lists themselves, as `reset` makes new lists; the base class copies them at each `forward`."""
        return {name: getattr(self, name) for name in self._defaults}

    @torch.jit.unused
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Append a batch and evaluate it alone; `dist_sync_on_step` includes the batches of the other processes."""
        try:
            return self._forward(*args, **kwargs)
        except Exception:
            if self.dist_sync_on_step and self._deferred_error is not None:
                self._join_step()
            raise

    def _join_step(self) -> None:
        """Take part in a step after this process refused its batch, because the other processes wait for it."""
        with self.sync_context():
            if self._world.size > 1:
                type(self).compute(self)  # raises the deferred error on all processes

    def _forward(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate a batch as the base class does; a batch that is refused changes nothing.

        The base class loses its states when `update` or `compute` raises an error; here they are restored.
        """
        flags = {name: getattr(self, name) for name in _FORWARD_FLAGS}
        states = {name: list(batches) for name, batches in self._current_states().items()}
        self._states_before_forward = states
        # Metrics of a collection share lists. Each metric appends the batch to a list of its own.
        vars(self).update({name: list(batches) for name, batches in states.items()})
        try:
            return super().forward(*args, **kwargs)
        except BaseException:
            vars(self).update(flags | states)
            raise
        finally:
            self._states_before_forward = None
            if not self._is_synced:  # the base class ends a step's synchronization without calling `unsync`
                self._processes = None

    @property
    def update_called(self) -> bool:
        """True if any process may have samples; TorchMetrics warns otherwise."""
        if super().update_called:
            return True
        is_distributed = self.distributed_available_fn
        return self._to_sync and callable(is_distributed) and bool(is_distributed())

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Load the samples of a checkpoint into new lists; the base class would append to the checkpoint's lists."""
        loaded = [name for name in self._defaults if prefix + name in state_dict]
        super()._load_from_state_dict(state_dict, prefix, *args)
        for name in loaded:
            setattr(self, name, list(getattr(self, name)))
            self._computed = None
            self._update_count = max(self._update_count, len(getattr(self, name)))

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Append the samples of another metric; the base class prepends them, and keeps the cached value."""
        own_states = self._copy_state_dict()
        super().merge_state(incoming_state)
        for name, own_batches in own_states.items():
            merged = getattr(self, name)  # the batches of the other metric, then the batches of this one
            num_incoming = len(merged) - len(own_batches)
            setattr(self, name, own_batches + merged[:num_incoming])
        self._computed = None
        if isinstance(incoming_state, GrowingStates):
            self._deferred_error = self._deferred_error or incoming_state._deferred_error  # noqa: SLF001

    def _move_list_states_to_cpu(self) -> None:
        """Move the new batches to the CPU; the base class visits all batches at each update."""
        for name in self._defaults:
            batches = getattr(self, name)
            position = len(batches) - 1
            while position >= 0 and batches[position].device.type != "cpu":
                batches[position] = batches[position].cpu()
                position -= 1

    def _apply(self, fn: Callable[[Tensor], Tensor], exclude_state: Sequence[str] = ()) -> torch.nn.Module:
        """Move or cast the states; integers and float64 states are only moved, and `compute_on_cpu` keeps all states.

        Lightning calls `.to(device)` at every `log`. No batch is visited where nothing would change.
        """
        fn = _for_floats_only(fn)
        if self.compute_on_cpu or not self._would_change(fn):
            return super()._apply(fn, exclude_state=tuple(self._defaults))
        exact = [name for name, empty in self._empty_states.items() if empty.dtype == torch.float64]
        states = {name: getattr(self, name) for name in exact if name not in exclude_state}
        result = super()._apply(fn, exclude_state=exclude_state)
        for name, batches in states.items():
            cast_batches = getattr(self, name)
            moved = [batch.to(cast.device) for batch, cast in zip(batches, cast_batches, strict=True)]
            setattr(self, name, moved)
        return result

    def _would_change(self, fn: Callable[[Tensor], Tensor]) -> bool:
        """Return whether `fn` changes the dtype or device of a state.

        All batches of a state were moved together, so the first and the last batch stand for the others.
        """
        kinds = set()
        for name in self._defaults:
            batches = getattr(self, name)
            for batch in (*batches[:1], *batches[-1:]):
                kinds.add((batch.dtype, batch.device))
        for dtype, device in kinds:
            result = fn(torch.empty(0, dtype=dtype, device=device))
            if (result.dtype, result.device) != (dtype, device):
                return True
        return False

    def _sync_dist(self, dist_sync_fn: Any = None, process_group: Any = None) -> None:
        """Remember the processes that share the samples; only a user's own `dist_sync_fn` gathers the states."""
        process_group = process_group or self.process_group
        if self.dist_sync_fn is None and dist_sync_fn in (None, gather_all_tensors):
            device = torch.device("cpu") if self.compute_on_cpu else self.device
            world = DistributedWorld(process_group, device, self._warning_log())
            self._processes = world if world.size > 1 else None
            return
        names = [name for name in self._defaults if name != "_update_key"]  # which has no values
        gathered = {name: dist_sync_fn(self._concatenated(name), group=process_group) for name in names}
        # A user's function may return one tensor, or one for each process, some of them empty.
        for name, result in gathered.items():
            parts = [result] if isinstance(result, Tensor) else result
            setattr(self, name, [part for part in parts if len(part)])

    def _concatenated(self, name: str) -> Tensor:
        """Return a state as one tensor; it has no rows if there are no batches, as every process must send a tensor."""
        batches = getattr(self, name)
        empty = self._empty_states[name]
        if not batches:
            return empty.to(compute_device(self.device))
        values = torch.cat(batches)
        # Processes may hold integers of several dtypes. A matrix of labels has bools.
        if empty.dtype == torch.int64 and values.dtype != torch.bool:
            return values.long()
        return values

    def unsync(self, should_unsync: bool = True) -> None:  # noqa: FBT002 - the base class's signature
        """Undo `sync`; the lists stay the same, so that the metrics of a collection keep sharing them."""
        super().unsync(should_unsync)
        if should_unsync:
            self._processes = None

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot one value, or several over time, by Matplotlib; see `torchmetrics.Metric`."""
        require("A figure", "matplotlib")
        return self._plot(val, ax)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the processes, because they cannot be pickled or copied."""
        return super().__getstate__() | {"_processes": None}

    __hash__ = torch.nn.Module.__hash__  # the base class hashes every batch


def _without_traceback(error: Exception) -> Exception:
    """Return a copy of an error without its traceback, which would keep the batch alive."""
    try:
        return copy.copy(error).with_traceback(None)
    except Exception:  # noqa: BLE001 - an exception with arguments of its own may not be copied
        return RuntimeError(f"{type(error).__name__}: {error}")


def _for_floats_only(fn: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return `fn` for floats of 16 and 32 bits; integers, and float64 where the device has none, are only moved."""

    def apply(values: Tensor) -> Tensor:
        if values.is_floating_point() and values.dtype != torch.float64:
            return fn(values)
        device = fn(torch.empty(0, device=values.device)).device
        if values.dtype != torch.float64:
            return values.to(device)
        if lacks_float64(device):
            return values.to(compute_device(device))
        return fn(values)

    apply.__qualname__ = str(fn)  # the base class recognizes casts by it
    return apply


def shared_copy(values: Tensor) -> Tensor:
    """Return the `detached_copy` of a batch; all metrics that are updated by the same batch get the same copy.

    On a GPU each metric clones a view for itself, because comparing values would wait for the GPU.
    """
    if values.is_inference() or values.device.type != "cpu":  # an inference tensor has no version
        return detached_copy(values)
    get_source, source_version, get_copy = _last_copy
    version = values._version  # noqa: SLF001 - no public name
    last_copy: Tensor | None = get_copy()
    is_last = get_source() is values and source_version == version
    # NumPy writes to memory without changing the version of a tensor.
    if is_last and last_copy is not None and (_share_memory(last_copy, values) or torch.equal(last_copy, values)):
        return last_copy
    new_copy = detached_copy(values)
    _last_copy[:] = weakref.ref(values), version, weakref.ref(new_copy)
    return new_copy


def _share_memory(first: Tensor, second: Tensor) -> bool:
    """Return whether two tensors begin at the same place in memory."""
    return first.data_ptr() == second.data_ptr()


def detached_copy(values: Tensor) -> Tensor:
    """Detach a tensor; a view is cloned, so that it does not keep the whole batch alive."""
    values = values.detach()
    is_view = values.untyped_storage().nbytes() > values.numel() * values.element_size()
    return values.clone() if is_view else values
