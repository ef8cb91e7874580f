"""The functional layer: torch and arithmetic only, no state, no process groups."""

from reid_torchmetrics import _extras

globals()["__getattr__"] = _extras.names_elsewhere(__name__)
