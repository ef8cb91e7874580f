"""What CUDA refuses, and in the second mode MPS, and so does the simulated device."""

import torch

from tests.device.calls import COPIES, INDEXED, Call, is_simulated

_PRODUCTS = ("mm", "bmm", "mv", "dot", "addmm", "addmm_", "baddbmm")
_SORTS = ("sort", "argsort", "topk", "kthvalue", "msort")


def check(call: Call) -> None:
    """Raise where CUDA does, or would move a tensor of the CPU to the device by itself."""
    generator = call.options.get("generator")
    if generator is not None and call.is_on_device and generator.device.type == "cpu":
        raise RuntimeError("Expected a 'sim' device type for generator but found 'cpu'")
    if not call.here:
        return
    _check_kernel(call)
    if call.others and call.name not in COPIES and not _are_scalars(call):
        raise RuntimeError(f"{call.operator}: Expected all tensors to be on the same device, but found sim:0 and cpu")


def check_dtype(dtype: torch.dtype, *, has_float64: bool) -> None:
    """Raise, in the words of MPS, for a tensor of float64 on a device that has none."""
    if dtype in (torch.float64, torch.complex128) and not has_float64:
        raise TypeError(
            "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64."
            " Please use float32 instead."
        )


def _check_kernel(call: Call) -> None:
    dtype = call.here[0].dtype
    if call.name in _PRODUCTS and not dtype.is_floating_point:
        raise RuntimeError(f'"{call.name}" not implemented for {dtype}')
    if call.name in _SORTS and dtype == torch.bool:
        raise RuntimeError(f'"{call.name}" not implemented for {dtype}')
    if torch.are_deterministic_algorithms_enabled() and _has_random_order(call, dtype):
        raise RuntimeError(f"{call.name}_cuda_kernel does not have a deterministic implementation")


def _has_random_order(call: Call, dtype: torch.dtype) -> bool:
    """Whether CUDA adds up in an order that it does not know before."""
    if call.name in ("cumsum", "cumsum_", "histc"):
        return dtype.is_floating_point
    if call.name == "bincount":
        return len(call.here) > 1
    return call.name in ("kthvalue", "put_") or (call.name == "median" and len(call.operator._schema.returns) > 1)


def _are_scalars(call: Call) -> bool:
    """Whether what lies on the CPU is a number, which CUDA takes along; never what is written to.

    CUDA also takes indices from the CPU, which waits for a copy: this device does not.
    """
    is_allowed = torch.Tag.pointwise in call.operator.tags or "fill" in call.name or call.name in INDEXED
    own = call.args[0] if call.args else None
    is_written = call.name.endswith("_") or call.name in INDEXED
    return is_allowed and all(each.ndim == 0 for each in call.others) and (is_simulated(own) or not is_written)
