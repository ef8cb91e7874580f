"""A picture goes to a logger by the logger's own call, and into a file where a logger takes no pictures.

Loggers are known by the names of their classes, so that none is imported. A figure is drawn here, once and for all of
them: their own calls for figures change the figure, or show a part of it (DECISIONS.md).
"""

from __future__ import annotations

import hashlib
import importlib
import io
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._extras import require
from reid_torchmetrics._files import write_whole
from reid_torchmetrics.plot import one_warning_of_glyphs, picture_at

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image

_Images: TypeAlias = "dict[str, Image]"
Sender: TypeAlias = "Callable[..., object]"
"""called with a logger, images of Pillow by their names, and a step"""

# Characters that a file system may refuse in a name, the sign that stands for them, ends that Windows drops (the whole
# of "." and ".."), and the first letter of the names of its devices.
_UNSAFE = re.compile(
    r'[<>:"\\|?*%\x00-\x1f\ud800-\udfff]|[. ]+$|^(?=(?:con|prn|aux|nul|com\d|lpt\d) *(?:\.|$)).', re.IGNORECASE
)
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")  # loggers can neither write nor send them
_LONGEST = 200  # bytes of a name, of the 255 that file systems take: the step is behind it


def log_picture(
    logger: Any,
    name: str,
    picture: Figure | Image | NDArray[np.uint8] | Tensor,
    step: int,
    *,
    default_root_dir: str | os.PathLike[str] = ".",
) -> None:
    """Log a figure or an image to a logger of Lightning, or to several; a logger that takes none gets a PNG file.

    TensorBoard, Weights & Biases, MLflow, Comet, LitLogger, DVCLive, SwanLab, ClearML and Trackio get the picture by
    their own calls, under `name` and at `step`, and so do loggers of `register_logger`. Without Lightning `logger` may
    be a `SummaryWriter`, a `dvclive.Live`, a `clearml.Task` or a `trackio.Run`. Any other logger, such as `CSVLogger`,
    finds it as `pictures/NAME_step_000012.png` in its `log_dir` or `save_dir`; without either, and without a logger,
    the file is in `default_root_dir`. A slash in `name` begins a folder, characters that not all file systems take are
    written as in URLs, and of parts of more than 200 bytes there is the beginning, with a hash. A figure is drawn as it
    would be saved, in its size and resolution; it is neither closed nor changed, and pyplot is not used.

    Among several processes only one should call this, as in `if self.trainer.is_global_zero:`. The loggers ignore the
    others, but the file would be written by all of them.

    Example:
        >>> import tempfile, torch
        >>> from pathlib import Path
        >>> image = torch.zeros(64, 32, 3, dtype=torch.uint8)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     log_picture(None, "val/nearest", image, step=12, default_root_dir=folder)
        ...     print(*(path.relative_to(folder).as_posix() for path in Path(folder).rglob("*.png")))
        pictures/val/nearest_step_000012.png

    Args:
        logger: `self.logger` or `self.loggers` of a LightningModule; None, or no loggers, if there is none.
        name: such as "val/cmc". MLflow gets "_" for characters that it does not take.
        picture: a figure of Matplotlib, an image of Pillow, or an image [H, W, 3] of uint8 as a NumPy array or a tensor
            on any device.
        step: such as `self.global_step`; files of a name and step are overwritten.
        default_root_dir: for files that belong to no folder of a logger, such as `self.trainer.default_root_dir`.

    Raises:
        ModuleNotFoundError: Pillow is not installed; every Matplotlib brings it.
        TypeError: `picture`, `name` or `step` is of another type, or an image is not of uint8.
        ValueError: an image has another shape or no pixels, `name` has no characters, or `step` is negative.
    """
    _checks.positive_int("step", step, least=0)
    log_pictures(logger, {name: picture}, step, folder=default_root_dir, is_row_open=False)


class PictureTable(NamedTuple):
    """A table with pictures in its cells, for loggers that take one."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    """cells are numbers, words, None, or pairs of an image of Pillow and its caption"""


@one_warning_of_glyphs()
def log_pictures(
    logger: Any, pictures: Mapping[str, object], step: int, *, folder: str | os.PathLike[str], is_row_open: bool
) -> None:
    """Log the pictures and tables of one step by their names, in one call of a logger that has one for several.

    With `is_row_open` numbers of the same step follow, and share a row of Weights & Biases. The `folder` is for files
    that belong to none of a logger. For all else see `log_picture`.
    """
    for name in pictures:
        if not isinstance(name, str):
            raise TypeError(f"`name` must be a str; got {type(name).__name__}.")
        if not name.strip("/"):
            raise ValueError(f"`name` must have a character that is no slash; got {name!r}.")
    tables = {name: each for name, each in pictures.items() if isinstance(each, PictureTable)}
    images = {name: _image_of(each) for name, each in pictures.items() if name not in tables}
    sent = {_NO_TEXT.sub("\N{REPLACEMENT CHARACTER}", name): image for name, image in images.items()}
    for each in (logger if isinstance(logger, (list, tuple)) else [logger]) or [None]:
        send = _sender_to(each)
        if send is _to_wandb:
            send(each, sent, step, tables=tables, is_row_open=is_row_open)
        elif send is not None:
            send(each, sent, step)
        else:
            _write_files(each, images, step, folder)


def takes_tables(loggers: Sequence[object]) -> bool:
    """Whether a logger has tables with pictures in their cells."""
    return any(_sender_to(each) is _to_wandb for each in loggers)


def register_logger(kind: type | str, send: Sender) -> None:
    """Let `log_picture` and `EvaluationPictures` hand pictures to loggers of a class, instead of writing files.

    A class that is known already gets another function.

    Example:
        >>> from reid_torchmetrics.integrations import log_picture, register_logger
        >>> class PrintingLogger:
        ...     def show(self, image, title):
        ...         print(title, image.size)
        >>> def send(logger, images, step):
        ...     for name, image in images.items():
        ...         logger.show(image, f"{name} at step {step}")
        >>> register_logger(PrintingLogger, send)
        >>> import numpy
        >>> log_picture(PrintingLogger(), "val/cmc", numpy.zeros((48, 64, 3), numpy.uint8), step=12)
        val/cmc at step 12 (64, 48)

    Args:
        kind: the class, or its name; classes that inherit from it are meant, too.
        send: called as `send(logger, images, step)` with the images of one step, RGB images of Pillow by their names:
            one from `log_picture`, all of a validation from `EvaluationPictures`.

    Raises:
        TypeError: `kind` is neither a class nor a str, or `send` is not callable.
    """
    if not isinstance(kind, (type, str)):
        raise TypeError(f"`kind` must be a class or the name of one; got {type(kind).__name__}.")
    if not callable(send):
        raise TypeError(f"`send` must be a function of a logger, images and a step; got {type(send).__name__}.")
    _SENDERS[kind if isinstance(kind, str) else _names_of(kind)[0]] = send


def _image_of(picture: object) -> Image:
    """A picture as loggers take it as it is: of an array some rescale the values and guess the order of axes."""
    require("A picture in a log", "PIL")
    from PIL import Image as ImageModule  # noqa: PLC0415 - not every evaluation has pictures

    figures = sys.modules.get("matplotlib.figure")  # who has a figure has imported it
    if figures is not None and isinstance(picture, figures.Figure):
        return ImageModule.fromarray(_drawn(picture))
    if isinstance(picture, ImageModule.Image):
        return ImageModule.fromarray(np.array(picture_at("picture", (picture,), 0)))
    if not isinstance(picture, (np.ndarray, Tensor)):
        rule = "a figure of Matplotlib, an image of Pillow, a NumPy array or a tensor"
        raise TypeError(f"`picture` must be {rule}; got {type(picture).__name__}.")
    if str(picture.dtype).removeprefix("torch.") != "uint8":
        raise TypeError(f"`picture` must have the dtype uint8; got {picture.dtype}.")
    if picture.ndim != 3 or picture.shape[2] != 3:
        raise ValueError(f"`picture` must have shape [H, W, 3]; got {list(picture.shape)}.")
    if 0 in picture.shape:
        raise ValueError(f"`picture` must have at least one pixel; got {list(picture.shape)}.")
    return ImageModule.fromarray(picture.cpu().numpy() if isinstance(picture, Tensor) else picture)


def _drawn(figure: Any) -> NDArray[np.uint8]:
    """Draw a figure on white, where it is transparent."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - large

    canvas_of_caller = figure.canvas  # of a window, perhaps; a new canvas takes its place
    canvas: Any = FigureCanvasAgg(figure)
    try:
        canvas.draw()
    finally:
        figure.set_canvas(canvas_of_caller)
    rgba = np.asarray(canvas.buffer_rgba())
    opacity = rgba[..., 3:] / 255
    return np.asarray(np.rint(opacity * rgba[..., :3] + (1 - opacity) * 255), np.uint8)


def _names_of(kind: type) -> tuple[str, str]:
    return f"{kind.__module__}.{kind.__qualname__}", kind.__name__


def _sender_to(logger: object) -> Sender | None:
    """The function for a logger of this class, or of a class that it inherits from."""
    names = (name for each in type(logger).__mro__ for name in _names_of(each))
    return next((_SENDERS[name] for name in names if name in _SENDERS), None)


def _client(logger: Any) -> Any:
    """What a logger of Lightning writes with, or what was given, if that is it."""
    return getattr(logger, "experiment", logger)


def _singly(send: Callable[[Any, str, Image, int], object]) -> Sender:
    """The function for a client that takes a picture at a time."""

    def send_all(logger: Any, images: _Images, step: int) -> None:
        for name, image in images.items():
            send(logger, name, image, step)

    return send_all


def _in_one_call(package: str) -> Sender:
    """The function for a client with an image class in its package."""

    def send(logger: Any, images: _Images, step: int) -> None:
        image_of = importlib.import_module(package).Image
        _client(logger).log({name: image_of(image) for name, image in images.items()}, step=step)

    return send


def _to_wandb(logger: Any, images: _Images, step: int, *, tables: dict[str, PictureTable], is_row_open: bool) -> None:
    client = importlib.import_module("wandb")  # who has its logger has it

    def cell(value: Any) -> Any:
        return client.Image(value[0], caption=value[1]) if isinstance(value, tuple) else value

    media: dict[str, Any] = {name: [client.Image(image)] for name, image in images.items()}
    for name, (columns, rows) in tables.items():
        media[name] = client.Table(columns=[*columns], data=[[*map(cell, row)] for row in rows])
    prefix = getattr(logger, "_prefix", "") and f"{logger._prefix}-"  # noqa: SLF001 - as Lightning does with numbers
    media = {f"{prefix}{name}": each for name, each in media.items()} | {"trainer/global_step": step}
    logger.experiment.log(media, commit=not is_row_open)


@_singly
def _to_tensorboard(logger: Any, name: str, image: Image, step: int) -> None:
    _client(logger).add_image(name, np.array(image), step, dataformats="HWC")


@_singly
def _to_mlflow(logger: Any, name: str, image: Image, step: int) -> None:
    client = logger.experiment  # begins the run: its number is not known before
    key = re.sub(r"[^a-zA-Z0-9_\-./ ]", "_", name)  # as Lightning does with the names of numbers
    client.log_image(logger.run_id, image, key=key, step=step)


@_singly
def _to_litlogger(logger: Any, name: str, image: Image, step: int) -> None:
    logger.experiment[name].append(importlib.import_module("litlogger").Image(image), step=step)


@_singly
def _to_clearml(_: Any, name: str, image: Image, step: int) -> None:
    title, _, series = name.rpartition("/")
    client = importlib.import_module("clearml").Logger.current_logger()
    client.report_image(title or series, series, step, image=np.array(image))


# A folder of steps is shown with a slider.
_to_dvclive = _singly(lambda logger, name, image, step: _client(logger).log_image(f"{name}/{step}.png", image))
_SENDERS: dict[str, Sender] = {
    **dict.fromkeys(("TensorBoardLogger", "SummaryWriter"), _to_tensorboard),
    "WandbLogger": _to_wandb,
    "MLFlowLogger": _to_mlflow,
    "CometLogger": _singly(lambda logger, name, image, step: logger.experiment.log_image(image, name=name, step=step)),
    "LitLogger": _to_litlogger,
    **dict.fromkeys(("DVCLiveLogger", "dvclive.live.Live"), _to_dvclive),
    "SwanLabLogger": _in_one_call("swanlab"),
    **dict.fromkeys(("ClearMLLogger", "clearml.task.Task"), _to_clearml),
    **dict.fromkeys(("TrackioLogger", "trackio.run.Run"), _in_one_call("trackio")),
    # It stands for all others in `Trainer(fast_dev_run=True)`, and drops numbers, too.
    "DummyLogger": lambda *_: None,
}
"""by the name of the class, with its module where the name alone may be that of another"""


def _write_files(logger: object, images: _Images, step: int, default_root_dir: str | os.PathLike[str]) -> None:
    """Write a file for each name, in folders by its slashes; several slashes are one."""
    folders = [getattr(logger, attribute, None) for attribute in ("log_dir", "save_dir")]
    folder = os.fspath(next((each for each in folders if isinstance(each, (str, os.PathLike))), default_root_dir))
    for name, image in images.items():
        parts = "/".join(_safe(part) for part in name.split("/") if part)
        path, contents = f"pictures/{parts}_step_{step:06d}.png", io.BytesIO()
        image.save(contents, format="PNG")
        if "://" not in folder:
            write_whole(Path(folder, path), contents.getvalue())
            continue
        # `CSVLogger` writes to object stores, too; PyTorch and Lightning bring fsspec.
        with importlib.import_module("fsspec").open(f"{folder}/{path}", "wb") as file:
            file.write(contents.getvalue())


def _safe(part: str) -> str:
    """A part of a name, with characters as in URLs, and a hash behind its beginning where it is too long."""
    written = _UNSAFE.sub(lambda unsafe: "".join(f"%{ord(each):02X}" for each in unsafe[0]), part).encode()
    if len(written) <= _LONGEST:
        return written.decode()
    return f"{written[:_LONGEST].decode(errors='ignore')}~{hashlib.sha256(written).hexdigest()[:16]}"
