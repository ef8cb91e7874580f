"""Makes the page of known evaluators and conventions: `python -m tests.differences_page` writes it."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reid_torchmetrics.diagnosis.expected import ConventionChange, KnownEvaluator
from reid_torchmetrics.diagnosis.expected.known import (
    DETECTION_CHANGES,
    DETECTION_EVALUATORS,
    PAIR_CHANGES,
    PAIR_EVALUATORS,
    RETRIEVAL_CHANGES,
    RETRIEVAL_EVALUATORS,
)
from reid_torchmetrics.functional.displays import cut
from reid_torchmetrics.functional.retrieval import PROTOCOLS

PATH = Path(__file__).parents[1] / "docs" / "why_different.md"
KINDS: dict[str, tuple[Sequence[KnownEvaluator], Sequence[ConventionChange]]] = {
    "Retrieval": (RETRIEVAL_EVALUATORS, RETRIEVAL_CHANGES),
    "Detection": (DETECTION_EVALUATORS, DETECTION_CHANGES),
    "Pairs": (PAIR_EVALUATORS, PAIR_CHANGES),
}
PLACEHOLDERS = {"k": "k", "all": "N", "far": "FAR", "target": "P"}
"""what stands for them on the page"""
INTRODUCTION = """# Why does my number differ?

Another evaluator printed a number for your data, and ours is another one. `diagnose` finds out which convention gives
theirs:

```python
import torch

from reid_torchmetrics import diagnose, evaluate

generator = torch.Generator().manual_seed(0)
identities = torch.arange(200) % 40
embeddings = torch.randn(40, 8, generator=generator)[identities]
embeddings += torch.randn(200, 8, generator=generator)
results = evaluate(embeddings, identities, query_cameras=torch.arange(200) % 3)
print(f"{results['map']:.4f}")
explanation = diagnose(results, expected=11.96, measure="map")
for convention in explanation.conventions:
    print(convention.call, *convention.words)
print(*explanation.evaluators, sep=", ")
PRINTED
```

- The number is a share or in percent, and its digits are its tolerance: 56.3 stands for 56.25 to 56.35. To keep a zero
  at the end, pass a text, `expected="0.5630"`.
- `diagnose(metric, expected=56.3)` takes whatever [`diagnose`](diagnosis.md) takes. Without samples, conventions that
  need other ranks or matches are not tried.
- With files: `reid-torchmetrics diagnose evaluate query.npz gallery.npz --expected 56.3 --measure map`.
- Without `measure`, other measures are tried, too, such as Rank-1 for mAP.
- `print(explanation)` lists the evaluators, the options, and the lines that compute the number here. If no evaluator
  and no single option gives it, it lists pairs of options, with the chance that some pair fits by luck, and the nearest
  numbers.

The tables below have everything that is tried. Each evaluator was run, and a test compares its recorded numbers.
Options that are not in its row are up to you; those of retrieval are beside the defaults of Market-1501.
In names k is a cutoff, N one beyond all lists, FAR a false accept rate, and P the prior of minDCF.

These numbers of detection have no row, because their objects are matched in another way:

- kwcoco's own score, `score_kwcoco`, matches the objects of all classes together and adds points to classes with few.
- globox by size compares a detection with objects of other sizes only where no free object of the size is left.
- nuScenes matches by the distance of centers; only its order of equal scores is among the conventions.
"""


def page() -> str:
    """The page as Markdown."""
    parts = [INTRODUCTION.replace("PRINTED", printed())]
    for title, (evaluators, changes) in KINDS.items():
        rows = [evaluator_row(evaluator) for evaluator in evaluators]
        first_of_names = {evaluator.name: row for evaluator, row in reversed(list(zip(evaluators, rows, strict=True)))}
        for name, row in first_of_names.items():
            row[0] = f'<a id="{anchor(title, name)}"></a>{row[0]}'
        parts.append(f"\n## {title}\n\n### Evaluators of {title.lower()}\n\n")
        parts.append(table(("evaluator", "function", "numbers", "options here", "what it does"), rows))
        parts.append(f"\n### Conventions of {title.lower()}\n\n")
        parts.append(table(("option here", "what differs"), [change_row(change) for change in changes]))
    return "".join(parts)


def printed() -> str:
    """What the example prints, as comments."""
    import contextlib  # noqa: PLC0415 - of this function alone
    import io  # noqa: PLC0415

    code = INTRODUCTION.partition("```python\n")[2].partition("PRINTED")[0]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, {})  # noqa: S102 - the code above
    return "\n".join(f"# {line}" for line in out.getvalue().splitlines())


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def anchor(title: str, name: str) -> str:
    """The anchor of the first row of an evaluator, to which other pages link."""
    return "-".join(re.findall(r"[a-z0-9]+", f"{title} {name}".lower()))


def evaluator_row(evaluator: KnownEvaluator) -> list[str]:
    """The cells of an evaluator."""
    names = "; ".join(
        f"{theirs}: {report if isinstance(report, str) else 'none here'}"
        for theirs, report in evaluator.measures.items()
    )
    defaults = vars(PROTOCOLS["market1501"])
    options = ", ".join(
        option(name, value) for name, value in evaluator.options.items() if (name, value) not in defaults.items()
    )
    version = f"{evaluator.name}, {evaluator.version}"
    return [
        version,
        evaluator.source.replace("_", "\\_"),
        names.format(**PLACEHOLDERS),
        options or "the defaults",
        evaluator.words,
    ]


def change_row(change: ConventionChange) -> Sequence[str]:
    """The cells of a convention."""
    return option(change.option, change.value), change.words


def option(name: str, value: Any) -> str:
    """An option with its value as code."""
    return f"`{name}={cut(repr(value))}`"


if __name__ == "__main__":
    PATH.write_text(page(), encoding="utf-8")
