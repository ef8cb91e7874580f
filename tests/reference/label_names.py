"""Names of labels as integers, from the definition: one sample at a time.

The package is compared with this module, so nothing here may come from the package.
"""

from collections.abc import Sequence


def as_integers(*sides: Sequence[str | None]) -> list[list[int]]:
    """Number names by their first appearance on any side; "-1" and what is missing (None or "") is -1."""
    numbers: dict[str, int] = {}
    numbered = []
    for side in sides:
        of_side = []
        for name in side:
            if name is None or name in ("", "-1"):
                of_side.append(-1)
                continue
            if name not in numbers:
                numbers[name] = len(numbers)
            of_side.append(numbers[name])
        numbered.append(of_side)
    return numbered
