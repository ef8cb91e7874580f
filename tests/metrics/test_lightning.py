"""In a LightningModule: `self.log`, `self.log_dict`, sanity check, two loaders, two epochs, one ranking each."""

import pickle
import re
import warnings

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MetricCollection

from reid_torchmetrics import DetectionMAP, ReIDCMC, ReIDCMCCurve, ReIDMeanAP, ReIDMetrics
from reid_torchmetrics.functional.retrieval.evaluation import ranking
from tests.functional.detection.detection_samples import images as boxes
from tests.metrics.reid.samples import batches, fed


class Module(lightning.LightningModule):
    """Embeds with a layer that does nothing, so that the values are known."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(6, 6)
        torch.nn.init.eye_(self.layer.weight)
        torch.nn.init.zeros_(self.layer.bias)
        self.val_map = ReIDMeanAP()
        self.val_cmc = ReIDCMC(top_k=1)
        self.metrics = ReIDMetrics(ranks=(1, 5), prefix="val/")
        self.curve = ReIDCMCCurve(max_rank=5)
        self.seen = []

    def training_step(self, batch):
        return 0 * self.layer(batch[0]).sum()

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        embeddings, identities, cameras = batch
        for metric in (self.val_map, self.val_cmc, self.metrics, self.curve):
            metric.update(self.layer(embeddings), identities, cameras, is_query=dataloader_idx == 0)
        if dataloader_idx == 1:
            self.log("val_map", self.val_map, add_dataloader_idx=False)

    def on_validation_epoch_end(self):
        self.log("val_cmc", self.val_cmc)
        self.log_dict(self.metrics)
        self.seen.append(self.curve.compute())
        self.curve.reset()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)


def loaders(size: int = 8) -> list[DataLoader]:
    found = []
    for role in (True, False):
        own = [batch for batch in batches() if batch["is_query"] is role]
        names = ("embeddings", "identities", "cameras")
        data = TensorDataset(*(torch.cat([batch[name] for batch in own]) for name in names))
        found.append(DataLoader(data, batch_size=size))
    return found


def trainer(folder, **options) -> lightning.Trainer:
    return lightning.Trainer(
        max_epochs=2, accelerator="cpu", logger=CSVLogger(folder), enable_progress_bar=False,
        enable_model_summary=False, log_every_n_steps=1, **options,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*does not have many workers")
        warnings.filterwarnings("ignore", message=".*LeafSpec")
        warnings.filterwarnings("ignore", message=".*No query can be evaluated")
        warnings.filterwarnings("ignore", message=".*exists and is not empty")
        yield


@pytest.fixture
def num_rankings(monkeypatch, nothing_kept):
    calls = []
    count_ranks = ranking.count_sharded_ranks
    monkeypatch.setattr(ranking, "count_sharded_ranks", lambda *a, **k: calls.append(1) or count_ranks(*a, **k))
    return calls


def test_fit_logs_the_values_after_a_sanity_check_of_queries_alone(tmp_path, num_rankings):
    model = Module()
    checkpoint = ModelCheckpoint(tmp_path, monitor="val_map", mode="max", filename="{val_map:.4f}")
    run = trainer(tmp_path, callbacks=[checkpoint], num_sanity_val_steps=1)
    run.fit(model, loaders()[1], loaders())

    logged = run.callback_metrics
    assert logged["val_map"] == pytest.approx(fed(ReIDMeanAP(), batches()).compute())
    assert logged["val_cmc"] == logged["val/rank_1"] == fed(ReIDCMC(), batches()).compute()
    assert logged["val/map"] == logged["val_map"]
    assert torch.equal(model.seen[-1], fed(ReIDCMCCurve(max_rank=5), batches()).compute())
    assert torch.equal(model.seen[-1], model.seen[-2])
    assert f"{logged['val_map']:.4f}" in checkpoint.best_model_path


def test_validate_in_inference_mode_gives_the_same(tmp_path):
    (values, _), *_ = [trainer(tmp_path).validate(Module(), loaders(), verbose=False)]
    assert values["val/map"] == pytest.approx(float(fed(ReIDMeanAP(), batches()).compute()))


def test_bfloat16_autocast_of_the_trainer_does_not_change_the_ranking_of_given_embeddings(tmp_path):
    run = trainer(tmp_path, precision="bf16-mixed")
    values = run.validate(Module(), loaders(), verbose=False)[0]
    rounded = batches()
    for batch in rounded:
        batch["embeddings"] = batch["embeddings"].bfloat16()
    assert values["val/map"] == pytest.approx(float(fed(ReIDMeanAP(), rounded).compute()), abs=1e-6)


class Logs(Module):
    """Gives one metric to `self.log`, from one hook or another."""

    def __init__(self, metric, *, per_step: bool = False) -> None:
        super().__init__()
        self.metric, self.per_step = metric, per_step

    def validation_step(self, batch, batch_idx):
        if isinstance(self.metric, DetectionMAP):
            self.metric(*boxes(1, 4, with_ids=True))
        else:
            self.metric(*batch)
        if self.per_step:
            self.log("value", self.metric, on_step=True, on_epoch=True)

    def on_validation_epoch_end(self):
        if not self.per_step:
            self.log("value", self.metric)


def logged(folder, metric, **options) -> float:
    run = trainer(folder, limit_val_batches=1)
    run.validate(Logs(metric, **options), loaders()[1], verbose=False)
    return float(run.callback_metrics["value_epoch" if options.get("per_step") else "value"])


@pytest.mark.parametrize("per_step", [True, False])
@pytest.mark.parametrize(
    ("metric", "instead"),
    [
        (ReIDCMCCurve, "ReIDCMC(top_k=k)"),
        (DetectionMAP, 'DetectionMAP(metric="map")` by it, or `DetectionMetrics()` by `self.log_dict'),
    ],
)
def test_a_metric_of_several_numbers_is_refused_at_once_with_what_to_log(tmp_path, metric, instead, per_step):
    message = f"`value` of `self.log` must be a metric of one number; got {metric.__name__}: log `{instead}`."
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        logged(tmp_path, metric(), per_step=per_step)


@pytest.mark.parametrize("per_step", [True, False])
@pytest.mark.parametrize(
    ("metric", "options"),
    [(DetectionMAP, {"metric": "map"}), (ReIDCMC, {"top_k": 2}), (ReIDCMCCurve, {"max_rank": 1}), (ReIDMeanAP, {})],
)
def test_a_metric_of_one_number_is_logged(tmp_path, metric, options, per_step):
    held = metric(**options)
    value = logged(tmp_path, held, per_step=per_step)
    if metric is DetectionMAP:
        expected = metric(**options)(*boxes(1, 4, with_ids=True))
    else:
        expected = metric(**options)(*next(iter(loaders()[1])))
    assert value == pytest.approx(float(expected))


def test_the_last_value_of_forward_is_kept_as_torchmetrics_keeps_it():
    batch = next(iter(loaders()[1]))
    metric = ReIDCMCCurve(max_rank=3)
    assert metric._forward_cache is None
    value = metric(*batch)
    for copy in (metric, metric.clone(), pickle.loads(pickle.dumps(metric))):
        assert torch.equal(copy.__dict__["_forward_cache"], value)
        assert torch.equal(copy._forward_cache, value)
    assert metric.set_dtype(torch.float64)._forward_cache.dtype == torch.float64
    assert torch.equal((metric + 1)(*batch), value.double() + 1)
    assert torch.equal(MetricCollection({"curve": metric})(*batch)["curve"], value.double())
    metric.reset()
    assert metric._forward_cache is None


@pytest.mark.parametrize("package", ["lightning.pytorch.trainer", "pytorch_lightning.trainer"])
def test_both_names_of_lightning_are_refused(package):
    namespace = {"__name__": package}
    exec("def read(metric):\n    return metric._forward_cache", namespace)  # noqa: S102 - a module of that name
    with pytest.raises(TypeError, match=r"log `DetectionMAP\(metric=\"map\"\)`"):
        namespace["read"](DetectionMAP())
    assert namespace["read"](DetectionMAP(metric="map")) is None
