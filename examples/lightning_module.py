"""Person re-identification with Lightning from end to end: train a network, log numbers and pictures, write a report.

    python examples/lightning_module.py                      # drawn pedestrians: nothing to download, about a minute
    python examples/lightning_module.py --market1501 DIR     # the same on a Market-1501 folder
    python examples/lightning_module.py --devices 2          # on two GPUs; with --accelerator cpu in two processes
    python examples/lightning_module.py --wandb              # log to Weights & Biases; without an account into files
    tensorboard --logdir reid_example_output

All that concerns the metrics is in three methods of `ReIDModule`: `__init__` makes them, `validation_step` fills them
and `on_validation_epoch_end` logs them and keeps the results, of which `show` makes a report. The callback that `main`
makes logs the pictures: curves, and the hardest queries with what was found for them. The data set gives two validation
loaders, first queries and then gallery, whose samples are numbered apart. On several devices the metrics are the same
code and the same numbers: they rank the samples of all processes.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import lightning
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, DistributedSampler

from loggers import WANDB_HELP, how_to_look, make_logger, settings
from reid.contact_sheet import contact_sheet
from reid.embedding_network import EmbeddingNetwork, augment, batch_hard_triplet_loss
from reid.market1501 import read_market1501
from reid.pedestrians import draw_pedestrians
from reid.person_dataset import IdentitySampler, PersonDataset, Sample, Splits
from reid_torchmetrics import ReIDMetrics, compare, write_report
from reid_torchmetrics.integrations import EvaluationPictures
from reid_torchmetrics.plot import draw_rank_lists, plot_cmc

if TYPE_CHECKING:
    from lightning.pytorch.utilities.types import OptimizerLRScheduler

    from reid_torchmetrics.functional.retrieval.evaluation import RetrievalResults
    from reid_torchmetrics.tasks import Comparison

Batch = tuple[Tensor, Tensor, Tensor, Tensor]  # pictures, identities, cameras, numbers in the data set


class ReIDModule(lightning.LightningModule):
    """Trained as a classifier of the people in the training set, validated as a search for people it never saw."""

    train_identities: Tensor
    results: RetrievalResults

    def __init__(self, train_identities: Tensor, *, learning_rate: float = 2e-3) -> None:
        """Make the network and the metrics; `train_identities` are the people to classify, sorted."""
        super().__init__()
        self.network = EmbeddingNetwork(len(train_identities))
        self.learning_rate = learning_rate
        self.register_buffer("train_identities", train_identities)

        self.val_metrics = ReIDMetrics(ranks=(1, 5, 10), prefix="val/")

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Embed a batch and hand it to the metrics; loader 0 gives the queries and loader 1 the gallery."""
        images, identities, cameras, index = batch
        embeddings = self.network(images)
        self.val_metrics.update(embeddings, identities, cameras, is_query=dataloader_idx == 0, index=index)

    def on_validation_epoch_end(self) -> None:
        """Log the numbers, which Lightning computes and resets, and keep what a report tells of every query."""
        self.log_dict(self.val_metrics, prog_bar=True)
        self.results = self.val_metrics.results(nearest=10, camera_pairs=True)  # in all processes together

    def on_fit_start(self) -> None:
        """Augment differently on every device: all were seeded alike, to start from the same weights."""
        torch.manual_seed(torch.initial_seed() + self.global_rank)

    def training_step(self, batch: Batch) -> Tensor:
        """Classify after the neck, pull positives and push negatives before it."""
        images, identities, _, _ = batch
        labels = torch.searchsorted(self.train_identities, identities)
        features = self.network.features(augment(images))
        logits = self.network.classify(self.network.neck(features))
        loss = functional.cross_entropy(logits, labels, label_smoothing=0.1) + batch_hard_triplet_loss(features, labels)
        self.log("train/loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """AdamW, with a learning rate that rises and falls once."""
        # On N devices a step is over N batches, and an epoch has a Nth of the steps.
        peak = self.learning_rate * self.trainer.world_size
        optimizer = torch.optim.AdamW(self.parameters(), lr=peak, weight_decay=5e-4)
        num_steps = int(self.trainer.estimated_stepping_batches)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, peak, total_steps=num_steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class ReIDData(lightning.LightningDataModule):
    """The loaders of a data set: one for training, two for validation; every device has its share of the pictures."""

    def __init__(self, splits: Splits, *, seed: int, num_workers: int) -> None:
        """Load from `splits`."""
        super().__init__()
        self.splits = splits
        self.seed = seed
        self.num_workers = num_workers

    def train_dataloader(self) -> DataLoader[Sample]:
        """Give batches of 16 people with 4 pictures each, others to every device."""
        num_devices, rank = self.trainer.world_size, self.trainer.global_rank
        sampler = IdentitySampler(self.splits.train, num_devices=num_devices, seed=self.seed + rank)
        return DataLoader(self.splits.train, batch_sampler=sampler, num_workers=self.num_workers)

    def val_dataloader(self) -> list[DataLoader[Sample]]:
        """Give the queries, then the gallery."""
        return [self._evaluation_loader(self.splits.query), self._evaluation_loader(self.splits.gallery)]

    def _evaluation_loader(self, dataset: PersonDataset) -> DataLoader[Sample]:
        # Repeats some pictures, so that all devices have equally many; by their `index` the metrics count them once.
        sampler = DistributedSampler(dataset, self.trainer.world_size, self.trainer.global_rank, shuffle=False)
        return DataLoader(dataset, batch_size=256, sampler=sampler, num_workers=self.num_workers)


def main() -> None:
    """Validate the untrained network, train it, validate it once more; show both.

    On several devices Lightning starts this script once more for each of them, so that all do the same up to the end.
    """
    options = parse_options()
    quieten_lightning()
    lightning.seed_everything(options.seed, workers=True)
    if options.market1501:
        splits = read_market1501(options.market1501)
    else:
        splits = draw_pedestrians(options.train_identities, options.test_identities, seed=options.seed)
    data = ReIDData(splits, seed=options.seed, num_workers=options.workers)
    model = ReIDModule(splits.train.identities.unique())
    model.save_hyperparameters(settings(options))
    pictures = EvaluationPictures(
        "val_metrics",
        pictures=splits.query,
        gallery_pictures=splits.gallery,  # numbered apart from the queries
        every_n_epochs=max(1, options.epochs // 3),  # to draw takes longer than to evaluate
    )
    trainer = make_trainer(options, pictures)

    trainer.validate(model, data, verbose=False)
    before = model.results
    trainer.fit(model, data)
    if trainer.is_global_zero:
        show(splits, before, model.results, options)


def show(splits: Splits, before: RetrievalResults, after: RetrievalResults, options: argparse.Namespace) -> None:
    """Save the pictures and the report, and print the numbers."""
    output, named = options.output, {"before training": before, "after training": after}
    comparison = compare(named)
    contact_sheet(splits).save(output / "samples.png")
    plot_cmc({name: results.cmc[:20] for name, results in named.items()})[0].savefig(output / "cmc.png", dpi=150)
    hardest = after.nearest(6, queries=after.hardest(4))
    drawn = draw_rank_lists(
        hardest, splits.query, gallery_pictures=splits.gallery, height=128, average_precision=after.average_precision
    )
    Image.fromarray(drawn).save(output / "hardest_queries.png")
    write_report(
        after,
        output / "report.html",
        title="After training, and what training changed",
        pictures=splits.query,
        gallery_pictures=splits.gallery,
        comparison=comparison,
    )
    print_numbers(named)
    print(outcome(comparison))
    print_files(options)


def quieten_lightning() -> None:
    """Leave the progress bar and true warnings."""
    for part in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(part).setLevel(logging.WARNING)
    # Pictures that lie in memory need no worker processes; for those that do not there is `--workers`.
    warnings.filterwarnings("ignore", message=".*does not have many workers")
    # Between some versions of Lightning and PyTorch, and nothing that this script could change.
    warnings.filterwarnings("ignore", message=".*LeafSpec.* is deprecated")


def make_trainer(options: argparse.Namespace, pictures: EvaluationPictures) -> lightning.Trainer:
    """Make a trainer that writes into `options.output` only."""
    return lightning.Trainer(
        max_epochs=options.epochs,
        accelerator=options.accelerator,
        devices=options.devices,
        strategy="ddp" if options.devices > 1 else "auto",
        use_distributed_sampler=False,  # `ReIDData` does it: Lightning cannot share out the batches of IdentitySampler
        default_root_dir=options.output,
        logger=make_logger(options),
        callbacks=[pictures],
        log_every_n_steps=1,
        num_sanity_val_steps=0,
        enable_checkpointing=False,
        enable_model_summary=False,
    )


def print_numbers(named: dict[str, RetrievalResults]) -> None:
    """Print a line per validation, in per cent."""
    titles = {"map": "mAP", "minp": "mINP", "rank_1": "Rank-1", "rank_5": "Rank-5", "rank_10": "Rank-10"}
    print(f"\n{'per cent':<16}" + "".join(f"{title:>9}" for title in titles.values()))
    for name, results in named.items():
        print(f"{name:<16}" + "".join(f"{100 * results.means[key]:>9.1f}" for key in titles))


def outcome(comparison: Comparison) -> str:
    """Say in a line what training changed, and whether that may be chance."""
    by, level = comparison.differences["map"], 100 * comparison.level
    return (
        f"\nTraining changed mAP by {100 * by.difference:+.1f} points, {level:g}% interval {100 * by.low:+.1f} to"
        f" {100 * by.high:+.1f}, p = {by.p_value:.2g}: {by.num_better} queries better, {by.num_worse} worse."
    )


def print_files(options: argparse.Namespace) -> None:
    """Say where the report, the pictures and the logs are."""
    files = {"Report": "report.html", "CMC curves": "cmc.png", "Hardest queries": "hardest_queries.png"}
    files |= {"Samples": "samples.png"}
    print()
    for name, file in files.items():
        print(f"{name + ':':<17}{options.output / file}")
    print(f"{'Logs:':<17}{how_to_look(options)}")


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--market1501", type=Path, metavar="DIR", help="train on this Market-1501 folder")
    parser.add_argument(
        "--train-identities", type=int, default=100, metavar="N", help="people drawn for training (100)"
    )
    parser.add_argument("--test-identities", type=int, default=100, metavar="N", help="people drawn for the test (100)")
    parser.add_argument("--epochs", type=int, default=12, metavar="N", help="default 12")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default 0")
    parser.add_argument(
        "--output", type=Path, default=Path("reid_example_output"), metavar="DIR", help="default %(default)s"
    )
    parser.add_argument("--wandb", action="store_true", help=WANDB_HELP)
    parser.add_argument("--accelerator", default="auto", help="as for lightning.Trainer")
    parser.add_argument("--devices", type=int, default=1, metavar="N", help="train and validate on N at once (1)")
    parser.add_argument(
        "--workers", type=int, default=0, metavar="N", help="processes that read pictures, for each loader"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
    if torch.distributed.is_initialized():  # there are several processes, whose threads are to end before they do
        torch.distributed.destroy_process_group()
