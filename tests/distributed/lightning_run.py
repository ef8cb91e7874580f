"""A script that trains and validates on two processes with Lightning, and saves what every process logged.

    python -m tests.distributed.lightning_run FOLDER

Each problem and the pictures have a folder of their own. Lightning starts the script once more, for the second process.
"""

import sys
from datetime import timedelta
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.strategies import DDPStrategy
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from reid_torchmetrics import ReIDMeanAP, ReIDMetrics, UnpaddedDistributedSampler
from tests.distributed import pictures_run

NUM_QUERIES, NUM_GALLERY, NUM_STRANGERS = 13, 39, 20
NUM_PEOPLE, NUM_INPUTS, NUM_OUTPUTS = 5, 12, 4
BATCH_SIZE, SANITY_STEPS = 5, 2  # of each loader
COLLECTIVE_TIMEOUT = timedelta(seconds=30)


def samples(num: int = NUM_QUERIES + NUM_GALLERY) -> dict[str, Tensor]:
    """The first samples of: queries, strangers, rest of the gallery; the sanity check gets as far as the strangers."""
    generator = torch.Generator().manual_seed(0)
    total = NUM_QUERIES + NUM_GALLERY
    identities = torch.arange(total) % NUM_PEOPLE + 1
    identities[NUM_QUERIES : NUM_QUERIES + NUM_STRANGERS] = 0
    looks = torch.randn(NUM_PEOPLE + 1, NUM_INPUTS, generator=generator)
    found = {
        "inputs": looks[identities] + 1.5 * torch.randn(total, NUM_INPUTS, generator=generator),
        "identities": identities,
        "cameras": torch.randint(0, 3, (total,), generator=generator),
        "is_query": torch.arange(total) < NUM_QUERIES,
        "index": torch.cat([torch.arange(NUM_QUERIES), torch.arange(NUM_GALLERY)]),
    }
    return {name: values[:num] for name, values in found.items()}


def dataset(values: dict[str, Tensor], part: slice = slice(None)) -> TensorDataset:
    return TensorDataset(*(column[part] for column in values.values()))


class Module(lightning.LightningModule):
    """A linear layer, trained to tell the people apart."""

    def __init__(self, *, last_loader: int, with_index: bool) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(NUM_INPUTS, NUM_OUTPUTS, bias=False)
        self.classify = torch.nn.Linear(NUM_OUTPUTS, NUM_PEOPLE + 1)
        self.val_map = ReIDMeanAP()
        self.val_metrics = ReIDMetrics(ranks=(1, 5), prefix="val/each/")
        self.last_loader = last_loader
        self.with_index = with_index

    def training_step(self, batch: list[Tensor]) -> Tensor:
        inputs, identities, *_ = batch
        return torch.nn.functional.cross_entropy(self.classify(self.layer(inputs)), identities)

    def validation_step(self, batch: list[Tensor], batch_idx: int, dataloader_idx: int = 0) -> None:
        inputs, identities, cameras, is_query, numbers = batch
        index = numbers if self.with_index else None
        for metric in (self.val_map, self.val_metrics):
            metric.update(self.layer(inputs), identities, cameras, is_query=is_query, index=index)
        if dataloader_idx == self.last_loader:
            self.log("val/map", self.val_map, add_dataloader_idx=False)

    def on_validation_epoch_end(self) -> None:
        self.log_dict(self.val_metrics)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.5)


class Recorder(lightning.Callback):
    """Keeps what is logged by each validation, with the weights and the number of samples that this process had."""

    def __init__(self) -> None:
        self.sanity_checks: list[float] = []
        self.validations: list[dict] = []

    def on_validation_epoch_end(self, trainer: lightning.Trainer, module: Module) -> None:
        self.num_samples = sum(map(len, module.val_map.embeddings))

    def on_validation_end(self, trainer: lightning.Trainer, module: Module) -> None:
        logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
        if trainer.sanity_checking:
            self.sanity_checks.append(logged["val/each/map"])
            return
        weight = module.layer.weight.detach().clone()
        self.validations.append({"logged": logged, "weight": weight, "num_samples": self.num_samples})


class TwoPaddedLoaders(lightning.LightningDataModule):
    """Queries and gallery, both odd in number; Lightning puts in its samplers, which repeat samples."""

    use_distributed_sampler = True

    def train_dataloader(self) -> DataLoader:
        return DataLoader(dataset(samples()), BATCH_SIZE, shuffle=True)

    def val_dataloader(self) -> list[DataLoader]:
        parts = (slice(NUM_QUERIES), slice(NUM_QUERIES, None))
        return [DataLoader(dataset(samples(), part), BATCH_SIZE) for part in parts]

    def module(self) -> Module:
        return Module(last_loader=1, with_index=True)


class OneUnpaddedLoader(lightning.LightningDataModule):
    """Queries, then gallery, together 51: one process has 26 of them in 6 batches, the other 25 in 5."""

    use_distributed_sampler = False

    def train_dataloader(self) -> DataLoader:
        data = dataset(samples())
        return DataLoader(data, BATCH_SIZE, sampler=DistributedSampler(data))

    def val_dataloader(self) -> DataLoader:
        data = dataset(samples(51))
        return DataLoader(data, BATCH_SIZE, sampler=UnpaddedDistributedSampler(data))

    def module(self) -> Module:
        return Module(last_loader=0, with_index=False)


PROBLEMS = {"padded": TwoPaddedLoaders, "unpadded": OneUnpaddedLoader}


def train(folder: Path, problem: str) -> None:
    """Train for two epochs, with a sanity check before and a validation after each; validate once more."""
    folder.mkdir(exist_ok=True)
    lightning.seed_everything(0)
    data, recorder = PROBLEMS[problem](), Recorder()
    checkpoint = ModelCheckpoint(folder, filename="best", monitor="val/map", mode="max")
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        devices=2,
        strategy=DDPStrategy(timeout=COLLECTIVE_TIMEOUT, process_group_backend="gloo"),
        num_sanity_val_steps=SANITY_STEPS,
        logger=CSVLogger(folder),
        callbacks=[recorder, checkpoint],
        log_every_n_steps=1,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=data.use_distributed_sampler,
    )
    module = data.module()
    trainer.fit(module, data)
    trainer.validate(module, data, verbose=False)
    best = {"path": str(checkpoint.best_model_path), "score": float(checkpoint.best_model_score)}
    saved = {"sanity_checks": recorder.sanity_checks, "validations": recorder.validations, "best": best}
    torch.save(saved, folder / f"process_{trainer.global_rank}.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()  # gloo threads that Lightning leaves running may abort the exit


if __name__ == "__main__":
    for problem in PROBLEMS:
        train(Path(sys.argv[1]) / problem, problem)
    pictures_run.validate(Path(sys.argv[1]) / "pictures", COLLECTIVE_TIMEOUT)
