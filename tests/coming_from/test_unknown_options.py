"""The functions to copy pass their `**options` on, and none of them swallows a name that nothing has."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import torch

from tests.coming_from.pages import PAGES, blocks, names

ROWS, LABELS, CAMERAS = torch.eye(4), torch.tensor([0, 1, 0, 1]), torch.tensor([0, 0, 1, 1])
MATRIX = (ROWS.numpy(), *(labels.numpy() for labels in (LABELS, LABELS, CAMERAS, CAMERAS)))

COLUMNS = {"f": np.eye(4), "label": LABELS.numpy(), "cam": CAMERAS.numpy()}


def fed(made: Any) -> Any:
    """A class of the page after a batch."""
    made.reset()
    made.update((torch.cat([ROWS, ROWS]), LABELS.repeat(2), torch.arange(8)))
    return made.compute()


CALLS: dict[str, Callable[..., Any]] = {
    "R1_mAP_eval": lambda made, **options: fed(made(4, **options)),
    "coco_results": lambda made, **options: made("results.json", "instances.json", **options),
    "evaluate_gpu": lambda made, **options: made("pytorch_result.mat", **options),
    "get_accuracy": lambda made, **options: made(ROWS, LABELS, **options),
    "retrieval": lambda made, **options: made(torch.rand(4), LABELS, CAMERAS, **options),
    "retrieval_metrics": lambda made, **options: made(ROWS, LABELS, **options),
    "yolo_results": lambda made, **options: made("truths", "found", **options),
}
"""by function; others take a matrix of distances and labels"""


def functions() -> list[tuple[str, str]]:
    """Page and name of each function or class at the top of a block that takes options."""
    found = []
    for page in PAGES:
        for node in (node for block in blocks(page) for node in ast.parse(block).body):
            function = node.body[0] if isinstance(node, ast.ClassDef) else node  # its `__init__` is the first one
            if isinstance(function, ast.FunctionDef) and function.args.kwarg:
                found.append((page, node.name))
    return found


@pytest.mark.parametrize(("page", "name"), functions())
def test_a_function_to_copy_refuses_an_option_that_nothing_has(
    page: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sides = {f"{side}_{end}": values for side in ("query", "gallery") for end, values in COLUMNS.items()}
    scipy.io.savemat("pytorch_result.mat", sides)
    for folder, line in (("truths", "0 .5 .5 .4 .4"), ("found", "0 .5 .5 .4 .4 .9")):
        Path(folder).mkdir()
        Path(folder, "image.txt").write_text(line, encoding="utf-8")
    call = CALLS.get(name, lambda made, **options: made(*MATRIX, **options))
    with pytest.raises((TypeError, ValueError), match=r"[Uu]nexpected keyword argument.*no_such_option"):
        call(names(page)[name], no_such_option=1)
