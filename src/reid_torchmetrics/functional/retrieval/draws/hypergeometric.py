"""How many of a stratum's items ahead of a positive are drawn: the hypergeometric law."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics.functional import segments

_BELOW_ONE = 1 - 2.0**-53


class Hypergeometric:
    """The law of T, the number of marked items among those drawn, one law for each entry.

    P(T = t) = C(c, t) C(n - c, m - t) / C(n, m) where m of n items are drawn without replacement and c are marked. Its
    generating function E[x^T] and the probability that none is drawn are all that an exact expectation needs.
    """

    def __init__(
        self, available: Int[Tensor, "*shape"], marked: Int[Tensor, "*shape"], drawn: Int[Tensor, "*shape"]
    ) -> None:
        """Tabulate P(T = least + j) for j = 0, 1, ...; none of the arguments exceeds `available`."""
        self.mean = drawn * marked / available.clamp(min=1).double()
        self.least = (drawn + marked - available).clamp(min=0)
        spread = torch.minimum(marked, drawn) - self.least
        steps = torch.arange(int(spread.max()) if spread.numel() else 0, device=marked.device)
        count = self.least[..., None] + steps
        # P(T = t + 1) / P(T = t); its logarithm is minus infinity beyond the largest T.
        ratio = ((marked[..., None] - count) * (drawn[..., None] - count)).clamp(min=0) / (
            (count + 1) * (available - marked - drawn)[..., None].add(count + 1).clamp(min=1)
        ).double()
        self.probability = functional.pad(segments.running_sums(ratio.log(), -1), (1, 0)).softmax(-1)

    def none(self) -> Float[Tensor, "*shape"]:
        """P(T = 0)."""
        return self.probability[..., 0].where(self.least == 0, 0)

    def at(self, log_x: Float[Tensor, " nodes"]) -> tuple[Float[Tensor, "*shape nodes"], Float[Tensor, "*shape nodes"]]:
        """E[x^T] and E[T x^T], the second being x times the derivative of the first."""
        count = torch.arange(self.probability.shape[-1], device=log_x.device)
        of_count, least = powers(count, log_x), self.least[..., None]
        shift = powers(self.least, log_x)
        return shift * (self.probability @ of_count), shift * ((self.probability * (least + count)) @ of_count)

    def log_at(self, log_x: Float[Tensor, " nodes"]) -> Float[Tensor, "*shape nodes"]:
        """log E[x^T], which is accurate for x near 1."""
        count = torch.arange(self.probability.shape[-1], device=log_x.device)
        missing = self.probability @ -torch.expm1(count[:, None] * log_x)
        return self.least[..., None] * log_x + torch.log1p(-missing.clamp(max=_BELOW_ONE))


def powers(exponent: Int[Tensor, "*shape"], log_x: Float[Tensor, " nodes"]) -> Float[Tensor, "*shape nodes"]:
    """x to the power of each exponent; the same ones are looked up, which are often few and small."""
    distinct, place = exponent.unique(return_inverse=True)
    looked_up: Tensor = (distinct[:, None] * log_x).exp_().index_select(0, place.view(-1))
    return looked_up.view([*exponent.shape, len(log_x)])
