"""Small problems, the same things elsewhere, and whether what came of them is the same."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from tests.device import simulated_device
from tests.device.default_device import ElsewhereByDefault

NUM_QUERIES, NUM_GALLERY = 10, 60


def moved(value: Any, device: str) -> Any:
    """Tensors, and mappings and sequences of them, on a device; in float32 where a device has no float64."""
    if isinstance(value, Tensor):
        is_too_wide = value.dtype == torch.float64 and not simulated_device.has_float64
        return value.to(device, torch.float32 if is_too_wide else value.dtype)
    if isinstance(value, dict):
        return {name: moved(each, device) for name, each in value.items()}
    return type(value)(moved(each, device) for each in value) if isinstance(value, (list, tuple)) else value


def problem(*, whole: bool = False) -> list[Tensor]:
    """Embeddings, identities and cameras of queries and gallery; `whole` numbers have equal scores, rounded nowhere."""
    generator, sizes = torch.Generator().manual_seed(0), (NUM_QUERIES, NUM_GALLERY)
    if whole:
        embeddings = [torch.randint(-2, 3, (size, 4), generator=generator).double() for size in sizes]
    else:
        embeddings = [torch.randn(size, 4, generator=generator, dtype=torch.float64) for size in sizes]
    queries, gallery = torch.arange(NUM_QUERIES), torch.arange(NUM_GALLERY)
    return [*embeddings, queries % 5, gallery % 7 - 1, queries % 3, gallery % 4]


def assert_as_on_the_cpu(device: str, work: Callable[[str], Any], *, places: str | None = None) -> None:
    """Work that is told a device gives on this one what it gives on the CPU; its tensors lie there, or at `places`.

    So it does on the CPU where the default device is another one. What a device without float64 is given may lie on
    the CPU then.
    """
    expected = work("cpu")
    assert_same(work(device), expected, places or device)
    if not simulated_device.has_float64:
        return  # the CPU is the same in both modes
    with ElsewhereByDefault():
        assert_same(work("cpu"), expected, "cpu")


def assert_same(found: Any, expected: Any, device: str, path: str = "value") -> None:
    """Whatever there is in `found` equals what is in `expected`, all tensors but for rounding, and lies on a device."""
    if isinstance(expected, Tensor):
        assert isinstance(found, Tensor), path
        is_on_cpu = found.device.type == "cpu" and not simulated_device.has_float64
        assert is_on_cpu or found.device.type == device, path
        assert found.dtype == expected.dtype, path
        torch.testing.assert_close(
            found.cpu(), expected, rtol=0, atol=1e-9, equal_nan=True, msg=lambda text: path + text
        )
        return
    assert type(found) is type(expected), path
    pairs = list(zip(_parts(found), _parts(expected), strict=True))
    for (name, part), (_, other) in pairs:
        assert_same(part, other, device, f"{path}.{name}")
    if isinstance(expected, float):
        assert abs(found - expected) <= 1e-9 or found == expected or found != found, path  # noqa: PLR0124 - NaN
    elif not pairs and not callable(expected):
        assert found == expected, path


def _parts(value: Any) -> list[tuple[Any, Any]]:
    """What a value is made of; what an evaluation was given is no part of its results."""
    if is_dataclass(value):
        names = [field.name for field in fields(value) if field.name != "problem"]
        return [(name, getattr(value, name)) for name in names]
    if isinstance(value, Mapping):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, Sequence) and not isinstance(value, str) else []
