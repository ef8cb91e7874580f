"""The functional layer: torch and arithmetic only, no state, no process groups."""

from reid_torchmetrics import _signatures

_signatures.tell_hints(globals())
