"""Rank lists: the first candidates of queries, with all that it takes to look at them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _checks


@dataclass(frozen=True, eq=False)
class RankLists:
    """The first k candidates of some queries, best first, and the first right answer of each, however far behind.

    Candidates, their order among equal scores and positives are those of the ranking: junk is in no list. A k beyond
    the gallery without junk identities is its length. A query with fewer candidates than others has padding at the end:
    `scores` NaN, all else -1 or False.
    """

    query: Int[Tensor, " queries"]
    """which query this is, counted from 0 in the order of the results"""
    query_index: Int[Tensor, " queries"]
    """its number in the data set, where the evaluation was given `index`, else the same as `query`"""
    query_identities: Int[Tensor, " queries"] | None
    query_cameras: Int[Tensor, " queries"] | None
    index: Int[Tensor, "queries k"]
    """the candidate's number in the data set, where the evaluation was given `index`, else its position in the gallery,
    that of all processes one after the other; -1 at padding"""
    identities: Int[Tensor, "queries k"] | None
    cameras: Int[Tensor, "queries k"] | None
    scores: Float[Tensor, "queries k"]
    """higher is closer, comparable between queries: minus the distance under "euclidean"; NaN at padding"""
    is_positive: Bool[Tensor, "queries k"]
    """whether the candidate is right; False at padding"""
    first_positive_rank: Int[Tensor, " queries"]
    """rank of the first right answer among all candidates, from 1; 0 where there is none"""
    first_positive_index: Int[Tensor, " queries"]
    """its number, as in `index`; -1 where there is none"""
    first_positive_score: Float[Tensor, " queries"]
    """NaN where there is none"""
    first_positive_camera: Int[Tensor, " queries"] | None

    def __len__(self) -> int:
        """Number of queries."""
        return len(self.query)

    def first(self, k: int) -> RankLists:
        """The same lists, cut after `k` candidates.

        Raises:
            TypeError: `k` is not an int.
            ValueError: `k` is below 1, or the lists are not as long.
        """
        _checks.positive_int("k", k)
        if k > self.index.shape[1]:
            raise ValueError(f"`k` must be at most {self.index.shape[1]}, the length of the lists; got {k}.")
        return self._map(lambda values: values[:, :k] if values.ndim == 2 else values)

    def select(self, rows: Integer[Tensor, " rows"]) -> RankLists:
        """Some of the lists, in the order of `rows`, which count them from 0.

        Raises:
            TypeError: `rows` is not an integer tensor.
            ValueError: `rows` has a number that no list has.
        """
        _checks.integer_labels("rows", rows)
        _checks.in_range("rows", rows, 0, len(self))
        rows = rows.long().to(self.query.device)
        return self._map(lambda values: values[rows])

    def margins(self) -> Float[Tensor, " queries"]:
        """How much the best candidate scores above the first right answer.

        0 where it is the first right answer, NaN where there is no right answer.
        """
        return self.scores[:, 0] - self.first_positive_score

    def confident_mistakes(self, n: int) -> Int[Tensor, " mistakes"]:
        """Up to `n` lists that begin with a wrong candidate, by falling margin: many of them are errors of labels.

        Equal margins are in the order of the lists. A list without any right answer is no mistake.

        Raises:
            TypeError: `n` is not an int.
            ValueError: `n` is below 1.
        """
        _checks.positive_int("n", n)
        wrong = ((self.first_positive_rank > 1).nonzero())[:, 0]
        return wrong[self.margins()[wrong].argsort(descending=True, stable=True)[:n]]

    def _map(self, function: Callable[[Tensor], Tensor]) -> RankLists:
        mapped: dict[str, Any] = {
            name: None if values is None else function(values) for name, values in vars(self).items()
        }
        return RankLists(**mapped)
