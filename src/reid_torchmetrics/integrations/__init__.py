"""Pictures for loggers, a Lightning callback that logs them, and a back end for RF-DETR."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from reid_torchmetrics import _extras

from .pictures import log_picture, register_logger

if TYPE_CHECKING:
    from .evaluation_pictures import EvaluationPictures
    from .rf_detr import register_rf_detr

__all__ = ["EvaluationPictures", "log_picture", "register_logger", "register_rf_detr"]

_MODULES = {"EvaluationPictures": "evaluation_pictures", "register_rf_detr": "rf_detr"}


def __getattr__(name: str) -> Any:
    """Import the callback (with Lightning) or the back end on first access."""
    if name not in _MODULES:
        raise _extras.no_attribute(__name__, name)
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
