"""Pages of HTML about results; Matplotlib and Pillow are imported when a page is written."""

from reid_torchmetrics import _extras

from .write import write_report

__all__ = ["write_report"]

globals()["__getattr__"] = _extras.names_elsewhere(__name__)
