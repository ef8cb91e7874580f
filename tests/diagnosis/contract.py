"""The advice that a call gives."""

import warnings
from collections.abc import Callable

from reid_torchmetrics import AdviceWarning


def told_by(call: Callable[[], object]) -> list[str]:
    """The advice that is given during a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(warning.message) for warning in caught if warning.category is AdviceWarning]
