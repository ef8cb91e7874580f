"""Two models on the same queries: the chance of a mean difference, one draw and one sign at a time."""

from collections.abc import Sequence


def p_value(differences: Sequence[float], kept: Sequence[Sequence[float]]) -> float:
    """Return (1 + extreme ones) / (1 + all) of the choices of signs that are drawn: 1 keeps a sign, 0 flips it."""
    observed = abs(sum(differences))
    num_extreme = 0
    for choice in kept:
        total = sum(difference if keeps else -difference for keeps, difference in zip(choice, differences, strict=True))
        num_extreme += abs(total) >= observed - 1e-9
    return (1 + num_extreme) / (1 + len(kept))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's correction: of each p-value the largest, among those up to it, times how many are as large."""
    return [
        min(
            1.0,
            max(smaller * sum(other >= smaller for other in p_values) for smaller in p_values if smaller <= p_value),
        )
        for p_value in p_values
    ]
