"""The calls of the engine to the tool that says why a number is probably not what the user meant.

    images  --> images_given(record, batch)            --> reid_torchmetrics.diagnosis, if it is there
    samples --> samples_shared(samples, world)         --> the same
    numbers --> results_made(results, samples, world)  --> the same

No number depends on it. All processes must call the last two, and an error there, such as a warning that the user
turned into one, is raised on all of them.
"""

from __future__ import annotations

from typing import Any

from reid_torchmetrics import _extras

from .world import ALONE, World


def samples_shared(samples: Any, world: World) -> Any:
    """Compare the samples of all processes before they are ranked; return what was found, for `results_made`."""
    if _extras.diagnosis is None:
        return None
    return _extras.diagnosis().compare(samples, world)


def results_made(results: Any, samples: Any, world: World = ALONE) -> None:
    """Look at results, and at what they were computed from, and let the first process warn."""
    if _extras.diagnosis is not None:
        _extras.diagnosis().look(results, samples, world)


def images_given(record: dict[str, Any], batch: Any) -> None:
    """Let the tool note in a record what it needs of a batch of images, beyond what numbers need."""
    if _extras.diagnosis is not None:
        _extras.diagnosis().note_images(record, batch)
