"""A default device that holds nothing, as only the package sees it: tests and TorchMetrics keep theirs."""

import sys
from typing import Any

from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

FACTORIES = frozenset(function.__name__ for function in _device_constructors())
"""functions of torch that make a tensor on the default device where they are told none"""


class ElsewhereByDefault(TorchFunctionMode):
    """Makes tensors for which the package names no device on "meta", as `torch.set_default_device("meta")` does."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, caller = kwargs or {}, sys._getframe(1).f_globals["__name__"]
        names_none = kwargs.get("device") is None and getattr(function, "__name__", None) in FACTORIES
        if names_none and caller.startswith("reid_torchmetrics."):
            kwargs = {**kwargs, "device": "meta"}
        return function(*args, **kwargs)
