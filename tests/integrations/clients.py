"""Pictures to log, how they are read back, and stand-ins with the signatures of the clients of loggers."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

STEP = 12
PIXELS = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)
NEARLY_BLACK = np.eye(3, dtype=np.uint8)[:, :, None].repeat(3, 2)  # some clients take 1 for white


def new_figure() -> Figure:
    """A figure of 300 x 200 pixels with a line from corner to corner."""
    figure = Figure(figsize=(3, 2), dpi=100, layout="constrained")
    figure.subplots().plot([0, 1], [0, 1])
    return figure


def pixels_in(path) -> np.ndarray:
    with Image.open(path) as image:
        assert image.mode == "RGB"
        return np.asarray(image)


def images_in_events(folder, tag) -> list:
    events = event_accumulator.EventAccumulator(str(folder))
    return events.Reload().Images(tag)


def decoded(event, path) -> np.ndarray:
    path.write_bytes(event.encoded_image_string)
    return pixels_in(path)


class Calls:
    """A logger, its client in one: the name, the image and the step of each call."""

    def __init__(self):
        self.calls = []

    @property
    def experiment(self):
        return self


class WandbLogger(Calls):
    """That of Lightning 2.6 with a run of wandb 0.31."""

    _prefix = ""

    def log(self, data, step=None, commit=None):
        step = data.pop("trainer/global_step")
        self.calls += [(key, image.data, step) for key, (image,) in data.items()]


class SwanLabLogger(Calls):
    """That of swanlab 0.10 with its run."""

    def log(self, data, step=None):
        self.calls += [(key, image.data, step) for key, image in data.items()]


class TrackioLogger(SwanLabLogger):
    """That of Lightning's main branch with a run of trackio 0.43."""


class DVCLiveLogger(Calls):
    """That of dvclive 3.49."""

    def log_image(self, name, val):
        key, _, step = name.removesuffix(".png").rpartition("/")
        self.calls.append((key, val, int(step)))


class ClearMLLogger(Calls):
    """A logger of the user's own, where `clearml.Logger` of clearml 2.1 has one for the process."""

    def __init__(self):
        super().__init__()
        ClearMLLogger.current = self

    @classmethod
    def current_logger(cls):
        return cls.current

    def report_image(self, title, series, iteration=None, local_path=None, image=None):
        self.calls.append((f"{title}/{series}", Image.fromarray(image), iteration))


class MLFlowLogger(Calls):
    """That of Lightning 2.6 with the client of MLflow 3.17."""

    run_id = "a run"

    def log_image(  # noqa: PLR0917 - theirs
        self, run_id, image, artifact_file=None, key=None, step=None, timestamp=None, synchronous=None
    ):
        assert (run_id, artifact_file) == (self.run_id, None)
        self.calls.append((key, image, step))


class CometLogger(Calls):
    """That of Lightning 2.6 with an experiment of comet_ml 3.58."""

    def log_image(  # noqa: PLR0917 - theirs
        self,
        image_data,
        name=None,
        overwrite=False,
        image_format="png",
        image_scale=1.0,
        image_shape=None,
        image_colormap=None,
        image_minmax=None,
        image_channels="last",
        copy_to_tmp=True,
        step=None,
        annotations=None,
        metadata=None,
    ):
        self.calls.append((name, image_data, step))


class LitLogger(Calls):
    """That of Lightning 2.6 with an experiment of litlogger 2026.8: series by name."""

    @property
    def experiment(self):
        return {"val/nearest": self}

    def append(self, value, step=None):
        self.calls.append(("val/nearest", value.data, step))


CLIENTS = (
    *(WandbLogger, MLFlowLogger, CometLogger, LitLogger),
    *(SwanLabLogger, TrackioLogger, DVCLiveLogger, ClearMLLogger),
)
