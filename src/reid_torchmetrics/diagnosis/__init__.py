"""Say why a number is probably not what the user meant: a registry of causes, which are looked for in finished results.

    results, samples --> case --> suspicions, which are cheap --> trials on a bounded sample --> one warning each
    diagnose         --> case --> all trials                                                 --> a list of answers
    diagnose(expected=56.3)   --> all conventions, see `expected`                   --> an explanation

The engine calls `look` when results have been made, `compare_shards` when processes share samples and `note_images`
when images are given, and knows nothing else of this package. No number depends on it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch

from reid_torchmetrics import _signatures
from reid_torchmetrics._warnings import asking
from reid_torchmetrics.functional import workers
from reid_torchmetrics.functional.world import World

from .answers import Diagnosis as Diagnosis
from .answers import Evaluations as Evaluations
from .answers import collecting as collecting
from .causes import Finding, find_causes, warn_of

if TYPE_CHECKING:
    from .on_demand import diagnose as diagnose

_MODULES = {
    "RankedSamples": "retrieval",
    "EvaluatedImages": "detection",
    "EvaluatedObjects": "detection",
    "MatchedImages": "detection",
    "ListedSamples": "lists",
    "SearchedLists": "lists",
    "ComparedPairs": "pairs",
}
"""the modules with the causes that are looked for in results, by the type of the samples"""

_signatures.import_when_used(
    globals(),
    {
        "detection": "note_images",
        "expected": "search_of",
        "on_demand": "diagnose",
        "retrieval": "compare_shards",
    },
)


def look(results: Any, samples: Any, world: World) -> None:
    """Warn of likely mistakes that finished results show, each once for each metric object or call of a function.

    Args:
        results: what was computed.
        samples: what it was computed from; its type decides which causes are looked for.
        world: the processes with the results; each looks at its part of samples whose facts are not on the first one,
            and the first one warns.
    """
    evaluations = asking.get()
    if isinstance(evaluations, Evaluations):
        evaluations.append((results, samples, world))
        return
    module = module_for(type(samples))
    is_retrieval = hasattr(samples, "updates")
    if is_retrieval:
        samples = replace(samples, updates=module.read_updates(samples.updates, world))

    def find() -> tuple[str, list[int]]:
        if is_retrieval and results is not None and module.is_known(results, samples, world.warning_log):
            return "[]", [0]
        work = partial(_find, module, results, samples, world)
        findings = workers.run(work, torch.device("cpu"), inside=getattr(samples, "keeps_thread", True))
        return json.dumps(findings), [len(findings)]

    # An error of one process between two collectives would let the others wait: texts are written and read in guards.
    text, numbers = world.guarded_all_gather(find)
    texts = [text]
    if any(map(any, numbers[1:])):  # on all processes alike
        texts = world.texts(text)

    def warn() -> None:
        if world.process == 0:
            warn_of([finding for text in texts for finding in json.loads(text)], world.warning_log)

    if any(map(any, numbers)):
        world.guarded(warn)


def module_for(samples_type: type) -> Any:
    """Return the module with the causes of results from such samples.

    Its `REGISTRIES` have the case of results, and the causes by name that are looked for in it, by the type of samples.
    """
    return import_module(f"{__name__}.{_MODULES[samples_type.__name__]}")


def _find(module: Any, results: Any, samples: Any, world: World) -> list[Finding]:
    """Return the likely mistakes that this process finds."""
    if hasattr(module, "MatchedImages"):
        samples = module.MatchedImages.of(results, samples)
    case_of, causes = module.REGISTRIES[type(samples)]
    if results is None:  # nothing was ranked, as for lists of neighbors
        causes = module.FACTS
    return find_causes(causes.values(), case_of(results, samples), world.warning_log)
