"""The picture of TPIR over FPIR: steps where the counts say."""

import pytest
import torch

from reid_torchmetrics.functional.retrieval import evaluate_scores
from reid_torchmetrics.plot import plot_tpir
from tests.plot.texts import legend

SCORES = torch.tensor([[9.0, 2], [0, 7], [4, 5], [8, 0], [2, 6], [3, 3], [1, 0]])
EXAMPLE = evaluate_scores(SCORES, [1, 2, 1, 10, 11, 12, 12], [1, 2]).identification()
"""TPIR 1/3 at FPIR 0, 2/3 from 1/4 on; within rank 2 it is 1 from 2/4 on"""


def test_tpir_is_drawn_in_steps_over_fpir_in_percent():
    figure, axes = plot_tpir(EXAMPLE, rank=2, fpir=0.25)
    line = axes.lines[0]
    assert line.get_drawstyle() == "steps-post"
    assert line.get_xdata().tolist() == [0.1, 25, 50, 75, 100]  # 0 is on the border
    assert line.get_ydata().tolist() == pytest.approx([100 / 3, 200 / 3, 100, 100, 100])
    assert legend(axes) == ["TPIR 66.7 % at FPIR 25 %"]
    assert axes.get_title() == "Open-set identification, within rank 2"
    assert figure is axes.figure


def test_several_are_drawn_by_name_and_say_what_is_lacking():
    given = {"all": EXAMPLE}
    for name, identities in (("closed", [1, 2]), ("strangers", [8, 9])):
        given[name] = evaluate_scores(SCORES[:2], identities, [1, 2]).identification()
    _, axes = plot_tpir(given)
    assert legend(axes) == [
        "all  (TPIR 33.3 % at FPIR 1 %)",
        "closed  (n/a: no non-mated query)",
        "strangers  (n/a: no mated query)",
    ]
