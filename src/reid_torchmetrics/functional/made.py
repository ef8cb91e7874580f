"""The one call of the engine to the tool that looks at results when they have been made.

    numbers --> results_made(results, samples, world) --> reid_torchmetrics.diagnosis, if it is there

No number depends on it.
"""

from __future__ import annotations

from typing import Any

from reid_torchmetrics import _extras

from .world import ALONE, World


def results_made(results: Any, samples: Any, world: World = ALONE) -> None:
    """Let the first process look at results, and at what they were computed from; all processes must call.

    An error there, such as a warning that the user turned into one, is raised on all processes.
    """

    def look() -> None:
        if world.process == 0 and _extras.diagnosis is not None:
            _extras.diagnosis().look(results, samples, world.warning_log)

    world.guarded(look)
