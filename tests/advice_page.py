"""Makes the page of advice from the registries: `python -m tests.advice_page` writes `docs/advice.md`."""

import re
import string
from collections.abc import Mapping
from pathlib import Path

from reid_torchmetrics.diagnosis.causes import Cause
from reid_torchmetrics.diagnosis.detection import DETECTION_CAUSES
from reid_torchmetrics.diagnosis.index_lists import INDEX_CAUSES
from reid_torchmetrics.diagnosis.lists import LIST_CAUSES
from reid_torchmetrics.diagnosis.pairs import PAIR_CAUSES
from reid_torchmetrics.diagnosis.retrieval import RETRIEVAL_CAUSES

PATH = Path(__file__).parents[1] / "docs" / "advice.md"
REGISTRIES: dict[str, Mapping[str, Cause]] = {
    "Re-identification and retrieval": RETRIEVAL_CAUSES,
    "Ranked lists": LIST_CAUSES,
    "Lists of an index": INDEX_CAUSES,
    "Pairs": PAIR_CAUSES,
    "Detection": DETECTION_CAUSES,
}
INTRODUCTION = """# Advice

If the input is probably not what you meant, you get an `AdviceWarning` after the numbers are computed. The numbers are
computed from the input as you passed it. Each warning below is issued once for each metric object, again after `reset`,
and in each call of a function. On several processes, the first one issues it. `forward` gives no advice.

All advice has one warning category, so one line silences it, or turns it into errors in a test:

```python
import warnings

from reid_torchmetrics import AdviceWarning

warnings.simplefilter("ignore", AdviceWarning)  # or "error"
```

To silence a single warning, use the beginning of its text: `warnings.filterwarnings("ignore", "Only 0 of")`. With
pytest, `-W "ignore::reid_torchmetrics.AdviceWarning"` silences all advice. Other warnings of this package are
`UserWarning`s. They state facts about the numbers, for example that every query has a mate.

This page is generated from the registries in `diagnosis`.
"""


def page() -> str:
    """The page as Markdown."""
    parts = [INTRODUCTION]
    for title, rows in REGISTRIES.items():
        parts.append(f"\n## {title}\n")
        parts += [section(row) for row in rows.values()]
    return "".join(parts)


def section(row: Cause) -> str:
    """What is checked, when the advice is given, and what it says."""
    shown = re.sub(r"\s+", " ", message(row))
    return f"\n### {row.checks[0].upper()}{row.checks[1:]}\n\n{row.condition()}\n\n> {shown}\n{explained(row)}"


def message(row: Cause) -> str:
    """The warning with an ellipsis in the place of each value."""
    return "".join(text + ("" if field is None else "…") for text, field, _, _ in string.Formatter().parse(row.message))


def explained(row: Cause) -> str:
    """A sentence about the rows that make this one silent."""
    if not row.explained_by:
        return ""
    rows = {name: each for rows in REGISTRIES.values() for name, each in rows.items()}
    others = "; ".join(rows[name].checks for name in row.explained_by)
    return f"\nThis warning is left out after one about: {others}.\n"


if __name__ == "__main__":
    PATH.write_text(page(), encoding="utf-8")
