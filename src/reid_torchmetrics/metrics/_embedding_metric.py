"""The metric that holds embeddings and labels, and ranks them in `compute`; subclasses only summarise ranks."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.counting import TIE_POLICIES
from reid_torchmetrics.functional.retrieval.evaluation import RetrievalResults, summarise_queries
from reid_torchmetrics.functional.retrieval.measures import EMPTY_TARGET_ACTIONS
from reid_torchmetrics.functional.retrieval.ranks import DEFAULT_MAX_BYTES, PositiveRanks
from reid_torchmetrics.functional.retrieval.relevance import SAME_CAMERA_RULES
from reid_torchmetrics.functional.retrieval.similarity import CustomSimilarity, check_similarity
from reid_torchmetrics.metrics._growing_states import GrowingStates, own, own_shared
from reid_torchmetrics.metrics._ranking import rank_samples
from reid_torchmetrics.metrics._ranking_cache import Ranking, RankingOptions, arrived, note_arrival
from reid_torchmetrics.metrics._samples import GALLERY, QUERY, Samples
from reid_torchmetrics.metrics._sharded_ranking import rank_together

_NEUTRAL = {"max_bytes", "training", "compute_on_cpu", "dist_sync_on_step", "sync_on_compute", "compute_with_cache"}
"""attributes of a metric that do not decide its value"""


class EmbeddingMetric(GrowingStates):
    """Base of the metrics over query and gallery embeddings; a measure of one's own is a subclass with `summarise`.

    `update` checks a batch and stores it, nothing else; `compute` ranks all samples, once for all metrics that hold
    the same samples, and hands the ranks to `summarise`.

    On several processes each keeps the samples that it was given. `compute` ranks them as one set, moves only queries,
    scores of positives and counts, and has the same value on all ranks; all ranks must call it. Metrics must be the
    same on all ranks: the class and its public attributes that are numbers, strings or tuples are compared.

    Args:
        similarity: "cosine", "euclidean", "dot" or a function of a block of queries [q, D] and a block of gallery
            items [g, D] that returns scores [q, g], higher is closer.
        same_camera: "same_identity" drops the gallery items with the query's identity and camera (Market-1501),
            "all" drops every item of the query's camera, "keep" drops nothing. Without cameras nothing is dropped.
        junk_identities: gallery items of these identities are dropped for every query.
        ties: who goes first among equal scores: "pessimistic" the negative, "optimistic" the positive, "stable" the
            item that comes first by `index`, or that came first, rank by rank, where there is no `index`.
        empty_target_action: what a query without positives counts in a mean: "skip", "neg" (0), "pos" (1), "error".
            Where no query has a positive, as in Lightning's sanity check, the value is NaN whatever is chosen here.
        max_bytes: bound on the scores and prepared gallery rows that `compute` holds at a time.
        kwargs: see `torchmetrics.Metric`.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown option or value.
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0

    rule = "rectangle"
    """the rule of average precision in `results`"""

    embeddings: list[Tensor]
    identities: list[Tensor]
    roles: list[Tensor]
    cameras: list[Tensor]
    index: list[Tensor]

    def __init__(
        self,
        *,
        similarity: str | CustomSimilarity = "cosine",
        same_camera: str = "same_identity",
        junk_identities: Collection[int] = (-1,),
        ties: str = "pessimistic",
        empty_target_action: str = "skip",
        max_bytes: int = DEFAULT_MAX_BYTES,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_similarity(similarity)
        _checks.one_of("same_camera", same_camera, SAME_CAMERA_RULES)
        _checks.integers("junk_identities", junk_identities)
        _checks.one_of("ties", ties, TIE_POLICIES)
        _checks.one_of("empty_target_action", empty_target_action, EMPTY_TARGET_ACTIONS)
        _checks.positive_int("max_bytes", max_bytes)
        self.options = RankingOptions(similarity, same_camera, tuple(sorted(junk_identities)), ties)
        self.empty_target_action = empty_target_action
        self.max_bytes = max_bytes
        self._refused: Exception | None = None
        self.add_growing_state("embeddings", torch.empty((0, 0)))
        self.add_growing_state("roles", torch.empty(0, dtype=torch.int8))
        for name in ("identities", "cameras", "index"):
            self.add_growing_state(name, torch.empty(0, dtype=torch.int64))

    @abstractmethod
    def summarise(self, ranks: PositiveRanks) -> Tensor:
        """The metric's value, given the ranks of the positives of all queries, of which at least one has some."""

    def update(
        self,
        embeddings: Tensor,
        identities: Tensor,
        cameras: Tensor | None = None,
        *,
        is_query: bool | Tensor | None = None,
        index: Tensor | None = None,
    ) -> None:
        """Check and store a batch.

        Embeddings are kept by reference, views of a larger tensor are cloned: do not write to them before `compute`.

        Args:
            embeddings: float [N, D].
            identities: int [N].
            cameras: int [N], in every batch or in none.
            is_query: True for a batch of queries, False for a batch of gallery items, a bool mask [N] for a mixed
                batch; None (leave-one-out): every sample is a query and, for all others, a gallery item.
            index: int [N], the sample's number in its data set, in every batch or in none. Of samples with the same
                number the first counts, among queries and among gallery items of all ranks, so that repetitions by a
                distributed sampler do not.

        Raises:
            TypeError: an argument of the wrong type or dtype.
            ValueError: shapes, devices or dimensions that do not fit; nothing of the batch is stored then.
        """
        try:
            self._check_batch(embeddings, identities, cameras, is_query, index)
            labels = {"identities": identities, "cameras": cameras, "index": index}
            batch = {name: own(values).long() for name, values in labels.items() if values is not None}
            batch["roles"] = _roles(is_query, len(embeddings), embeddings.device)
            batch["embeddings"] = own_shared(embeddings)
        except Exception as error:
            self._refused = copy.copy(error).with_traceback(None)  # a traceback would keep the batch alive
            raise
        note_arrival(batch["roles"])
        for name, values in batch.items():
            getattr(self, name).append(values)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Append a batch and evaluate it alone, together with those of the other ranks under `dist_sync_on_step`."""
        try:
            return super().forward(*args, **kwargs)
        except Exception:
            if self.dist_sync_on_step and self._refused is not None:  # the other ranks wait for this step's value
                with self.sync_context():
                    if self._group is not None:
                        self._ranking()
            raise

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Add another metric's samples."""
        super().merge_state(incoming_state)
        if isinstance(incoming_state, EmbeddingMetric):
            self._refused = self._refused or incoming_state._refused  # noqa: SLF001

    def compute(self) -> Tensor:
        """Rank all samples and summarise the ranks; NaN and one warning where no query can be evaluated.

        Raises:
            DistributedMetricError: on all ranks, if one of them failed or refused a batch, or if they do not hold the
                same metric or the same kind of samples.
        """
        ranking = self._ranking()
        if self._group is None:
            return self._value(ranking)
        return self._group.together(lambda: self._value(ranking))

    def _value(self, ranking: Ranking) -> Tensor:
        if ranking.counts.valid:
            return self.summarise(ranking.ranks).to(self.device, self.dtype)
        one_hit = PositiveRanks(*torch.ones((3, 1), dtype=torch.int64, device=ranking.ranks.rank.device))
        shape = self.summarise(one_hit).shape  # `summarise` need not cope with no ranks at all
        return torch.full(shape, torch.nan, device=self.device, dtype=self.dtype)

    def reset(self) -> None:
        """Forget all samples."""
        super().reset()
        if self.states_before_forward is None:  # `forward` resets, too
            self._refused = None

    def results(self) -> RetrievalResults:
        """One value per query, with the reasons where there is none; the same on all ranks.

        The queries are in the order of `index` where it is given, else in that in which they came, rank by rank.
        """
        with self.sync_context(
            dist_sync_fn=self.dist_sync_fn,
            should_sync=self._to_sync and not self._is_synced,
            should_unsync=not self._is_synced,
        ):
            ranking = self._ranking()
        return summarise_queries(ranking.ranks, ranking.counts, rule=self.rule)

    def plot(self, val: Tensor | Sequence[Tensor] | None = None, ax: Any = None) -> Any:
        """Plot one value, or several over time; see `torchmetrics.Metric`. Needs matplotlib."""
        return self._plot(val, ax)

    def _ranking(self) -> Ranking:
        warn = self.states_before_forward is None
        if self._group is None:
            return rank_samples(self._samples(), self.options, max_bytes=self.max_bytes, warn=warn)
        return rank_together(
            self._group, self._accepted_samples, self.options, self._settings, max_bytes=self.max_bytes, warn=warn
        )

    def _accepted_samples(self) -> Samples:
        """The samples; raises the error of `update`, once, if a batch is missing because it was refused."""
        refused, self._refused = self._refused, None
        if refused is not None:
            raise refused
        return self._samples()

    def _samples(self) -> Samples:
        for block in self.embeddings:
            _checks.same_dimension("embeddings", block.shape[1], "merged embeddings", self.embeddings[0].shape[1])
        total, device = sum(map(len, self.embeddings)), self._samples_device()
        return Samples(
            embeddings=list(self.embeddings),
            identities=_joined("identities", self.identities, total, device),
            roles=_joined("roles", self.roles, total, device),
            cameras=_joined("cameras", self.cameras, total, device) if self.cameras else None,
            index=_joined("index", self.index, total, device) if self.index else None,
            time=arrived(self.roles),
        )

    def _settings(self) -> str:
        """The class and the options that decide the value, as text that is the same on all ranks."""
        options = {name: value for name, value in vars(self).items() if isinstance(value, (str, int, float, tuple))}
        options = {name: value for name, value in options.items() if not name.startswith("_")}
        options |= vars(self.options) | {"similarity": _name(self.options.similarity)}
        listed = [f"{name}={options[name]!r}" for name in sorted(options.keys() - _NEUTRAL)]
        return f"{type(self).__name__}({', '.join(listed)})"

    def _samples_device(self) -> torch.device:
        """Where samples are ranked: where they are, but for MPS, which has no float64."""
        device = self.embeddings[-1].device if self.embeddings else self.device
        return torch.device("cpu") if device.type == "mps" else device

    def _check_batch(
        self,
        embeddings: Tensor,
        identities: Tensor,
        cameras: Tensor | None,
        is_query: bool | Tensor | None,
        index: Tensor | None,
    ) -> None:
        _checks.embeddings("embeddings", embeddings)
        length, device = len(embeddings), embeddings.device
        _checks.integer_labels("identities", identities, length, device)
        if cameras is not None:
            _checks.integer_labels("cameras", cameras, length, device)
        if is_query is not None and not isinstance(is_query, bool):
            _checks.boolean_mask("is_query", is_query, length, device)
        if index is not None:
            _checks.integer_labels("index", index, length, device)
        self._check_against_earlier_batches(embeddings, cameras, index)

    def _check_against_earlier_batches(self, embeddings: Tensor, cameras: Tensor | None, index: Tensor | None) -> None:
        held = self.states_before_forward or {name: getattr(self, name) for name in self._defaults}
        if held["embeddings"]:
            before = held["embeddings"][-1].shape[1]
            _checks.same_dimension("embeddings", embeddings.shape[1], "embeddings of earlier batches", before)
            _checks.given_throughout("cameras", given=cameras is not None, given_before=bool(held["cameras"]))
            _checks.given_throughout("index", given=index is not None, given_before=bool(held["index"]))


def _roles(is_query: bool | Tensor | None, length: int, device: torch.device) -> Tensor:
    if isinstance(is_query, Tensor):
        return torch.where(is_query, QUERY, GALLERY).to(torch.int8)
    role = {None: QUERY | GALLERY, True: QUERY, False: GALLERY}[is_query]
    return torch.full((length,), role, dtype=torch.int8, device=device)


def _joined(argument: str, batches: Sequence[Tensor], total: int, device: torch.device) -> Tensor:
    none = torch.empty(0, dtype=torch.int64, device=device)
    joined = torch.cat([none, *(batch.to(device) for batch in batches)])
    _checks.given_for_all(argument, len(joined), total)
    return joined


def _name(similarity: Any) -> str:
    """A name or, of a function, where it was defined: its address differs between processes."""
    if isinstance(similarity, str):
        return similarity
    named = similarity if hasattr(similarity, "__qualname__") else type(similarity)
    return f"{named.__module__}.{named.__qualname__}"
