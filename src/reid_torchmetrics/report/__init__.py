"""Pages of HTML about results; Matplotlib and Pillow are imported when a page is written."""

from reid_torchmetrics import _signatures

from .write import write_report

__all__ = ["write_report"]

_signatures.tell_hints(globals())
