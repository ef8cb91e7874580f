"""`pairs`: scores of given pairs, by `verify_pairs`."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch

from reid_torchmetrics import _names
from reid_torchmetrics.data import read_pairs
from reid_torchmetrics.functional.displays import counted
from reid_torchmetrics.functional.model_tables import ModelTable, Number
from reid_torchmetrics.tasks import verify_pairs
from reid_torchmetrics.tasks.metrics import PAIR_METRICS

from .outputs import Outputs

_MEASURES = {
    "accuracy": ("accuracy", "mean over 10 folds of pairs in order, each at the best threshold of the others (LFW)"),
    "auc": ("AUC", "area under the ROC curve"),
    "eer": ("EER", "equal error rate, interpolated on the ROC curve"),
    "eer_closest": ("EER (closest)", "mean of both error rates where they are closest"),
    "eer_voxceleb": ("EER (VoxCeleb)", "equal error rate as in the code of VoxCeleb"),
    "min_dcf": ("minDCF", "least detection cost, p_target {p_target:g}"),
    "tar_at_far": ("TAR@FAR", "largest true accept rate with a false accept rate of at most {far:g}"),
}
"""title and convention of each number"""
_LARGEST = 1 + 1e-5  # cosine, with the rounding of float32


def run(arguments: SimpleNamespace, options: dict[str, Any]) -> int:
    """Evaluate scores of pairs; return the exit status."""
    outputs = Outputs(arguments)
    scores, same = read_pairs(arguments.pairs, arguments.scores, form=arguments.form)
    return outputs.write({"": PairNumbers(scores, same, **options)})


class PairNumbers:
    """Numbers of scored pairs by name, with their conventions."""

    def __init__(
        self,
        scores: Any,
        same: Any,
        *,
        reports: Sequence[_names.PairMetric] = ("auc", "eer", "tar_at_far", "min_dcf"),
        far: float = 0.001,
        p_target: float = 0.05,
    ) -> None:
        """Compute the numbers.

        Raises:
            ValueError: pairs of one kind alone, an option of another value, or an accuracy of scores that are no
                cosines.
        """
        if "accuracy" in reports:
            largest = max(abs(scores))
            if largest > _LARGEST:
                raise ValueError(f"`accuracy` must be of cosines, from -1 to 1; got {largest:g}.")
        verification = verify_pairs(scores, same)
        self._num_genuine = verification.num_genuine
        self._num_impostors = verification.num_impostors
        self._counts_text = f"{counted(self._num_genuine, 'pair')} of one identity, {self._num_impostors:,} of two"
        tensors = (torch.tensor(scores, device="cpu"), torch.tensor(same, device="cpu"))
        options = SimpleNamespace(far=far, p_target=p_target)
        self.numbers: dict[str, Number] = {}
        for name in reports:
            title, convention = _MEASURES[name]
            value = float(PAIR_METRICS[name](options, verification, tensors))
            self.numbers[name] = Number(name, title, value, convention.format(far=far, p_target=p_target))

    def to_dict(self) -> dict[str, Any]:
        """Return numbers, conventions and counts, JSON-safe."""
        measures = {name: number.to_dict() for name, number in self.numbers.items()}
        return {"measures": measures, "counts": {"same": self._num_genuine, "other": self._num_impostors}}

    def model_table(self, name: str = "model") -> ModelTable:
        """Return a table of papers with one row."""
        sentences = [self._counts_text]
        row = {}
        for measure, number in self.numbers.items():
            sentences.append(f"{number.title}: {number.convention}")
            row[measure] = number._replace(convention="")  # the caption has it, for numbers of one kind, too
        return ModelTable({name: row}, ". ".join(sentences))

    def __format__(self, form: str) -> str:
        lines = [self._counts_text]
        for name, number in self.numbers.items():
            lines.append(f"  {name:<12} {number.value:{form}}  {number.convention}")
        return "\n".join(lines)
