"""Spread of embeddings: effective rank, norms, alignment, uniformity, hubness.

Most numbers are computed from sums over samples. A sample x with the norm n is the row (1, is bad, n, x) of a matrix A.
The moments, A^T A in float64, contain the Gram matrix of the samples and all other sums:

               1        bad       n         x
    1          number   num bad   sum n     sum x
    n                             sum n^2
    x                                       sum x x^T

Alignment needs the sums of (1, |u|^2, u) over the unit vectors u of each identity: the sum of half the squared
distances over the ordered pairs of m samples is m (m - 1) + sum |u|^2 - |sum u|^2. Uniformity and hubness need the
embeddings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, linalg
from typing_extensions import Unpack

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._arrays import to_compute_device
from reid_torchmetrics.functional import world
from reid_torchmetrics.functional.retrieval import evaluation
from reid_torchmetrics.functional.retrieval.relevance import check_needed
from reid_torchmetrics.functional.retrieval.sharding import GALLERY, QUERY, Samples
from reid_torchmetrics.metrics import base
from reid_torchmetrics.metrics.reid import check_not_written, record_update
from reid_torchmetrics.tasks.walks import pair_samples

_FIRST = 3
"""column of the first coordinate in the matrix A"""
_SMALLEST = 1e-140
_LARGEST = 1e140
"""absolute values of float64 coordinates; squares of smaller or larger ones underflow or overflow"""
_HIGHER_IS_BETTER = {
    "rankme": True,
    "dead_dimensions": False,
    "norm_mean": None,
    "norm_std": None,
    "alignment": False,
    "uniformity": False,
    "hubness": False,
}
_BY_COSINE = evaluation.RankingOptions(evaluation.Protocol("", "", leave_one_out=True), "cosine", "stable")
_FEW: Sequence[_names.QualityMeasure] = ("rankme", "dead_dimensions", "norm_mean", "norm_std")


class EmbeddingQuality(base.GrowingStates):
    """Numbers that show a collapse of embeddings, as a dict; most of them need no labels.

    All values are 0-d tensors for `self.log_dict(metric.compute())`. A value is NaN, with one warning, where it is not
    defined, as without samples. The metric keeps sums in float64: a matrix [D + 3, D + 3] for "rankme", a few rows
    otherwise, and for "alignment" a row for each identity. Only "uniformity" and "hubness" keep the embeddings, by
    reference, as other metrics do. Every sample counts, even one that a distributed sampler repeats;
    `UnpaddedDistributedSampler` repeats none.

    - "rankme": effective rank, from 1 to D: the exponential of the entropy of the singular values of the matrix of all
      embeddings, as shares of their sum, plus 1e-7 (Garrido et al., "RankMe", ICML 2023). Singular values are computed
      from the Gram matrix, which changes the effective rank of embeddings without full rank by less than 0.01 %.
    - "dead_dimensions": the share of dimensions that are constant over all samples: a variance of at most 1e-12 of the
      mean square.
    - "norm_mean", "norm_std": mean and standard deviation of the norms.
    - "alignment": the mean squared distance of unit vectors over all pairs with the same identity; identities below 0
      are junk, and form no pairs.
    - "uniformity": the logarithm of the mean of exp(-2 |u - v|^2) over all pairs of unit vectors, of cosines in the
      dtype of the embeddings, at least float32. Both by Wang and Isola, "Understanding Contrastive Representation
      Learning through Alignment and Uniformity", ICML 2020.
    - "hubness": the skewness of how often each sample is among the 10 nearest of the others, by cosine (Radovanovic et
      al., "Hubs in Space", JMLR 2010).

    A zero vector has the cosine 0 with all others.

    Args:
        measures: names of the numbers.
        kwargs: see `torchmetrics.Metric`.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown number, or none.

    Example:
        >>> import torch
        >>> from reid_torchmetrics import EmbeddingQuality
        >>> metric = EmbeddingQuality(("rankme", "dead_dimensions", "alignment"))
        >>> embeddings = torch.tensor([[0.6, 0.8, 0.0, 0.0], [0.8, -0.6, 0.0, 0.0]])
        >>> metric.update(embeddings, torch.tensor([7, 7]))
        >>> metric.compute()  # two equal singular values, two dimensions without a value, one pair at a right angle
        {'rankme': tensor(2.0000), 'dead_dimensions': tensor(0.5000), 'alignment': tensor(2.)}
    """

    plot_lower_bound = plot_upper_bound = None  # type: ignore[assignment]

    @base.explicit_signature(base.MetricOptions)
    def __init__(self, measures: Sequence[_names.QualityMeasure] = _FEW, **kwargs: Unpack[base.MetricOptions]) -> None:
        super().__init__(**kwargs)
        _checks.instance("measures", measures, (tuple, list))
        _checks.nonempty("measures", measures)
        for name in measures:
            _checks.one_of("measures", name, _names.QualityMeasure)
        self.measures = tuple(measures)
        no_sums = torch.empty((0, 0), dtype=torch.float64, device="cpu")
        no_embeddings = torch.empty((0, 0), device="cpu")
        self._add_growing_states({"moments": no_sums, "identity_sums": no_sums, "embeddings": no_embeddings})

    @property
    def higher_is_better(self) -> dict[str, bool | None]:  # type: ignore[override]
        """Whether a higher value is better, for each number by name; None if neither is better.

        `MetricTracker` keeps all values of such a metric, `tracker.compute_all()`, but has no best step for a dict.
        """
        return {name: _HIGHER_IS_BETTER[name] for name in self.measures}

    def _update_options(self) -> tuple[object, ...]:
        return self.measures

    @base.explain_bad_call
    def update(self, embeddings: Tensor | _checks.Array, identities: Tensor | _checks.Integers | None = None) -> None:
        """Check a batch and add it to the sums; "uniformity" and "hubness" keep the embeddings, by reference.

        Args:
            embeddings: float [N, D], the output of the network.
            identities: int [N], needed for "alignment" only.

        Raises:
            TypeError: an argument of the wrong type or dtype.
            ValueError: shapes, devices or dimensions that do not fit, no identities for "alignment", or float64 rows
                whose largest coordinate is below 1e-140 or above 1e140, so that their squares leave float64; nothing of
                the batch is stored then.
        """
        with self._deferring_errors():
            checked = _checks.embeddings("embeddings", embeddings, getattr(embeddings, "device", None))
            rows = to_compute_device(checked).detach().double()
            if checked.dtype == torch.float64:  # squares of other dtypes fit
                _check_squares_fit(rows)
            norms = linalg.vector_norm(rows, dim=1, keepdim=True)
            batch = {"moments": self._moments_of(rows, norms)}
            for earlier in self._current_states()["moments"]:
                _checks.same_dimension("embeddings", rows.shape[1], "earlier embeddings", earlier.shape[1] - _FIRST)
            if "alignment" in self.measures:
                check_needed({"identities": "for the measure 'alignment'"}, {"identities": identities})
                labels = _checks.whole_labels("identities", identities, len(rows), checked.device)
                batch["identity_sums"] = _identity_sums(rows, norms, to_compute_device(labels).long())
            if "uniformity" in self.measures or "hubness" in self.measures:
                batch["embeddings"] = base.shared_copy(checked)
                record_update(batch["embeddings"], batch["moments"], is_array=checked is not embeddings)
        self._append(batch)

    def _moments_of(self, rows: Tensor, norms: Tensor) -> Tensor:
        """Return the sums of the columns of A and of their squares, [2, columns]; for "rankme" all products A^T A.

        The first column is 1, so the first row of the products has the sums, and their diagonal the squares. Sums of
        coordinates are NaN if no measure needs them.
        """
        numbers = torch.cat([torch.ones_like(norms), ~norms.isfinite(), norms], 1)
        if "rankme" in self.measures:
            samples = torch.cat([numbers, rows], 1)
            return samples.T @ samples
        moments = rows.new_full((2, _FIRST + rows.shape[1]), torch.nan)
        moments[0, :_FIRST] = numbers.sum(0)
        moments[1, :_FIRST] = numbers.square().sum(0)
        if "dead_dimensions" in self.measures:
            moments[0, _FIRST:] = rows.sum(0)
            moments[1, _FIRST:] = rows.square().sum(0)
        return moments

    def _current_states(self) -> dict[str, list[Tensor]]:
        """Return the states after combining sums in place: moments always, identities when their rows have doubled."""
        with self._deferring_errors():
            states = super()._current_states()
            moments = states["moments"]
            if len(moments) > 1:
                moments[:] = [sum(moments[1:], moments[0])]
            identity_sums = states["identity_sums"]
            if len(identity_sums) > 1 and sum(map(len, identity_sums)) >= 2 * len(identity_sums[0]):
                identity_sums[:] = [_sum_by_identity(torch.cat(identity_sums))]
            return states

    def compute(self) -> dict[str, Tensor]:
        """Return the numbers by name, over the samples of all processes; NaN, with one warning, where undefined.

        Raises:
            DistributedMetricError: on all processes, if one of them failed or refused a batch, or if they do not hold
                the same measures, or embeddings of one dimension.
        """

        def collect() -> tuple[dict[str, list[Tensor]], list[int]]:
            self._raise_deferred_error()
            states = self._copy_state_dict()
            check_not_written(states["embeddings"])
            dimensions = [moments.shape[1] - _FIRST for moments in states["moments"]]
            _checks.alike("embeddings", "dimension", dimensions)
            num_identity_sums = sum(map(len, states["identity_sums"]))
            num_embeddings = sum(map(len, states["embeddings"]))
            return states, [max(dimensions, default=0), num_identity_sums, num_embeddings]

        settings = world.Settings(type(self).__name__, "compute", {"measures": repr(self.measures)}, {})
        states, table = world.agree(self._world, collect, lambda: settings)
        dimensions, num_sums, num_embeddings = map(list, zip(*table, strict=True))
        if len(set(dimensions) - {0}) > 1:  # 0 is the dimension of a process without samples
            raise world.differing("embedding dimension", dimensions)
        num_columns = _FIRST + max(dimensions)
        num_rows = num_columns if "rankme" in self.measures else 2
        moments = self._concatenated("moments").view(-1, num_rows, num_columns).sum(0)
        moments = world.all_reduce_values(self._world, moments.flatten).view_as(moments)

        numbers = torch.arange(sum(num_embeddings), device=moments.device)
        own_numbers = numbers.split(num_embeddings)[self._world.process]
        roles = torch.full_like(own_numbers, QUERY | GALLERY, dtype=torch.int8)
        samples = Samples(states["embeddings"], roles, {"identities": own_numbers, "index": own_numbers})

        num_samples, num_bad = moments[0, :2].long().tolist()
        values = dict.fromkeys(self.measures, moments.new_tensor(torch.nan))
        if num_samples > 0 and num_bad == 0:
            for name in self.measures:
                values[name] = getattr(self, f"_{name}")(moments, num_sums, samples)
        if self._states_before_forward is None:  # a single batch is often too small
            undefined = _checks.listed([f"`{name}`" for name, value in values.items() if value.isnan()], str)
            reason = f"cannot be told of {num_samples} embeddings, {num_bad} of them NaN or infinite"
            text = f"{undefined} {reason}, so the result is NaN."
            # Process 0 decides, because rounding on another machine could make a value NaN there alone.
            world.warn_once(self._world, "undefined", text, lambda: undefined != "")
        return {name: value.to(self.device, self.dtype) for name, value in values.items()}

    def extra_repr(self) -> str:
        """Return the names of the numbers."""
        return base.show_arguments(self, {"measures": self.measures})

    def _log_instead(self) -> str | None:
        return "metric.compute()` by `self.log_dict"

    def _rankme(self, moments: Tensor, *_: Any) -> Tensor:
        """Return the exponential of the entropy of the min(N, D) singular values of the matrix [N, D]."""
        num_samples = int(moments[0, 0])
        eigenvalues = linalg.eigvalsh(moments[_FIRST:, _FIRST:])[-num_samples:]  # ascending
        singular_values = eigenvalues.clamp(min=0).sqrt()
        shares = singular_values / singular_values.sum() + 1e-7
        return torch.exp(torch.special.entr(shares).sum())

    def _dead_dimensions(self, moments: Tensor, *_: Any) -> Tensor:
        """Return the share of dimensions with a variance of at most 1e-12 of their mean square."""
        mean_squares = moments[0, 0] * _squares_in(moments)[_FIRST:]  # times the squared number of samples
        if mean_squares.isnan().any():  # states of a metric that did not compute these sums
            return moments.new_tensor(torch.nan)
        variances = mean_squares - moments[0, _FIRST:].square()
        # Rounding in a float32 network changes a constant by less than 1e-6 of it.
        return (variances <= 1e-12 * mean_squares).double().mean()

    def _norm_mean(self, moments: Tensor, *_: Any) -> Tensor:
        return moments[0, 2] / moments[0, 0]

    def _norm_std(self, moments: Tensor, *_: Any) -> Tensor:
        mean_square = _squares_in(moments)[2] / moments[0, 0]
        variance = mean_square - self._norm_mean(moments).square()
        return variance.clamp(min=0).sqrt()

    def _alignment(self, moments: Tensor, num_sums: Sequence[int], _: Samples) -> Tensor:
        """Return the mean of |u - v|^2 over all pairs with one identity, from the sums of all processes."""
        sent = world.SentRows(vars(self)["identity_sums"].copy, [moments.shape[1]], torch.float64)
        (rows,) = world.exchange_rows(self._world, num_sums, sent)
        sums = _sum_by_identity(rows)
        num_samples = sums[:, 1]
        num_pairs = num_samples * (num_samples - 1)
        half_distances = num_pairs + sums[:, 2] - sums[:, 3:].square().sum(1)
        has_pairs = num_pairs > 0  # the half distances of a single sample are 0 only up to rounding
        return 2 * (half_distances * has_pairs).sum() / num_pairs.sum()

    def _uniformity(self, moments: Tensor, _: Any, samples: Samples) -> Tensor:
        """Return the logarithm of the mean of exp(-2 |u - v|^2) = exp(4 u v - 4) over all pairs of samples."""
        pairs = pair_samples(samples, _BY_COSINE, self._world, max_bytes=None)
        sums = pairs.map_tiles(lambda values, *_: values.sub_(1).mul_(4).exp_().sum(dtype=torch.float64), "Uniformity")
        total = world.all_reduce_values(self._world, lambda: sum(sums, moments.new_zeros(1)))[0]
        if total == 0:  # states of a metric that did not keep the embeddings: each pair adds exp(-8) at least
            return moments.new_tensor(torch.nan)
        return (2 * total / (moments[0, 0] * (moments[0, 0] - 1))).log()

    def _hubness(self, moments: Tensor, _: Any, samples: Samples) -> Tensor:
        """Return the skewness of the number of times that a sample is among the 10 nearest of the others, by cosine."""
        lists = evaluation.list_samples(samples, _BY_COSINE, self._world, k=10, queries=None, max_bytes=None)
        num_occurrences = lists.index[lists.index >= 0].bincount(minlength=int(moments[0, 0])).double()
        deviation = num_occurrences - num_occurrences.mean()
        return deviation.pow(3).mean() / deviation.square().mean().pow(1.5)


def _squares_in(moments: Tensor) -> Tensor:
    """Return the sums of the squares of the columns."""
    has_products = moments.shape[0] == moments.shape[1]
    return moments.diagonal() if has_products else moments[1]


def _check_squares_fit(rows: Tensor) -> None:
    """Raise if the squares of a row underflow or overflow; zero vectors and rows that are not finite are allowed.

    Raises:
        ValueError: the message names the first such row.
    """
    if rows.numel() == 0:
        return
    largest = rows.abs().amax(1)
    is_too_small = (largest > 0) & (largest < _SMALLEST)
    is_too_large = (largest > _LARGEST) & largest.isfinite()
    is_out_of_range = is_too_small | is_too_large
    positions = is_out_of_range.nonzero()[:1, 0].tolist()
    if positions:
        (position,) = positions
        raise ValueError(
            f"`embeddings` must have coordinates between {_SMALLEST:g} and {_LARGEST:g} in size, as their squares are"
            f" added up in float64; got {float(largest[position]):g} as the largest of row {position}. Multiply all by"
            " one factor."
        )


def _identity_sums(rows: Tensor, norms: Tensor, identities: Tensor) -> Tensor:
    """Return a row for each identity of at least 0: its bits as float64, and the sums of 1, |u|^2 and u."""
    unit_vectors = rows / norms.clamp(min=1e-150)
    is_unit = norms > 0  # |u|^2 is 1, or 0 for a zero vector
    columns = [identities.view(norms.dtype)[:, None], norms >= 0, is_unit, unit_vectors]
    return _sum_by_identity(torch.cat(columns, 1)[identities >= 0])


def _sum_by_identity(rows: Tensor) -> Tensor:
    """Sum the rows of each identity; the bits of the first column are the identity."""
    distinct, place = rows[:, 0].view(torch.int64).unique(return_inverse=True)
    sums = rows.new_zeros((len(distinct), rows.shape[1])).index_add_(0, place, rows)
    sums[:, 0] = distinct.view(rows.dtype)
    return sums
