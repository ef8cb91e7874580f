"""Old names of arguments work, and say the new one."""

import pytest
import torch

from reid_torchmetrics import DetectionMAP
from reid_torchmetrics._renamed import renamed
from reid_torchmetrics.functional.detection import compute_ap
from reid_torchmetrics.functional.retrieval import evaluate

EMBEDDINGS, IDENTITIES = torch.eye(4), torch.tensor([0, 0, 1, 1])


@pytest.mark.parametrize(
    ("call", "old", "new", "value"),
    [
        (lambda **named: DetectionMAP(**named).rule, "interpolation", "rule", "voc"),
        (lambda **named: float(compute_ap([0.5, 1.0], [1.0, 0.5], **named)), "mode", "rule", "voc"),
        (
            lambda **named: (
                evaluate(EMBEDDINGS, EMBEDDINGS, IDENTITIES, IDENTITIES)
                .interval("map", generator=torch.Generator().manual_seed(0), **named)
                .level
            ),
            "confidence",
            "level",
            0.8,
        ),
    ],
)
def test_an_old_name_is_taken_with_a_warning(call, old, new, value):
    with pytest.warns(FutureWarning, match=f"^`{old}` is now called `{new}`.$"):
        by_old_name = call(**{old: value})
    assert by_old_name == call(**{new: value})


def test_both_names_at_once_are_refused():
    with pytest.raises(TypeError, match=r"^`rule` must be given once; got `interpolation`, its old name, besides\.$"):
        DetectionMAP(interpolation="voc", rule="voc")


def test_other_arguments_are_passed_on_as_they_are():
    assert renamed(old="new")(lambda first, *, new: (first, new))(1, new=2) == (1, 2)
