"""The names of the numbers that papers report, and the convention of each in words."""

from __future__ import annotations

import re

from reid_torchmetrics import _checks

REPORTS = {
    "map": "average precision, rule {rule}, over {depth}",
    "map_at_r": "average precision over the first R ranks, R the number of positives, divided by R",
    "minp": "positives / rank of the last positive",
    "rank_": "CMC, {mode}, at rank {at}",
    "hit_rate_": "a positive among the first {at}",
    "precision_": "precision at {at}, divisor {precision_divisor}",
    "recall_": "positives among the first {at} / all positives",
    "r_precision": "precision at R, the number of positives",
    "mrr": "1 / rank of the first positive",
    "ndcg_": "nDCG at {at}, binary gains, log2 discount",
    "mean_rank": "rank of the first positive",
}
"""numbers by name; a name that ends in "_" is followed by k"""

DRAWN_REPORTS = ("map", "minp", "rank_")
"""those that have an expectation over drawn galleries"""


def parse_report(name: str, *, argument: str = "reports") -> tuple[str, int]:
    """The key of `REPORTS` that `name` begins with, and its k (0 where it has none); `argument` is what named it.

    Raises:
        ValueError: an unknown name, or a k that does not fit int64.
    """
    parts = re.fullmatch(r"(.*_)([1-9]\d*)", name) if isinstance(name, str) and name not in REPORTS else None
    key, k = (parts[1], int(parts[2])) if parts else (name, 0)
    _checks.report(argument, name, known=key in REPORTS and bool(k) == key.endswith("_"), options=REPORTS)
    _checks.fits_int64(argument, name, k)
    return key, k
