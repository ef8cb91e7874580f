"""How embeddings are spread: effective rank, norms, alignment, uniformity, hubness.

What most numbers need adds up over samples. Where a sample x of norm n is the row (1, is bad, n, x) of a matrix A, the
moments, A^T A in float64, hold the Gram matrix of the samples and all other sums:

               1        bad       n         x
    1          number   num bad   sum n     sum x
    n                             sum n^2
    x                                       sum x x^T

Alignment needs the sums of (1, |u|^2, u) of the unit vectors u of each identity: the squared distances over the pairs
of m samples add up to m (m - 1) + sum |u|^2 - |sum u|^2. Uniformity and hubness need the embeddings.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import normalize
from torchmetrics import MetricCollection
from typing_extensions import Unpack

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._arrays import at_work, place_of_work
from reid_torchmetrics.functional import segments, world
from reid_torchmetrics.functional.retrieval import evaluation
from reid_torchmetrics.functional.retrieval.sharding import GALLERY, QUERY, Samples
from reid_torchmetrics.metrics import base

from .ranking import check_not_written, record_update

_FIRST = 3  # column of the first coordinate
_ADDED = 1e-7  # to the share of each singular value, by RankMe
_SAME = 1e-12  # of a mean square: float32 rounds to about its root, and float64 to much less
_AT_A_TIME = 2048  # samples against as many: their products are 32 MiB
_NEIGHBORS = 10
_EACH_OTHER = evaluation.Protocol("", "", same_camera="keep", junk_identities=(), leave_one_out=True)
_Sizes: TypeAlias = Sequence[Sequence[int]]
_BY_COSINE = evaluation.RankingOptions(_EACH_OTHER, "cosine", "stable")


class _Quality(base.GrowingStates):
    """One number of `EmbeddingQuality`; the members of a collection share what they hold."""

    plot_lower_bound = plot_upper_bound = None  # type: ignore[assignment]
    update_called = True  # a warning of its own tells of no samples

    def __init__(self, measure: str, measures: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.measure, self.measures = measure, tuple(measures)
        none = torch.empty(0, dtype=torch.float64, device="cpu")
        states = {"moments": none.view(0, 0, 0), "identities": none.long(), "identity_sums": none.view(0, 0)}
        self._add_growing_states({**states, "embeddings": none.view(0, 0).float()})

    @base.naming_arguments
    def update(self, embeddings: Tensor | _checks.Array, identities: Tensor | _checks.Integers | None = None) -> None:
        """Check a batch and add it up; for "uniformity" and "hubness" its embeddings are kept, by reference.

        Args:
            embeddings: float [N, D], as the network gives them.
            identities: int [N]; for "alignment", else they are not read.

        Raises:
            TypeError: an argument of the wrong type or dtype.
            ValueError: shapes, devices or dimensions that do not fit, or no identities for "alignment"; nothing of the
                batch is stored then.
        """
        with self._deferring_errors():
            is_array = not isinstance(embeddings, Tensor)
            embeddings = _checks.embeddings("embeddings", embeddings, getattr(embeddings, "device", None))
            for moments in self._held()["moments"][:1]:
                _same_dimension(embeddings.shape[1], moments, "embeddings of earlier batches")
            rows = at_work(embeddings).detach().double()
            batch = {"moments": _moments(rows)[None]}
            if "alignment" in self.measures:
                if identities is None:
                    raise ValueError("`identities` must be given for the measure 'alignment'; got none.")
                identities = _checks.whole_labels("identities", identities, len(embeddings), embeddings.device)
                batch |= _by_identity(identities.to(rows.device, torch.int64), _directed(rows))
            if {"uniformity", "hubness"} & {*self.measures}:
                batch["embeddings"] = base.shared_copy(embeddings)
                record_update(batch["embeddings"], batch["moments"], is_array=is_array)
        for name, values in batch.items():
            getattr(self, name).append(values)
        self._add_up()

    def _forward(self, *args: Any, **kwargs: Any) -> Any:
        value = super()._forward(*args, **kwargs)
        self._add_up()
        return value

    def _add_up(self) -> None:
        """Let sums not grow with batches; sums of identities are added up where there are twice as many."""
        states = self._copy_state_dict()
        first, *others = states["moments"]
        added = {"moments": sum((each.to(first.device) for each in others), first)}
        sizes = [*map(len, states["identities"])]
        if sum(sizes[1:]) >= sum(sizes[:1]) > 0:
            added |= _by_identity(_joined(states["identities"]), _joined(states["identity_sums"]))
        vars(self).update({name: [values] for name, values in added.items()})

    def compute(self) -> Tensor:
        """The number, of the samples of all processes; NaN, with one warning, where it is not defined.

        Raises:
            DistributedMetricError: on all processes, if one of them failed or refused a batch, or if they do not hold
                the same measures, or embeddings of one dimension.
        """
        moments, sizes = self._moments_of_all()
        num_samples, num_bad = moments[0, :2].long().tolist()
        value, is_told_here = moments.new_tensor(torch.nan), self.measure == self.measures[0]  # once for all members
        why = f"{num_bad} of {num_samples} embeddings are NaN or infinite" if num_samples else "No sample was given"
        if num_samples and not num_bad:
            value, is_told_here = getattr(self, f"_{self.measure}")(moments, sizes), True
            why = f"`{self.measure}` is not defined for these embeddings"
        if value.isnan() and is_told_here and self._states_before_forward is None:  # a batch may well be small
            world.warn_once(self._world, "undefined", f"{why}, so the result is NaN.")
        return value.to(self.device, self.dtype)

    def _sync_compute(self) -> None:
        type(self).compute(self)

    def _moments_of_all(self) -> tuple[Tensor, _Sizes]:
        """The moments of the samples of all processes, and how many identities and embeddings each process holds."""

        def look() -> tuple[Tensor, list[int]]:
            self._raise_deferred_error()
            states = self._copy_state_dict()
            check_not_written(states["embeddings"])
            for other in states["moments"][1:]:
                _same_dimension(len(states["moments"][0][0]) - _FIRST, other, "merged embeddings")
            moments = at_work(self._whole("moments")).sum(0)
            return moments, [len(moments), *(sum(map(len, states[name])) for name in ("identities", "embeddings"))]

        chosen = {"measures": repr(self.measures)}, {"measure": self.measure}
        settings = world.Settings("EmbeddingQuality", "compute", *chosen)
        moments, table = world.meet(self._world, look, lambda: settings)
        widths, *sizes = map(list, zip(*table, strict=True))  # a process without samples does not know the width
        if len({*widths} - {0}) > 1:
            given = [width - _FIRST if width else "no samples" for width in widths]
            raise world.differing("embedding dimension", given)
        shape = [max(_FIRST, *widths)] * 2
        moments = moments if len(moments) else moments.new_zeros(shape)
        return world.all_reduce_values(self._world, moments.flatten).view(shape), sizes

    def _rankme(self, moments: Tensor, _: _Sizes) -> Tensor:
        """The exponential of the entropy of the singular values of the matrix [N, D]: it has min(N, D) of them."""
        squares = torch.linalg.eigvalsh(moments[_FIRST:, _FIRST:])[-int(moments[0, 0]) :]
        shares = normalize(squares.clamp(min=0).sqrt(), p=1, dim=0, eps=0) + _ADDED
        return (-shares * shares.log()).sum().exp()

    def _dead_dimensions(self, moments: Tensor, _: _Sizes) -> Tensor:
        """The share of dimensions with a variance of next to none of their mean square."""
        number, squares = moments[0, 0], moments.diagonal()[_FIRST:] / moments[0, 0]
        variance = squares - (moments[0, _FIRST:] / number).square()
        return (variance <= _SAME * squares).double().mean().where(number > 1, torch.nan)

    def _norm_mean(self, moments: Tensor, _: _Sizes) -> Tensor:
        return moments[0, 2] / moments[0, 0]

    def _norm_std(self, moments: Tensor, _: _Sizes) -> Tensor:
        return (moments[2, 2] / moments[0, 0] - self._norm_mean(moments, _).square()).clamp(min=0).sqrt()

    def _alignment(self, moments: Tensor, sizes: _Sizes) -> Tensor:
        """The mean of |u - v|^2 over all pairs of one identity, by the sums of the identities of all processes."""
        identities, sums = (at_work(self._whole(name)) for name in ("identities", "identity_sums"))
        width = len(moments) - _FIRST + 2
        sent = world.SentRows(lambda: [identities]), world.SentRows(lambda: [sums], (width,), torch.float64)
        added = _by_identity(*world.exchange_rows(self._world, sizes[0], *sent))
        sums = added["identity_sums"][added["identities"] >= 0]
        num_pairs = sums[:, 0] * (sums[:, 0] - 1)
        return 2 * (num_pairs + sums[:, 1] - sums[:, 2:].square().sum(1)).sum() / num_pairs.sum()

    def _uniformity(self, moments: Tensor, sizes: _Sizes) -> Tensor:
        """The logarithm of the mean of exp(-2 |u - v|^2) = exp(4 u v - 4) over all pairs of samples."""
        samples, num_all = self._numbered(sizes[1]), sum(sizes[1])
        total = torch.zeros(1, dtype=torch.float64, device=samples.device)

        def units(part: slice) -> Tensor:
            return _directed(samples.rows(part).all().double())[:, 2:]

        def compare(block: Tensor, place: tuple[int, int]) -> None:
            """Add up the pairs of a block and the samples of this process that do not come before it."""
            for part in segments.ranges(len(samples), _AT_A_TIME):
                here = self._world.process, part.start
                if here >= place:
                    values = (units(part) @ block.to(total.device).T).sub_(1).mul_(4).exp_()
                    total.add_((values.tril_(-1) if here == place else values).sum())

        for source, size in enumerate(sizes[1]):
            for part in segments.ranges(size, _AT_A_TIME):  # goes to all processes
                counts = [(part.stop - part.start) * (each == source) for each in range(self._world.size)]
                own = [part] * (source == self._world.process)
                sent = world.SentRows(partial(map, units, own), (len(moments) - _FIRST,), torch.float64)
                (block,) = world.exchange_rows(self._world, counts, sent)
                self._world.guarded(partial(compare, block, (source, part.start)))
        return (2 * world.all_reduce_values(self._world, lambda: total)[0] / (num_all * (num_all - 1))).log()

    def _hubness(self, _: Tensor, sizes: _Sizes) -> Tensor:
        """The skewness of how often each sample is among the 10 nearest of the others, by cosine."""
        samples = self._numbered(sizes[1])
        lists = evaluation.list_samples(samples, _BY_COSINE, self._world, k=_NEIGHBORS, queries=None, max_bytes=None)
        occurrence = lists.index[lists.index >= 0].bincount(minlength=sum(sizes[1])).double()
        deviation = occurrence - occurrence.mean()
        return deviation.pow(3).mean() / deviation.square().mean().pow(1.5)

    def _numbered(self, sizes: Sequence[int]) -> Samples:
        """Samples that are searched for among each other, each of an identity of its own."""
        blocks, process = self._copy_state_dict()["embeddings"], self._world.process
        device = place_of_work(blocks[-1].device if blocks else self.device)
        numbers = torch.arange(sizes[process], device=device) + sum(sizes[:process])
        roles = torch.full_like(numbers, QUERY | GALLERY, dtype=torch.int8)
        return Samples(blocks, roles, {"identities": numbers, "index": numbers})


def _same_dimension(dimension: int, moments: Tensor, others: str) -> None:
    _checks.same_dimension("embeddings", dimension, others, moments.shape[-1] - _FIRST)


def _joined(batches: Sequence[Tensor]) -> Tensor:
    return torch.cat([each.to(batches[0].device) for each in batches])  # the last is not yet where the others are


def _moments(rows: Tensor) -> Tensor:
    norms = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    is_bad = ~norms.isfinite()
    columns = torch.cat([torch.ones_like(norms), is_bad, torch.cat([norms, rows], 1).masked_fill(is_bad, 0)], 1)
    return columns.T @ columns


def _directed(rows: Tensor) -> Tensor:
    """1, |u|^2 and u of each row; a zero vector has no direction, and u is zero."""
    units = normalize(rows, dim=1, eps=torch.finfo(rows.dtype).tiny)
    squares = units.square().sum(1, keepdim=True)
    return torch.cat([torch.ones_like(squares), squares, units], 1)


def _by_identity(identities: Tensor, rows: Tensor) -> dict[str, Tensor]:
    """Distinct identities, and the sums of their rows."""
    distinct, place = identities.unique(return_inverse=True)
    sums = rows.new_zeros((len(distinct), rows.shape[1])).index_add_(0, place, rows)
    return {"identities": distinct, "identity_sums": sums}


class EmbeddingQuality(MetricCollection):
    """How embeddings are spread, as a `MetricCollection`: numbers that show a collapse, most of them without labels.

    All members are 0-d tensors, ready for `self.log_dict`; NaN, with one warning, where they are not defined, as
    without samples. What they need is added up in float64: a matrix [D + 3, D + 3], and for "alignment" a row of each
    identity, for any number of samples. Only "uniformity" and "hubness" keep the embeddings, by reference, as other
    metrics do. Every sample counts, also one that a distributed sampler repeats; `UnpaddedDistributedSampler` repeats
    none.

    - "rankme": effective rank, from 1 to D: the exponential of the entropy of the singular values of the matrix of all
      embeddings, as shares of their sum, plus 1e-7 (Garrido et al., "RankMe", ICML 2023). They are taken from the Gram
      matrix, which changes an effective rank by less than 1e-4 of itself where the embeddings have less than full rank.
    - "dead_dimensions": the share of dimensions with one value in all samples: a variance of at most 1e-12 of the mean
      square.
    - "norm_mean", "norm_std": mean and standard deviation of the norms.
    - "alignment": the mean squared distance of unit vectors of one identity, over all of their pairs; identities below
      0 are junk, and no pairs.
    - "uniformity": the logarithm of the mean of exp(-2 |u - v|^2) over all pairs of unit vectors. Both by Wang and
      Isola, "Understanding Contrastive Representation Learning through Alignment and Uniformity", ICML 2020.
    - "hubness": the skewness of how often each sample is among the 10 nearest of the others, by cosine (Radovanovic et
      al., "Hubs in Space", JMLR 2010).

    A zero vector is at right angles to all others.

    Args:
        measures: names of the numbers.
        prefix: put before every name, for instance "val/".
        postfix: put behind every name.
        kwargs: see `torchmetrics.Metric`.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown number, or none.

    Example:
        >>> import torch
        >>> from reid_torchmetrics import EmbeddingQuality
        >>> metrics = EmbeddingQuality(("rankme", "dead_dimensions", "alignment"))
        >>> embeddings = torch.tensor([[0.6, 0.8, 0.0, 0.0], [0.8, -0.6, 0.0, 0.0]])
        >>> metrics.update(embeddings, torch.tensor([7, 7]))
        >>> metrics.compute()  # two equal singular values, two dimensions without a value, one pair at a right angle
        {'rankme': tensor(2.0000), 'dead_dimensions': tensor(0.5000), 'alignment': tensor(2.)}
    """

    @base.spelled_out(base.MetricOptions)
    def __init__(
        self,
        measures: Sequence[_names.QualityMeasure] = ("rankme", "dead_dimensions", "norm_mean", "norm_std"),
        *,
        prefix: str | None = None,
        postfix: str | None = None,
        **kwargs: Unpack[base.MetricOptions],
    ) -> None:
        if not isinstance(measures, (tuple, list)):
            raise TypeError(f"`measures` must be a tuple or list of names; got {measures!r}.")
        for name in measures:
            _checks.one_of("measures", name, _names.QualityMeasure)
        _checks.nonempty("measures", measures)
        members: Any = {name: _Quality(name, measures, **kwargs) for name in measures}
        super().__init__(members, prefix=prefix, postfix=postfix, compute_groups=[[*members]])
        for name in members:  # the base class sorts by name
            self._modules[name] = self._modules.pop(name)

    @base.spelled_as(_Quality.update)
    def update(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Check a batch and add it up; for "uniformity" and "hubness" its embeddings are kept, by reference."""
        super().update(*args, **kwargs)

    forward = base.spelled_as(_Quality.update)(MetricCollection.forward)
