"""A second device in the memory of the CPU, `sim`: it refuses what CUDA refuses, and counts what waits for CUDA.

In a second mode, `has_float64` is False, it has no float64, as MPS and some GPUs of Intel.

Its tensors are wrappers of PyTorch's device for the backends of others (PrivateUse1), whose kernels are in Python: one
fallback runs every kernel on the tensors of the CPU that are behind the wrappers. Not simulated are the order in which
sums are taken, reduced precision, streams, memory, and kernels that CUDA lacks but for those in `refusals.py`.
"""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils import backend_registration

from reid_torchmetrics.functional.retrieval.scores import products
from tests.device import refusals, waiting
from tests.device.calls import Call, is_simulated

MISSING = None if hasattr(backend_registration, "_setup_privateuseone_for_python_backend") else "no devices in Python"
"""what this PyTorch lacks for it, if so: the interface is an experiment of PyTorch's"""

has_float64 = True
"""the mode"""

_SMALL = products.BlockShape(16, 16, few=16, columns=48, lanes=48, bytes_added=1 << 60, part=0)
_ATEN = torch.ops.aten
_libraries: list[torch.library.Library] = []
_generator = torch.Generator().manual_seed(0)


class SimulatedTensor(torch.Tensor):
    """A wrapper; `raw` is its data. Memory, and whatever is read without a kernel, is the data's."""

    raw: torch.Tensor
    is_host_number = False
    """whether it is a number that CUDA would keep on the host"""

    __torch_function__ = torch._C._disabled_torch_function_impl

    def data_ptr(self) -> int:
        return self.raw.data_ptr()

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.raw.untyped_storage()

    @property
    def data(self) -> torch.Tensor:
        """The same memory, of which a change is not counted."""
        return _wrapped(self.raw)

    def __repr__(self, **_: Any) -> str:
        return f"simulated {self.raw!r}"

    def __format__(self, spec: str) -> str:
        return format(self.item() if self.ndim == 0 else repr(self), spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        return memo.setdefault(id(self), _wrapped(self.raw.clone()))

    def numpy(self, *_: Any, **__: Any) -> None:
        raise TypeError("can't convert sim:0 device type tensor to numpy. Use Tensor.cpu() first.")

    __array__ = numpy


class _Module:
    """What PyTorch asks a device's module for."""

    is_available = is_initialized = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 1)
    current_device = staticmethod(lambda: 0)
    _is_in_bad_fork = staticmethod(lambda: False)
    get_device_properties = staticmethod(lambda device=None: SimpleNamespace(has_fp64=has_float64))
    manual_seed_all = staticmethod(lambda seed: None)
    get_amp_supported_dtype = staticmethod(lambda: [torch.float16, torch.bfloat16])


def install(*, shape: products.BlockShape | None = _SMALL) -> None:
    """Make the device, once a process, which keeps it; `shape` is of its products, None that of a GPU."""
    if shape is not None:
        products._SHAPES["sim"] = shape
    if _libraries:
        return
    backend_registration._setup_privateuseone_for_python_backend("sim", backend_module=_Module())
    every, single = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    _libraries.extend([every, single])
    every.fallback(_run, "PrivateUse1")
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("aten::") and _is_put_together(name):
            single.impl(name.removeprefix("aten::"), _kernel(name), "PrivateUse1")
    # As a view of the wrapper, which has no data, it would be empty.
    single.impl("view.dtype", lambda *args: _run(_ATEN.view.dtype, *args), "AutogradPrivateUse1")


def _is_put_together(name: str) -> bool:
    """Whether a kernel is made of others in C++, which would write to the wrappers."""
    if "backward" in name or name.startswith("aten::quantile.out"):
        return False
    kinds = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
    is_quantile = name.startswith("aten::quantile") and not name.endswith("out")
    return is_quantile or any(torch._C._dispatch_has_kernel_for_dispatch_key(name, kind) for kind in kinds)


def _kernel(name: str) -> Any:
    packet, _, overload = name.removeprefix("aten::").partition(".")
    operator = getattr(getattr(_ATEN, packet), overload or "default")
    return lambda *args, **options: _run(operator, *args, **options)


def _run(operator: torch._ops.OpOverload, *args: Any, **options: Any) -> Any:
    """Run a kernel on what is behind the wrappers, and wrap what comes."""
    if operator is _ATEN._copy_from.default:
        operator, args = _ATEN.copy_.default, (args[1], args[0], *args[2:])
    call = Call(operator, args, options)
    refusals.check(call)
    waiting.record(call)
    plain = {name: _raw(value) for name, value in options.items()}
    if call.is_on_device and "device" in plain:
        plain["device"] = torch.device("cpu")
    with torch._C._AutoDispatchBelowAutograd():
        run = _in_any_order if call.name in ("sort", "topk") and not options.get("stable") else operator
        found = run(*([operator] if run is _in_any_order else []), *map(_raw, args), **plain)
    return _returned(call, found)


def _in_any_order(operator: torch._ops.OpOverload, values: torch.Tensor, *args: Any, **options: Any) -> Any:
    """Sort values that were shuffled before, so that equal ones are in any order."""
    named = dict(zip([each.name for each in operator._schema.arguments[1:]], args, strict=False)) | options
    dim = named.get("dim", -1)
    if not values.ndim:
        return operator(values, *args, **options)
    shuffled = torch.randperm(values.shape[dim], generator=_generator)
    found, order = operator(values.index_select(dim, shuffled), *args, **options)
    return found, shuffled[order]


def _returned(call: Call, found: Any) -> Any:
    """What a kernel returns: its own arguments where it has written to them."""
    written = call.written
    if written and call.operator._schema.returns:
        return written[0] if isinstance(found, torch.Tensor) else tuple(written)
    if not call.is_on_device:
        return found
    if isinstance(found, torch.Tensor):
        wrapper = _wrapped(found)
        wrapper.is_host_number = call.name == "scalar_tensor"
        return wrapper
    if isinstance(found, (list, tuple)):
        parts = [_wrapped(each) if isinstance(each, torch.Tensor) else each for each in found]
        return parts if len(call.operator._schema.returns) == 1 else tuple(parts)
    return found


def _wrapped(raw: torch.Tensor) -> torch.Tensor:
    refusals.check_dtype(raw.dtype, has_float64=has_float64)
    size = raw.untyped_storage().nbytes() // max(raw.element_size(), 1)
    base = torch._C._acc.create_empty_tensor([size], raw.dtype)
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.Meta)
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)):
        layout = (raw.size(), raw.stride(), raw.storage_offset())
        wrapper = _ATEN.as_strided.default.redispatch(keys, base, *layout)
    wrapper.__class__, wrapper.raw = SimulatedTensor, raw
    return wrapper


def _raw(value: Any) -> Any:
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_raw(each) for each in value]
    return value.raw if is_simulated(value) else value
