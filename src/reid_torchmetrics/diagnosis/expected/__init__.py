"""Explain a number: search the conventions of known evaluators, and those of the user, for the one that gives it.

    results_made(results, samples, world) --> KINDS, by the type of the samples --> Numbers, rows of evaluators
    Search(numbers, evaluators)           --> numbers under the options of each row, and under changed options
    .explain(56.3)                        --> Explanation

To add an evaluator, add a row to the file of its kind, such as `retrieval.json`: its name and version, the numbers
that it prints by ours, and the options of ours that give them. A number that no option gives is a measure of its own in
`OWN_MEASURES`, with a function of ranks. The contract test wants the key of a recorded output in `proofs`.

To add a convention, which gives an option another value, add a row to the `changes` of the file of its kind.

To add a kind of results, write a class with the methods of `rows.Numbers`, which computes a number under other options
from the arguments of `results_made`, and add it to `KINDS` by the type of its samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from reid_torchmetrics.diagnosis.detection import MatchedImages
from reid_torchmetrics.functional.detection.evaluation import EvaluatedImages, EvaluatedObjects
from reid_torchmetrics.functional.retrieval import RetrievalResults
from reid_torchmetrics.functional.retrieval.evaluation import RankedSamples
from reid_torchmetrics.functional.world import World
from reid_torchmetrics.tasks.lists import ListedSamples
from reid_torchmetrics.tasks.verification import ComparedPairs

from .known import DETECTION_EVALUATORS, PAIR_EVALUATORS, RETRIEVAL_EVALUATORS
from .matched_numbers import MatchedNumbers
from .pair_numbers import ScoredPairNumbers
from .ranked_numbers import RankedNumbers
from .rows import ConventionChange as ConventionChange
from .rows import KnownEvaluator as KnownEvaluator
from .rows import Numbers as Numbers
from .search import Expected as Expected
from .search import Explanation as Explanation
from .search import Search as Search


def _numbers_of_lists(results: RetrievalResults, _: object, world: World) -> RankedNumbers:
    return RankedNumbers(results.rankings[0], RankedSamples(results.protocol, has_lists=True), world)


KINDS: dict[type, tuple[Callable[[Any, Any, World], Numbers], Sequence[KnownEvaluator]]] = {
    RankedSamples: (RankedNumbers, RETRIEVAL_EVALUATORS),
    ListedSamples: (_numbers_of_lists, RETRIEVAL_EVALUATORS),
    ComparedPairs: (ScoredPairNumbers, PAIR_EVALUATORS),
    EvaluatedImages: (MatchedNumbers, DETECTION_EVALUATORS),
    EvaluatedObjects: (MatchedNumbers, DETECTION_EVALUATORS),
    MatchedImages: (MatchedNumbers, DETECTION_EVALUATORS),
}
"""the function that returns `Numbers` of results, and the known evaluators, by the type of the samples"""


def search_of(made: Sequence[tuple[Any, Any, World]], measure: str | None = None) -> Search:
    """Return the search among the conventions of an evaluation, from the arguments of `results_made`.

    Raises:
        TypeError: there are no results of a kind in `KINDS`.
        ValueError: a measure that results of this kind do not have.
    """
    for results, samples, world in made:
        if type(samples) in KINDS and results is not None:
            numbers_of, evaluators = KINDS[type(samples)]
            return Search(numbers_of(results, samples, world), evaluators, measure)
    raise TypeError("`expected` must come with results of embeddings, scores, lists, pairs or detections; got others.")
