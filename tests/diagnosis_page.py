"""Makes the page of causes from the registries: `python -m tests.diagnosis_page` writes `docs/diagnosis.md`."""

import re
import string
import sys
from collections.abc import Mapping
from pathlib import Path

from reid_torchmetrics.diagnosis.causes import Cause
from reid_torchmetrics.diagnosis.detection import DETECTION_CAUSES
from reid_torchmetrics.diagnosis.lists import INDEX_CAUSES, LIST_CAUSES
from reid_torchmetrics.diagnosis.pairs import PAIR_CAUSES
from reid_torchmetrics.diagnosis.retrieval import RETRIEVAL_CAUSES

PATH = Path(__file__).parents[1] / "docs" / "diagnosis.md"
REGISTRIES: dict[str, Mapping[str, Cause]] = {
    "Re-identification and retrieval": RETRIEVAL_CAUSES,
    "Ranked lists": LIST_CAUSES,
    "Lists of an index": INDEX_CAUSES,
    "Pairs": PAIR_CAUSES,
    "Detection": DETECTION_CAUSES,
}
INTRODUCTION = """# My number cannot be right

`diagnose` looks for every mistake on this page. Pass it a metric, or the results of a function:

```python
import torch

from reid_torchmetrics import ReIDMeanAP, diagnose

embeddings = torch.randn(80, 8, generator=torch.Generator().manual_seed(0))
identities = torch.arange(80) % 20
metric = ReIDMeanAP()
metric.update(embeddings[:40], identities[:40], is_query=True)
metric.update(embeddings, identities, is_query=False)
diagnosis = diagnose(metric)
for answer in diagnosis.found:
    print(answer.name, answer.text.partition(",")[0], sep=": ")
# copied_queries: Most queries have a copy of themselves in the gallery
```

| you have | you write |
| --- | --- |
| a metric, a collection of metrics or a `COCOeval` | `diagnose(metric)`; on several processes, all must call it |
| results of `evaluate` or `evaluate_scores` | `diagnose(results)` |
| other results, and their data | `diagnose(results, {"preds": preds, "target": target})`: the function's arguments |
| other results alone | `diagnose(results)`: the answers that ranks or matches give |
| files | `reid-torchmetrics diagnose evaluate query.npz gallery.npz`, or `lists`, `detect` or `pairs` |

`diagnose(metric, expected=56.3)` searches the conventions of other evaluators for one that gives this number: [why does
my number differ?](why_different.md)

It prints as a table of all causes: "found", "not found", or what is lacking for an answer. The sentences about the
causes that were found are below the table. `diagnose` changes nothing: a metric keeps its samples, its value and its
warnings.

## Warnings

You need not ask: if the results look as if there was a mistake, it is looked for when they are made, and you get an
`AdviceWarning`. The numbers are computed from the input as you passed it. Each warning below is issued once for each
metric object, again after `reset`, and in each call of a function. On several processes, the first one issues it.
`forward` gives no advice.

All advice has one warning category, so one line silences it, or turns it into errors in a test:

```python
import warnings

from reid_torchmetrics import AdviceWarning

warnings.simplefilter("ignore", AdviceWarning)  # or "error"
```

To silence a single warning, use the beginning of its text: `warnings.filterwarnings("ignore", "Only 0 of")`. With
pytest, `-W "ignore::reid_torchmetrics.AdviceWarning"` silences all advice. Other warnings of this package are
`UserWarning`s. They state facts about the numbers, for example that every query has a mate.

Below, each cause has its name in the table of `diagnose`, the condition, and the sentence that you read. This part is
generated from the registries in `diagnosis`.
"""


def page() -> str:
    """The page as Markdown."""
    parts = [INTRODUCTION]
    for title, rows in REGISTRIES.items():
        parts.append(f"\n## {title}\n")
        parts += [section(row) for row in rows.values()]
    return "".join(parts)


def section(row: Cause) -> str:
    """What is checked, its name, when it is told, and what it says."""
    shown = re.sub(r"\s+", " ", message(row))
    title = f"{row.checks[0].upper()}{row.checks[1:]}"
    return f"\n### {title}\n\n`{row.name}`: {condition(row)}\n\n> {shown}\n{explained(row)}"


def condition(row: Cause) -> str:
    """The condition in words, the rest of the trial's docstring, with the constants of its module."""
    _, _, words = (row.find.__doc__ or "").partition("\n\n")
    return " ".join(words.split()).format(**vars(sys.modules[row.find.__module__]))


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
