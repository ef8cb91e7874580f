"""The warnings and the advice that a call gives."""

import warnings
from collections.abc import Callable

from reid_torchmetrics import AdviceWarning


def warned_by(call: Callable[[], object], category: type[Warning] = Warning) -> list[str]:
    """The warnings that are given during a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(warning.message) for warning in caught if issubclass(warning.category, category)]


def told_by(call: Callable[[], object]) -> list[str]:
    """The advice that is given during a call."""
    return warned_by(call, AdviceWarning)
