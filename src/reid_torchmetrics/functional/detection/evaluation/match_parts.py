"""Parts that tasks compute from the objects of images beside their matches, and that results and their files hold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from reid_torchmetrics._registries import Registry


class MatchPart(ABC):
    """Values that a task needs of the objects of all images; a dataclass of tensors and numbers.

    Each process computes its part, sends it as a list of tensors, and merges the parts of all processes.
    """

    @classmethod
    @abstractmethod
    def of_matches(
        cls, request: Any, detections: Any, ground_truths: Any, matches: Any, is_difficult: Tensor | None
    ) -> Any:
        """Compute the part of this process, see `MatchRequest.run`."""

    @abstractmethod
    def to_tensors(self) -> list[Tensor]:
        """Return the tensors that the other processes need."""

    @classmethod
    @abstractmethod
    def from_tensors(cls, tensors: Sequence[Tensor]) -> Any:
        """Make the part from the result of `to_tensors`."""

    @classmethod
    @abstractmethod
    def merge(cls, parts: Sequence[Any]) -> Any:
        """Merge the parts of all processes; no image is in two parts."""

    @abstractmethod
    def check(self) -> Mapping[str, Tensor]:
        """Raise unless a part from a file can be used, and return its columns with numbers of images, by name."""


def check_fractions(name: str, values: Tensor) -> None:
    """Raise unless all values are in [0, 1], except for rounding."""
    if not bool(((values >= 0) & (values <= 1 + 1e-9)).all()):
        raise ValueError(f"`{name}` must lie in [0, 1]; got {values.min()} to {values.max()}.")


MATCH_PARTS: Registry[type[MatchPart]] = Registry("MATCH_PARTS", {})
"""the classes of parts by the name of the option that asks for them"""
SAVED_PARTS: Registry[type[MatchPart]] = Registry("SAVED_PARTS", {})
"""the same classes by the names that files of results have for them"""
