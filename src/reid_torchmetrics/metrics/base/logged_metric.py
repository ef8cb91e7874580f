"""A metric that refuses to be given to `self.log` of a LightningModule where its value is not one number."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from torchmetrics import Metric


class LoggedMetric(Metric):
    """A metric that says what to log in its place.

    Lightning takes any metric, and learns when it computes the value that it cannot log a dict; a curve passes even the
    sanity check. What it does at once is to read what `forward` gave last. The base class keeps that as a plain
    attribute; here it is a property on top of the same entry of `__dict__`, so pickles and copies are what they were.
    """

    __jit_unused_properties__: ClassVar[list[str]] = [*Metric.__jit_unused_properties__, "_forward_cache"]

    def _log_instead(self) -> str | None:
        """What `self.log` takes in the place of this metric; None if it takes the metric."""
        return None

    @property
    def _forward_cache(self) -> Any:
        instead = self._log_instead()
        if instead is not None and _is_lightning(inspect.currentframe()):
            raise TypeError(
                f"`value` of `self.log` must be a metric of one number; got {type(self).__name__}: log `{instead}`."
            )
        return self.__dict__.get("_forward_cache")

    @_forward_cache.setter
    def _forward_cache(self, value: Any) -> None:
        self.__dict__["_forward_cache"] = value


def _is_lightning(frame: Any) -> bool:
    """Whether the caller of a function, whose frame is given, is Lightning under one of its two names."""
    reader = None if frame is None else frame.f_back
    name = "" if reader is None else reader.f_globals.get("__name__", "")
    return name.partition(".")[0] in {"lightning", "pytorch_lightning"}
