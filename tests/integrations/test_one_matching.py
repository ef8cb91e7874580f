"""Lightning logs metrics of the same images after one matching."""

import lightning
import pytest
import torch
from lightning.pytorch.loggers import CSVLogger

from reid_torchmetrics import DetectionMAP, DetectionMetrics
from reid_torchmetrics.functional.detection.evaluation import image_matches
from tests.functional.detection.detection_samples import fed
from tests.functional.detection.evaluation.test_matchings_once import GIVEN, num_matchings

__all__ = ["num_matchings"]


class Module(lightning.LightningModule):
    """Logs a collection, and two metrics of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.metrics = DetectionMetrics(classes={2: "dog"}, prefix="val/")
        self.own, self.strict = DetectionMAP(metric="map"), DetectionMAP(metric="map_75")

    def validation_step(self, batch, batch_idx):
        for metric in (self.metrics, self.own, self.strict):
            metric.update(*batch)

    def on_validation_epoch_end(self):
        self.log_dict(self.metrics)
        self.log_dict({"own": self.own, "strict": self.strict})


@pytest.mark.usefixtures("quiet_folder")
def test_lightning_logs_them_after_one_matching(tmp_path, num_matchings):
    batches = [(GIVEN[0][first : first + 4], GIVEN[1][first : first + 4]) for first in range(0, 10, 4)]
    run = lightning.Trainer(
        accelerator="cpu", logger=CSVLogger(tmp_path), enable_progress_bar=False, enable_model_summary=False
    )
    (values,) = run.validate(Module(), torch.utils.data.DataLoader(batches, batch_size=None), verbose=False)
    assert num_matchings.call_count == 1
    image_matches.matchings.clear()
    expected = fed(DetectionMetrics(classes={2: "dog"}, prefix="val/"), *GIVEN).compute()
    assert values == pytest.approx(
        {name: float(value) for name, value in expected.items()}
        | {"own": float(expected["val/map"]), "strict": float(expected["val/map_75"])}
    )
