"""A Lightning callback that draws each evaluation and logs the pictures."""

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
    # Lightning has two package names, and their trainers accept only callbacks of their own package. So inherit from
    # both if they are installed; once one is imported, importing the other one costs little.
    _NAMES = [name for name in ("lightning", "pytorch_lightning") if importlib.util.find_spec(name)]
    if not _NAMES:
        require("EvaluationPictures", "lightning")
    Callback = type("Callback", tuple(importlib.import_module(name).Callback for name in _NAMES), {})

_MAX_SHOWN = 50  # rows or columns: a picture with more would have tens of thousands of pixels per side


class EvaluationPictures(Callback):
    """Log curves and failures of each validation and test to every logger of the trainer.

    These are the figures that `results.plot` draws and that the results have, such as "val/cmc" for embeddings and
    "val/confusion_matrix" for detections, and the failures: for embeddings the hardest queries with their first
    candidates, of those with an average precision below 1, "val/hardest_queries", and for detections the images with
    the most errors, "val/worst_images". After a test the names are "test/cmc" and so on. With several metrics they
    contain the attribute, as in "val/val_market/cmc". The step is that of the numbers of the same evaluation. Weights &
    Biases receives everything in one row with the numbers, and also the hardest queries as a table,
    "val/hardest_queries_table". For loggers that accept no pictures, files are written; see `log_picture`.

    The metrics must still hold their samples when the trainer calls callbacks at the end of the epoch. They do unless
    you reset them before, no matter whether the module logs them in `validation_step` or in
    `on_validation_epoch_end`. They are ranked once for the pictures and the numbers. The sanity check has no pictures.

    All processes evaluate, so the callback must be the same on all; only the first process draws and logs. If it cannot
    draw or log a picture, or `pictures` fails, it warns once for each kind of error, and the run continues. An error of
    the metric itself is raised as by `compute`.

    Args:
        metrics: attribute of the LightningModule, or several, with dots for attributes of other objects. It holds an
            `EmbeddingMetric`, `ReIDMetrics`, a `DetectionMAP`, `VocMAP` or `YoloMAP`, a `MetricCollection` (the first
            such member is drawn), or a `ModuleDict` of any of these.
        pictures: pictures of the queries by `query_index` and of the gallery by `index`, or of the images by
            `image_id`: a function of the number or name, or an object indexed by it, such as a data set; see
            `draw_rank_lists`. None for curves only.
        gallery_pictures: pictures of the gallery, if it is another data set than the queries.
        mean: mean of each channel or of all, to undo the normalization of `pictures` that are tensors of floats; with
            `std`. None if they are in [0, 1].
        std: standard deviation of each channel or of all, with `mean`.
        identity_names: names of identities; for others the number is shown. Classes have the metric's `class_names`.
        num_queries: number of the hardest queries to show, at most 50.
        k: number of candidates per query, at most 50.
        num_images: number of images with the most errors to show, at most 50.
        every_n_epochs: in training, pictures are logged in each n-th epoch only.
        test_metrics: attributes with the metrics for the test; None for `metrics`.

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
        identity_names: Mapping[int, str] | None = None,
        num_queries: int = 10,
        k: int = 10,
        num_images: int = 9,
        every_n_epochs: int = 1,
        test_metrics: str | Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        require("EvaluationPictures", "matplotlib", "PIL")
        sizes = {"num_queries": num_queries, "k": k, "num_images": num_images}
        for argument, size in {**sizes, "every_n_epochs": every_n_epochs}.items():
            _checks.positive_int(argument, size)
        _checks.names_of_labels("identity_names", identity_names)
        plot.check_pictures("pictures", pictures)
        plot.check_pictures("gallery_pictures", gallery_pictures)
        if gallery_pictures is not None and pictures is None:
            raise ValueError("`pictures` must be given with `gallery_pictures`; got None.")

        # The argument's name, for messages, and the attributes.
        val_attributes = ("metrics", _as_list("metrics", metrics))
        test_attributes = val_attributes
        if test_metrics is not None:
            test_attributes = ("test_metrics", _as_list("test_metrics", test_metrics))
        self._attributes = {"val": val_attributes, "test": test_attributes}

        pictures = plot.without_normalization(pictures, mean, std)
        gallery_pictures = plot.without_normalization(gallery_pictures, mean, std)
        for argument, size in sizes.items():
            if size > _MAX_SHOWN:
                warnings.warn(f"`{argument}` is {size:,}; a picture shows {_MAX_SHOWN} at most.", stacklevel=2)
        self._options = drawings.DrawingOptions(
            pictures=pictures,
            gallery_pictures=gallery_pictures,
            names=identity_names,
            num_queries=min(num_queries, _MAX_SHOWN),
            k=min(k, _MAX_SHOWN),
            num_images=min(num_images, _MAX_SHOWN),
        )
        self._every_n_epochs = every_n_epochs
        self._warned: set[tuple[str, ...]] = set()

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Raise unless the module has the metrics."""
        drawings.evaluated_metrics(pl_module, *self._attributes["val"])

    on_validation_start = on_fit_start  # a validation may come without training

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Raise unless the module has the metrics."""
        drawings.evaluated_metrics(pl_module, *self._attributes["test"])

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Draw and log the pictures, before the module logs its numbers and the metrics are reset."""
        is_skipped = trainer.state.fn == "fit" and (trainer.current_epoch + 1) % self._every_n_epochs != 0
        if not (trainer.sanity_checking or is_skipped):
            self._log_all(trainer, pl_module, "val")

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Draw and log the pictures, before the module logs its numbers and the metrics are reset."""
        self._log_all(trainer, pl_module, "test")

    def _log_all(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        """Evaluate the metrics of a stage, and draw and log their pictures."""
        metrics = drawings.evaluated_metrics(module, *self._attributes[stage])
        all_drawings: drawings.Drawings = {}
        for attribute, metric in metrics.items():
            metric_drawings: drawings.Drawings = {}
            # Other processes may have samples, so all must take part. A single process without samples need not, and
            # the metric would warn about it.
            if trainer.world_size > 1 or not drawings.holds_nothing(metric):
                metric_drawings = drawings.drawings_of(metric, self._options)
            if not trainer.is_global_zero:
                continue
            if not metric_drawings:
                self._warn_once((attribute,), _no_samples_text(attribute, stage))

            omitted = set() if takes_tables(trainer.loggers) else {drawings.TABLE}
            loaders = trainer.test_dataloaders if stage == "test" else trainer.val_dataloaders
            has_sample_pictures = bool(drawings.SAMPLE_PICTURES & metric_drawings.keys())
            if has_sample_pictures and drawings.numbers_are_others(metric, loaders):
                self._warn_once((attribute, stage), _other_numbers_text(attribute, metric))
                omitted = set(drawings.SAMPLE_PICTURES)
            folder = stage if len(metrics) == 1 else f"{stage}/{attribute}"
            for name, draw in metric_drawings.items():
                if name not in omitted:
                    all_drawings[f"{folder}/{name}"] = draw
        with plot.one_warning_of_glyphs(lambda text: self._warn_once(("glyphs",), text)):
            self._draw_and_log(trainer, stage, all_drawings)

    def _draw_and_log(self, trainer: Trainer, stage: str, all_drawings: drawings.Drawings) -> None:
        """Draw the pictures and pass them to each logger; an error of one logger does not affect the others."""
        pictures: dict[str, Any] = {}
        for name, draw in all_drawings.items():
            with self._warning_instead(f"picture '{name}'", "drawn"):
                pictures[name] = draw()
        if not pictures:
            return
        # Lightning logs numbers at this step, which is one less than `global_step` after an epoch of training.
        step = trainer.fit_loop.epoch_loop._batches_that_stepped  # noqa: SLF001 - it has no other name
        # Without loggers pictures are written to files, except in a fast run for development.
        files = [] if getattr(trainer, "fast_dev_run", False) else [None]
        for logger in trainer.loggers or files:
            action = "written to files" if logger is None else f"logged to {type(logger).__name__}"
            with self._warning_instead(f"pictures of '{stage}'", action):
                log_pictures(logger, pictures, step, folder=trainer.default_root_dir, is_row_open=True)

    @contextmanager
    def _warning_instead(self, name: str, action: str) -> Iterator[None]:
        """Turn an error into a warning, once for each kind, so that the run continues."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - errors of the user's functions and loggers
            message = str(error)
            if not message.startswith("`"):  # errors of this package do; others need a traceback
                message = "".join(traceback.format_exception(error))
            text = f"The {name} could not be {action}. The run continues, and this warning appears once.\n{message}"
            self._warn_once((name, action, type(error).__name__), text)

    def _warn_once(self, kind: tuple[str, ...], text: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(text, stacklevel=2)


def _no_samples_text(attribute: str, stage: str) -> str:
    """Return the warning about a metric without samples."""
    hook = "validation" if stage == "val" else stage
    return (
        f"No picture of `{attribute}` was logged, because it has no samples when callbacks are called at the end of the"
        f" {hook} epoch: update it in `{hook}_step`, and do not reset it before `on_{hook}_epoch_end` of the module."
    )


def _other_numbers_text(attribute: str, metric: drawings.EvaluatedMetric) -> str:
    """Return the warning about a metric that numbers its samples in another order than the data set."""
    argument = "image_id"
    call = '{..., "image_id": image_id} in `target`'
    if isinstance(metric, EmbeddingMetric):
        argument = "index"
        call = "`update(..., index=index)`"
    return (
        f"No pictures of the samples of `{attribute}` were drawn: it has no `{argument}`, and its loader does not read"
        " the data set in order, so the pictures would show other samples. Pass the numbers in the data set:"
        f" {call}."
    )


def _as_list(argument: str, attributes: str | Sequence[str]) -> list[str]:
    """Return names of attributes in a list; raise unless they are valid."""
    if not isinstance(attributes, (str, tuple, list)):
        raise TypeError(f"`{argument}` must be a str or a list of them; got {type(attributes).__name__}.")
    names = [attributes] if isinstance(attributes, str) else list(attributes)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"`{argument}` must hold names of attributes only; got {name!r}.")
    if not names or not all(names) or len(set(names)) < len(names):
        raise ValueError(f"`{argument}` must hold at least one name and none twice; got {attributes!r}.")
    return names
