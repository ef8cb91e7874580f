"""One call of a kernel, as those look at it who refuse it or count it."""

from functools import cached_property
from typing import Any

import torch

COPIES = ("copy_", "_to_copy")
INDEXED = ("index", "index_put", "index_put_", "_index_put_impl_")


def is_simulated(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "sim"


def tensors_in(values: Any) -> list[torch.Tensor]:
    """The tensors among some values, and in lists among them."""
    nested = [value if isinstance(value, (list, tuple)) else [value] for value in values]
    return [each for part in nested for each in part if isinstance(each, torch.Tensor)]


class Call:
    """A kernel and its arguments."""

    def __init__(self, operator: torch._ops.OpOverload, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        self.operator, self.args, self.options = operator, args, options
        self.name = operator._schema.name.partition("::")[2]
        self.tensors = tensors_in([*args, *options.values()])
        self.here = [each for each in self.tensors if is_simulated(each)]
        self.others = [each for each in self.tensors if not is_simulated(each)]

    @cached_property
    def is_on_device(self) -> bool:
        """Whether what the kernel makes lies on the device."""
        if self.name == "copy_":
            return is_simulated(self.args[0])
        device = self.options.get("device")
        return bool(self.here) if device is None else torch.device(device).type == "sim"

    @property
    def source(self) -> torch.Tensor:
        """What a copy is made of."""
        return self.args[1] if self.name == "copy_" else self.args[0]

    @property
    def indices(self) -> list[torch.Tensor]:
        """What a tensor is indexed with."""
        return tensors_in(self.args[1])

    @property
    def assigned(self) -> torch.Tensor | None:
        """What an indexed tensor is set to."""
        return self.args[2] if "put" in self.name else None

    @cached_property
    def written(self) -> list[Any]:
        """The arguments that the kernel writes to."""
        arguments = self.operator._schema.arguments
        values = [*self.args, *[None] * (len(arguments) - len(self.args))]
        pairs = zip(arguments, values, strict=True)
        return [
            self.options.get(each.name, value) for each, value in pairs if each.alias_info and each.alias_info.is_write
        ]
