"""A callback of Lightning that draws each evaluation and logs the pictures."""

from __future__ import annotations

import importlib.util
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from reid_torchmetrics import _checks, plot
from reid_torchmetrics._extras import require
from reid_torchmetrics.metrics.reid import EmbeddingMetric

from . import drawings
from .pictures import log_pictures, takes_tables

if TYPE_CHECKING:
    from lightning.pytorch import Callback, LightningModule, Trainer
else:
    # Trainers of Lightning's two names only take callbacks of their own; where one is imported, the other costs little.
    _NAMES = [name for name in ("lightning", "pytorch_lightning") if importlib.util.find_spec(name)]
    if not _NAMES:
        require("EvaluationPictures", "lightning")
    Callback = type("Callback", tuple(importlib.import_module(name).Callback for name in _NAMES), {})

_MOST_SHOWN = 50  # rows or columns: a picture of more has tens of thousands of pixels a side


class EvaluationPictures(Callback):
    """Log curves and failures of each validation and test, to every logger of the trainer.

    Of embeddings they are the CMC, precision over recall, the ranks of the first right answers and the hardest queries
    with their first candidates: "val/cmc", "val/precision_recall", "val/first_ranks", "val/hardest_queries". Of
    detections, by any evaluator, they are precision over recall, precision and recall over the confidence, the
    confusion matrix in shares and in counts, the cost of each kind of error where a detection matches the best ground
    truth that is left, and the images with the most errors: "val/precision_recall", "val/confidence",
    "val/confusion_matrix", "val/confusion_counts", "val/kinds_of_errors", "val/worst_images".
    After a test they are "test/cmc" and so on. With several metrics the attribute's name is put between, as in
    "val/val_market/cmc". The step is that of the numbers of the same evaluation. Weights & Biases gets all of it in one
    row with the numbers, and the hardest queries as a table, too: "val/hardest_queries_table". Loggers that take no
    pictures get files; see `log_picture`.

    The metrics must still hold their samples when callbacks are called at the end of the epoch. They do unless the user
    resets them before, and whether the module logs them in `validation_step` or in `on_validation_epoch_end`. They are
    ranked once for the pictures and for the numbers. The sanity check has no pictures.

    All processes evaluate, so the callback must be the same in all; only the first one draws and logs. If it cannot
    draw or log a picture, or `pictures` fails, it warns once of each kind, and the run goes on. An error of the metric
    itself is raised as by `compute`.

    Args:
        metrics: attribute of the LightningModule, or several, with dots where it is within another. It holds an
            `EmbeddingMetric`, `ReIDMetrics`, a `DetectionMAP`, `VocMAP` or `YoloMAP`, a `MetricCollection` (its first
            such member is drawn), or a `ModuleDict` of any of these.
        pictures: of the queries by `query_index`, and of the gallery by `index`, or of the images by `image_id`: a
            function of the number or the name, or something indexed by it, such as a data set; see `draw_rank_lists`.
            None for the curves alone.
        gallery_pictures: of the gallery, if it is another data set than that of the queries.
        mean: of each channel or of all, to undo the normalization of `pictures` that are tensors of floats; with `std`.
            None where they lie in [0, 1].
        std: likewise.
        names: of the identities; without a name the number is shown. Those of classes are the metric's `class_names`.
        num_queries: how many of the hardest queries are shown, at most 50.
        k: how many candidates of each, at most 50.
        num_images: how many of the images with the most errors are shown, at most 50.
        every_n_epochs: in training only the pictures of each n-th epoch are logged.
        test_metrics: attributes with the metrics of the test; None for `metrics`.

    Raises:
        ModuleNotFoundError: Lightning or Matplotlib is not installed.
        TypeError: an argument of the wrong type; when the trainer starts, an attribute without a metric.
        ValueError: a number below 1, no attribute or one twice, `gallery_pictures`, `mean` or `std` alone; when the
            trainer starts, an attribute that the module lacks.

    Example:
        >>> from reid_torchmetrics.integrations import EvaluationPictures
        >>> callback = EvaluationPictures("val_metrics")  # Trainer(callbacks=[callback])
    """

    def __init__(
        self,
        metrics: str | Sequence[str] = "val_metrics",
        *,
        pictures: plot.Pictures | None = None,
        gallery_pictures: plot.Pictures | None = None,
        mean: plot.Channels | None = None,
        std: plot.Channels | None = None,
        names: Mapping[int, str] | None = None,
        num_queries: int = 10,
        k: int = 10,
        num_images: int = 9,
        every_n_epochs: int = 1,
        test_metrics: str | Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        require("EvaluationPictures", "matplotlib", "PIL")
        shown = {"num_queries": num_queries, "k": k, "num_images": num_images}
        for argument, count in {**shown, "every_n_epochs": every_n_epochs}.items():
            _checks.positive_int(argument, count)
        _checks.names_of_labels("names", names)
        plot.check_pictures("pictures", pictures)
        plot.check_pictures("gallery_pictures", gallery_pictures)
        if gallery_pictures is not None and pictures is None:
            raise ValueError("`pictures` must be given with `gallery_pictures`; got None.")
        of_val = "metrics", _listed("metrics", metrics)
        of_test = of_val if test_metrics is None else ("test_metrics", _listed("test_metrics", test_metrics))
        self._attributes = {"val": of_val, "test": of_test}
        sides = pictures, gallery_pictures
        pictures, gallery_pictures = (plot.without_normalization(each, mean, std) for each in sides)
        for argument, count in shown.items():
            if count > _MOST_SHOWN:
                warnings.warn(f"`{argument}` is {count:,}; a picture shows {_MOST_SHOWN} at most.", stacklevel=2)
        few = (min(count, _MOST_SHOWN) for count in shown.values())
        self._options = drawings.DrawingOptions(pictures, gallery_pictures, names, *few)
        self._every_n_epochs = every_n_epochs
        self._warned: set[tuple[str, ...]] = set()

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Look for the metrics."""
        drawings.evaluated_metrics(pl_module, *self._attributes["val"])

    on_validation_start = on_fit_start  # a validation may come without training

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Look for the metrics."""
        drawings.evaluated_metrics(pl_module, *self._attributes["test"])

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Draw and log, before the module logs its numbers and the metrics are reset."""
        is_between = trainer.state.fn == "fit" and (trainer.current_epoch + 1) % self._every_n_epochs != 0
        if not (trainer.sanity_checking or is_between):
            self._log_all(trainer, pl_module, "val")

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Draw and log, before the module logs its numbers and the metrics are reset."""
        self._log_all(trainer, pl_module, "test")

    def _log_all(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        metrics = drawings.evaluated_metrics(module, *self._attributes[stage])
        named: drawings.Drawings = {}
        loaders = trainer.test_dataloaders if stage == "test" else trainer.val_dataloaders
        for attribute, metric in metrics.items():
            # Other processes may have samples, so all take part; a single one need not, and would warn of no samples.
            is_empty = trainer.world_size == 1 and drawings.holds_nothing(metric)
            of_metric = {} if is_empty else drawings.drawings_of(metric, self._options)
            if not trainer.is_global_zero:
                continue
            if not of_metric:
                self._warn_once((attribute,), _without_samples(attribute, stage))
            left_out = set() if takes_tables(trainer.loggers) else {drawings.TABLE}
            if drawings.SAMPLE_PICTURES & of_metric.keys() and drawings.numbers_are_others(metric, loaders):
                self._warn_once((attribute, stage), _with_other_numbers(attribute, metric))
                left_out = {*drawings.SAMPLE_PICTURES}
            folder = stage if len(metrics) == 1 else f"{stage}/{attribute}"
            named |= {f"{folder}/{name}": draw for name, draw in of_metric.items() if name not in left_out}
        with plot.one_warning_of_glyphs(self._warn_once_of_glyphs):
            self._draw_and_log(trainer, stage, named)

    def _draw_and_log(self, trainer: Trainer, stage: str, named: drawings.Drawings) -> None:
        """Draw the pictures, and hand them to each logger; one that fails keeps no other from them."""
        pictures: dict[str, Any] = {}
        for name, draw in named.items():
            with self._warning_instead(f"picture '{name}'", "drawn"):
                pictures[name] = draw()
        if not pictures:
            return
        # Lightning gives numbers the batches that stepped, one fewer than `global_step` after an epoch of training.
        step = trainer.fit_loop.epoch_loop._batches_that_stepped  # noqa: SLF001 - it has no other name
        # Without loggers a picture is a file, but not in a fast run for development.
        files = [] if getattr(trainer, "fast_dev_run", False) else [None]
        for logger in trainer.loggers or files:
            what = "written to files" if logger is None else f"logged to {type(logger).__name__}"
            with self._warning_instead(f"pictures of '{stage}'", what):
                log_pictures(logger, pictures, step, folder=trainer.default_root_dir, is_row_open=True)

    @contextmanager
    def _warning_instead(self, name: str, what: str) -> Iterator[None]:
        """Warn, once of each kind, instead of ending the run by an error."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the user's functions and loggers
            message = str(error)
            if not message.startswith("`"):  # our own errors do, and are enough; others need their place
                message = "".join(traceback.format_exception(error))
            text = f"The {name} could not be {what}. The run goes on, and this is said once.\n{message}"
            self._warn_once((name, what, type(error).__name__), text)

    def _warn_once_of_glyphs(self, text: str) -> None:
        self._warn_once(("glyphs",), text)

    def _warn_once(self, kind: tuple[str, ...], text: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(text, stacklevel=2)


def _without_samples(attribute: str, stage: str) -> str:
    hook = "validation" if stage == "val" else stage
    return (
        f"No picture of `{attribute}` was logged, because it has no samples when callbacks are called at the end of the"
        f" {hook} epoch: update it in `{hook}_step`, and do not reset it before `on_{hook}_epoch_end` of the module."
    )


def _with_other_numbers(attribute: str, metric: drawings.EvaluatedMetric) -> str:
    argument, how = "image_id", '{..., "image_id": image_id} in `target`'
    if isinstance(metric, EmbeddingMetric):
        argument, how = "index", "`update(..., index=index)`"
    return (
        f"No pictures of the samples of `{attribute}` were drawn: it was not given `{argument}`, and its loader does"
        " not read the data set in order, so they would be pictures of other samples. Give the numbers in the data"
        f" set: {how}."
    )


def _listed(argument: str, attributes: str | Sequence[str]) -> list[str]:
    if not isinstance(attributes, (str, tuple, list)):
        raise TypeError(f"`{argument}` must be a str or a list of them; got {type(attributes).__name__}.")
    listed = [attributes] if isinstance(attributes, str) else [*attributes]
    for each in listed:
        if not isinstance(each, str):
            raise TypeError(f"`{argument}` must hold names of attributes only; got {each!r}.")
    if not (all(listed) and listed) or len(set(listed)) < len(listed):
        raise ValueError(f"`{argument}` must hold at least one name and none twice; got {attributes!r}.")
    return listed
