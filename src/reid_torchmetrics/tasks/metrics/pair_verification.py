"""Verification of given pairs as a metric: two embeddings side by side, of one identity or of two."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional
from typing_extensions import Unpack

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._arrays import to_compute_device
from reid_torchmetrics.functional.world import SentRows, Settings, agree, exchange_rows, results_made, warn_once
from reid_torchmetrics.metrics import base
from reid_torchmetrics.tasks.verification import ComparedPairs, Verification, count_given_pairs, find_accuracies

_LEAST_NORM = 1e-30  # the cosine of a zero vector is 0
_NUM_FOLDS = 10  # of LFW's accuracy
_Pairs: TypeAlias = tuple[Tensor, Tensor]

PAIR_METRICS: dict[str, Callable[[Any, Verification, _Pairs], Tensor]] = {
    "accuracy": lambda _metric, _, pairs: find_accuracies(2 - 2 * pairs[0], pairs[1], folds=_NUM_FOLDS).accuracy.mean(),
    "auc": lambda _metric, found, _: found.area_under_curve(),
    "eer": lambda _metric, found, _: found.equal_error_rate().rate,
    "eer_closest": lambda _metric, found, _: found.equal_error_rate("closest").rate,
    "eer_voxceleb": lambda _metric, found, _: found.equal_error_rate("voxceleb").rate,
    "min_dcf": lambda metric, found, _: found.min_dcf(metric.p_target),
    "tar_at_far": lambda metric, found, _: found.tar_at_far([metric.far])[0],
}
"""values that `PairVerification` reports, by name"""


class PairVerification(base.GrowingStates):
    """Verification of given pairs, one number: LFW's accuracy, AUC, EER, the detection cost or TAR at FAR.

    `update` takes the cosines of pairs and keeps them, not the embeddings; `verify_pairs` is for
    other scores. On several processes each keeps the pairs that it was given, and `compute` puts their cosines
    together; all must call it. Pairs are in the order of `index`, else in that in which they came, process by process:
    the folds of LFW's accuracy depend on it. With `index` repetitions by a distributed sampler count once.

    The value is NaN, with one warning, where all pairs are genuine or all are impostors, as in Lightning's sanity check
    of LFW's list, and for the accuracy of fewer than 10 pairs.

    Args:
        metric: "accuracy" over folds as LFW has it, "auc", "eer", "eer_closest" (the rule of TorchMetrics),
            "eer_voxceleb" (the rule of its code), "min_dcf" or "tar_at_far"; see `Verification` and
            `accuracy_over_folds` of `functional.retrieval`.
        far: the false accept rate of "tar_at_far".
        p_target: how often a pair is of one identity, for "min_dcf".
        kwargs: see `torchmetrics.Metric`.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown option or value.

    Example:
        >>> import torch
        >>> from reid_torchmetrics import PairVerification
        >>> metric = PairVerification("auc")
        >>> first = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
        >>> second = torch.tensor([[0.9, 0.1], [0.6, 0.8], [0.8, 0.6]])
        >>> metric.update(first, second, torch.tensor([True, False, True]))
        >>> metric.compute()  # both pairs of one identity score 0.8 or more, the one of two 0.8
        tensor(0.7500)
    """

    @base.explicit_signature(base.MetricOptions)
    def __init__(
        self,
        metric: _names.PairMetric = "eer",
        *,
        far: float = 0.001,
        p_target: float = 0.05,
        **kwargs: Unpack[base.MetricOptions],
    ) -> None:
        super().__init__(**kwargs)
        _checks.one_of("metric", metric, PAIR_METRICS)
        _checks.fraction("far", far)
        _checks.fraction("p_target", p_target)
        self.metric = metric
        self.far = far
        self.p_target = p_target
        self._add_growing_states(
            {
                "scores": torch.empty(0, dtype=torch.float64, device="cpu"),
                "same": torch.empty(0, dtype=torch.bool, device="cpu"),
                "index": torch.empty(0, dtype=torch.int64, device="cpu"),
            }
        )

    @property
    def higher_is_better(self) -> bool:  # type: ignore[override]
        """True unless the metric is an error rate or a cost."""
        return self.metric in {"accuracy", "auc", "tar_at_far"}

    @base.explain_bad_call
    def update(
        self,
        first: Tensor | _checks.Array,
        second: Tensor | _checks.Array,
        same: Tensor | _checks.Integers,
        *,
        index: Tensor | _checks.Integers | None = None,
    ) -> None:
        """Check a batch of pairs, score it and store the scores.

        Args:
            first: float [N, D], one embedding of each pair.
            second: float [N, D], the other one.
            same: bool [N], whether both have the same identity.
            index: int [N], number of the pair in its data set, in every batch or in none. Among pairs with the same
                number only the first counts.

        Raises:
            TypeError: an argument of the wrong type or dtype.
            ValueError: shapes or devices that do not fit; nothing of the batch is stored then.
        """
        with self._deferring_errors():
            first = _checks.embeddings("first", first)
            second = _checks.embeddings("second", second)
            _checks.same_device("first", first, "second", second)
            if first.shape != second.shape:
                raise ValueError(
                    f"`second` must have the shape of `first`, {list(first.shape)}; got {list(second.shape)}."
                )
            same = _checks.mask("same", same, len(first), first.device)
            states = self._current_states()
            if states["scores"]:
                _checks.given_throughout("index", given=index is not None, given_before=len(states["index"]) > 0)
            batch = {"same": same.clone()}
            if index is not None:
                index = _checks.whole_labels("index", index, len(first), first.device)
                batch["index"] = index.to(torch.int64, copy=True)
            first_rows = to_compute_device(first).detach().double()
            second_rows = to_compute_device(second).detach().double()
            batch["scores"] = functional.cosine_similarity(first_rows, second_rows, eps=_LEAST_NORM)
        self._append(batch)

    def compute(self) -> Tensor:
        """Return the metric over the pairs of all processes.

        Raises:
            DistributedMetricError: on all processes, if one of them failed or refused a batch, or if they do not hold
                the same metric.
            ValueError: scores that are NaN, or pairs with the same `index` and different values of `same`.
        """
        pairs, verification = self._count_pairs("compute")
        if not self._is_defined(verification):
            return torch.full((), torch.nan, dtype=self.dtype, device=self.device)
        return PAIR_METRICS[self.metric](self, verification, pairs).to(self.device, self.dtype)

    def results(self) -> Verification:
        """Return the counts of all pairs, for ROC, AUC, EER and rates at any threshold, `plot_roc` and `plot_det`.

        All processes must call it, and get the same counts.

        Raises:
            DistributedMetricError: as `compute`.
            ValueError: as `compute`.
        """
        with self._synced():
            return self._count_pairs("results")[1]

    def _count_pairs(self, method: str) -> tuple[_Pairs, Verification]:
        """Return the pairs of all processes and their counts; warn if the value is NaN, but not about one batch."""
        pairs = self._pairs(method)
        verification = count_given_pairs(*pairs)
        if self._states_before_forward is None and not self._is_defined(verification):
            rule = f", and {_NUM_FOLDS} pairs" if self.metric == "accuracy" else ""
            got = f"{verification.num_genuine} of one identity and {verification.num_impostors} of two"
            text = f"`{self.metric}` needs pairs of one identity and of two{rule}; got {got}, so the result is NaN."
            warn_once(self._world, "undefined", text)
        if self._states_before_forward is None:
            results_made(verification, ComparedPairs(*pairs, "embeddings"), self._world)
        return pairs, verification

    def _is_defined(self, verification: Verification) -> bool:
        num_pairs = verification.num_genuine + verification.num_impostors
        return verification.is_defined and (self.metric != "accuracy" or num_pairs >= _NUM_FOLDS)

    def _pairs(self, method: str) -> _Pairs:
        """Return `scores` and `same` for the pairs of all processes, in order, without repetitions of an `index`."""

        def collect() -> tuple[dict[str, Tensor], tuple[int, int]]:
            self._raise_deferred_error()
            states = {name: to_compute_device(self._concatenated(name)) for name in self._defaults}
            return states, (len(states["scores"]), len(states["index"]))

        options = {name: repr(getattr(self, name)) for name in ("metric", "far", "p_target")}
        settings = Settings(type(self).__name__, method, options, {})
        states, table = agree(self._world, collect, lambda: settings)
        num_pairs = [row[0] for row in table]
        num_indices = [row[1] for row in table]
        has_index = sum(num_indices) > 0
        if has_index:
            _checks.given_for_all("index", sum(num_indices), sum(num_pairs))
        names = ["scores", "same", "index"] if has_index else ["scores", "same"]
        sent = []
        for name in names:
            dtype = self._empty_states[name].dtype
            sent.append(SentRows(partial(list[Tensor], [states[name]]), (), dtype))
        scores, same, *index = exchange_rows(self._world, num_pairs, *sent)
        _checks.no_nan("first", scores)
        if not index:
            return scores, same

        # Sort the pairs by `index`, and keep the first with each.
        sorted_index, order = index[0].sort(stable=True)
        sorted_same = same[order]
        is_first = functional.pad(sorted_index.diff() != 0, (1, 0), value=True)[: len(order)]
        if bool((~is_first[1:] & sorted_same.diff()).any()):
            raise ValueError(
                "`same` must be equal for pairs with the same `index`; got True and False for one of them."
            )
        return scores[order[is_first]], sorted_same[is_first]

    def extra_repr(self) -> str:
        """Return the metric and options that differ from their defaults."""
        return base.show_arguments(self, {"metric": self.metric})
