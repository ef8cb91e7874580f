"""What the package hands to its surroundings: pictures to loggers."""

from typing import TYPE_CHECKING, Any

from .pictures import log_picture

if TYPE_CHECKING:
    from reid_torchmetrics.integrations.evaluation_pictures import EvaluationPictures

__all__ = ["EvaluationPictures", "log_picture"]


def __getattr__(name: str) -> Any:
    """Import the callback, and with it Lightning, when it is asked for."""
    if name != "EvaluationPictures":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from reid_torchmetrics.integrations import evaluation_pictures  # noqa: PLC0415 - see above

    return evaluation_pictures.EvaluationPictures
