"""Counts where the host would wait for CUDA: what it reads there, and what it sends without a buffer for that."""

import collections
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

import reid_torchmetrics
from tests.device.calls import COPIES, INDEXED, Call, is_simulated

_READS = {  # kernels that read a size or a value on the host
    *("nonzero", "masked_select", "_local_scalar_dense", "equal"),
    *("_unique", "_unique2", "unique_dim", "unique_consecutive"),
}
_IS_WAIT = "called a synchronizing CUDA operation"  # a first use of the mode has a warning of its own
_SOURCE = str(Path(reid_torchmetrics.__file__).parent)
_waits: collections.Counter[str] = collections.Counter()
_kernels: collections.Counter[str] = collections.Counter()


class Counts(NamedTuple):
    """What happened on the device."""

    waits: collections.Counter[str]
    """how often the host waited, by what for and where"""
    kernels: collections.Counter[str]
    """how often each kernel ran; views are none"""


def counted(work: Callable[[], object]) -> Counts:
    """Do some work on the simulated device, and count."""
    _waits.clear()
    _kernels.clear()
    work()
    return Counts(_waits.copy(), _kernels.copy())


def waits_of(device: str, work: Callable[[], object]) -> collections.Counter[str]:
    """How often the host waits for a device during some work, and where; on a GPU as PyTorch says it."""
    if device == "sim":
        return counted(work).waits
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            work()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    places = [f"{each.filename}:{each.lineno}" for each in said if _IS_WAIT in str(each.message)]
    return collections.Counter(places)


def record(call: Call) -> None:
    """Note where the host waits."""
    if not call.operator.is_view:
        _kernels[call.name] += 1
    if call.name in COPIES:
        _record_copy(call)
    elif not call.is_on_device and not call.here:
        return
    elif call.name in _READS or (call.name == "repeat_interleave" and call.options.get("output_size") is None):
        _wait(call.name)
    elif call.name == "bincount":
        _wait("bincount")  # for the least value
        _wait("bincount")  # for the largest one
    elif call.name == "isin" and call.args[1].numel() >= 10 * max(call.args[0].numel(), 1) ** 0.145:
        _wait(call.name)  # sorts, to find what is distinct
    elif call.name in INDEXED:
        _record_index(call)


def _record_copy(call: Call) -> None:
    is_later = call.options.get("non_blocking") or (call.name == "copy_" and len(call.args) > 2 and call.args[2])
    is_moved = is_simulated(call.source) != call.is_on_device
    if is_moved and call.source.numel() and not (is_later and call.is_on_device):
        _wait("copy")


def _record_index(call: Call) -> None:
    masks = [each for each in call.indices if each.dtype in (torch.bool, torch.uint8)]
    assigned = call.assigned
    is_number = assigned is not None and assigned.ndim == 0 and _is_on_host(assigned)
    if is_number and len(masks) < len(call.indices):
        _wait("a number to the device")
    if not (is_number and len(masks) == len(call.indices)):  # else it fills where the mask says, without reading it
        for _ in masks:
            _wait("bool mask")


def _is_on_host(number: torch.Tensor) -> bool:
    return not is_simulated(number) or number.is_host_number


def _wait(what: str) -> None:
    frame = sys._getframe(2)
    while frame.f_back is not None and not frame.f_code.co_filename.startswith(_SOURCE):
        frame = frame.f_back
    place = frame.f_code.co_filename.removeprefix(f"{_SOURCE}/")
    _waits[f"{what} at {place}:{frame.f_lineno}"] += 1
