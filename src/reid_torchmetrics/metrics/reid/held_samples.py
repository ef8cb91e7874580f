"""Samples that a metric holds, and the versions by which a cached ranking notices that they changed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from reid_torchmetrics.functional.result_cache import versions_of
from reid_torchmetrics.functional.retrieval.evaluation import RankedSamples, Ranking
from reid_torchmetrics.functional.retrieval.scores import DEFAULT_MAX_BYTES, EmbeddingScores
from reid_torchmetrics.functional.retrieval.sharding import GALLERY, QUERY, Samples

_PROBED = (64, 256)
"""numbers of queries and gallery items: the scores of all their pairs tell whether a function has learned"""
_PROBED_WITH_ALL = 4
"""number of queries that are scored with every gallery item, and of gallery items that are scored with every query"""
_NUM_ROWS = 8
"""number of rows of an array that are compared to notice that a buffer was filled anew"""
_clock = map(int, itertools.count())  # `torch.compile` would compile anew for each number of a plain count
_times: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""time of the update that stored a batch, by the roles of the batch, a tensor that belongs to it alone"""
_versions: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""version of the embeddings of a batch at its update, and some of their rows, by these embeddings"""


def record_update(embeddings: Tensor, roles: Tensor, *, is_array: bool) -> None:
    """Record the time of an update, and the version and some rows of its embeddings.

    NumPy counts no versions, and neither do tensors of `inference_mode`; their rows are compared instead. Buffers of
    `inference_mode` differ in their first row.
    """
    num_rows = _NUM_ROWS if is_array else int(embeddings.is_inference())
    rows = _spread(embeddings, num_rows).clone() if num_rows else None
    _times[roles] = next(_clock, 0)
    _versions[embeddings] = (versions_of([[embeddings]]), rows)


def time_of_update(roles: Tensor) -> int:
    """Return the time of the update that stored a batch; -1 if it is unknown, as for a batch from a checkpoint."""
    return int(_times.get(roles, -1))


def check_not_written(batches: Sequence[Tensor]) -> None:
    """Raise if embeddings were written to after their update.

    Raises:
        ValueError: the message has the number of the first such batch.
    """
    written = [number for number, block in enumerate(batches) if _is_written(block)]
    if written:
        raise ValueError(
            "`embeddings` must stay as they are from `update` to `compute`, because they are not copied; got"
            f" {len(written)} of {len(batches)} batches that were written to in place, the first of them batch"
            f" {written[0]}. Pass `embeddings.clone()` to `update` where the tensor is a buffer that is used again."
        )


def _is_written(block: Tensor) -> bool:
    """Return whether a batch of embeddings has another version, or other rows, than at its update."""
    versions, rows = _versions.get(block, (None, None))
    if versions not in (None, versions_of([[block]])):
        return True
    if rows is None:
        return False
    current_rows = _spread(block, _NUM_ROWS)[: len(rows)]
    return not torch.equal(rows.nan_to_num(), current_rows.nan_to_num())


@dataclass(frozen=True)
class HeldSamples:
    """Samples of a metric in batches; they are concatenated only to be ranked."""

    states: Mapping[str, list[Tensor]]
    device: torch.device
    """device that ranks them"""
    time: int
    """time of the last update; -1 if it is unknown, as for samples from a checkpoint"""
    has_marks: bool
    """whether rows may be codes, and their roles have marks"""

    @cached_property
    def samples(self) -> Samples:
        """Samples of all batches; raises a ValueError if merged batches do not fit each other."""
        return Samples.joined(self.states, self.device, has_marks=self.has_marks)


class KeptRanking:
    """A cached ranking, with versions of its ranks and some scores, to notice changes before it is used again."""

    def __init__(self, ranking: Ranking, facts: RankedSamples, samples: HeldSamples, similarity: object) -> None:
        """Record the versions of the ranks, and some scores of a learned similarity."""
        self.ranking = ranking
        self.facts = facts
        self._time = next(_clock, 0)
        self._versions = self._rank_versions()
        self._probe = _probe(samples, similarity)

    def may_be_of(self, samples: HeldSamples) -> bool:
        """Return whether all samples were updated before the ranking was made.

        Later samples may be a buffer that was filled anew, and NumPy counts no versions of it.
        """
        return samples.time <= self._time

    def is_for(self, samples: HeldSamples, similarity: object) -> bool:
        """Return whether it is still the ranking of equal samples that passed `may_be_of`."""
        if self._versions != self._rank_versions():  # the user wrote to the ranks
            return False
        return all(map(torch.equal, self._probe, _probe(samples, similarity)))

    def _rank_versions(self) -> list[int]:
        """Return the versions of all tensors of the ranking."""
        parts = (self.ranking, self.ranking.ranks, self.ranking.ranks.tied, self.ranking.drawn)
        values = [vars(part).values() for part in parts if part is not None]
        return versions_of([value for value in part if isinstance(value, Tensor)] for part in values)


def _probe(held_samples: HeldSamples, similarity: Any) -> list[Tensor]:
    """Return some scores of a similarity function, which change when it learns; no scores for a similarity by name.

    The parameters of a function could be anywhere. Every query and every gallery item is scored, so that a rule about a
    single one of them is noticed.
    """
    if not callable(similarity):
        return []
    samples = held_samples.samples
    query = (samples.roles & QUERY > 0).nonzero()[:, 0]
    gallery = (samples.roles & GALLERY > 0).nonzero()[:, 0]
    if len(query) == 0 or len(gallery) == 0:
        return []
    num_queries, num_items = _PROBED
    blocks = [
        (_spread(query, num_queries), _spread(gallery, num_items)),
        (_spread(query, _PROBED_WITH_ALL), gallery),
        (query, _spread(gallery, _PROBED_WITH_ALL)),
    ]
    values = []
    for some_queries, some_items in blocks:
        scores = EmbeddingScores(
            samples.rows(some_queries),
            samples.rows(some_items),
            similarity=similarity,
            max_bytes=DEFAULT_MAX_BYTES,
        )
        values.append(scores.all().nan_to_num())
    return values


def _spread(rows: Tensor, most: int) -> Tensor:
    """Return at most `most` rows, evenly spread."""
    step = -(-len(rows) // most) or 1
    return rows[::step].contiguous()
