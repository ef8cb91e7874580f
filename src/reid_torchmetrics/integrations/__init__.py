"""Pictures for loggers, and a callback of Lightning that logs them."""

from typing import TYPE_CHECKING, Any

from .pictures import log_picture, register_logger

if TYPE_CHECKING:
    from .evaluation_pictures import EvaluationPictures

__all__ = ["EvaluationPictures", "log_picture", "register_logger"]


def __getattr__(name: str) -> Any:
    """Import the callback, and with it Lightning, when it is asked for."""
    if name != "EvaluationPictures":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import evaluation_pictures  # noqa: PLC0415 - see above

    return evaluation_pictures.EvaluationPictures
