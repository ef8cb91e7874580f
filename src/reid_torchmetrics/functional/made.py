"""The calls of the engine to the tool that looks at results when they have been made.

    numbers --> results_made(results, samples, world) --> reid_torchmetrics.diagnosis, if it is there
    images  --> images_given(record, batch)

No number depends on it.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import torch

from reid_torchmetrics import _extras

from . import workers
from .world import ALONE, World

_CPU = torch.device("cpu")


def results_made(results: Any, samples: Any, world: World = ALONE) -> None:
    """Look at results, and at what they were computed from, and let the first process warn; all processes must call.

    An error there, such as a warning that the user turned into one, is raised on all processes.
    """

    def look() -> tuple[list[Any], list[int]]:
        if _extras.diagnosis is None:
            return [], [0]
        work = partial(_extras.diagnosis().look, results, samples, world)
        findings = workers.run(work, _CPU, inside=getattr(samples, "keeps_thread", True))
        return findings, [len(findings)]

    findings, table = world.guarded_all_gather(look)
    numbers = [number for (number,) in table]
    if any(numbers[1:]):  # on all processes alike
        findings = [finding for text in world.texts(json.dumps(findings)) for finding in json.loads(text)]
    if any(numbers):
        world.guarded(lambda: _warn(findings, world))


def images_given(record: dict[str, Any], batch: Any) -> None:
    """Let the tool note in a record what it needs of a batch of images, beyond what numbers need."""
    if _extras.diagnosis is not None:
        _extras.diagnosis().note_images(record, batch)


def _warn(findings: list[Any], world: World) -> None:
    """Warn of what was found, on the first process."""
    if world.process == 0 and _extras.diagnosis is not None:
        _extras.diagnosis().warn_of(findings, world.warning_log)
