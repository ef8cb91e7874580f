"""What the package hands to its surroundings: pictures to loggers."""

from reid_torchmetrics.integrations.pictures import log_picture

__all__ = ["log_picture"]
