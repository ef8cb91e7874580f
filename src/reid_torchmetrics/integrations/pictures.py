"""Pictures are passed to a logger by its own call, or written to a file if a logger accepts no pictures.

Loggers are recognized by the names of their classes, so that none is imported. A figure is rendered here, once for all
loggers, because their own calls for figures change the figure or show only a part of it (DECISIONS.md).
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
from reid_torchmetrics.files import write_whole
from reid_torchmetrics.plot import one_warning_of_glyphs, picture_at

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image

_Images: TypeAlias = "dict[str, Image]"
Sender: TypeAlias = "Callable[..., object]"
"""called with a logger, images of Pillow by their names, and a step"""

# Characters that a file system may refuse in a name (with "%", which replaces them), ends that Windows removes (all of
# "." and ".."), and the first letter of the names of Windows' devices.
_UNSAFE = re.compile(
    r'[<>:"\\|?*%\x00-\x1f\ud800-\udfff]|[. ]+$|^(?=(?:con|prn|aux|nul|com\d|lpt\d) *(?:\.|$)).', re.IGNORECASE
)
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")  # loggers can neither write nor send these characters
_MAX_NAME_BYTES = 200  # of the 255 that file systems accept, because the step follows


def log_picture(
    logger: Any,
    name: str,
    picture: Figure | Image | NDArray[np.uint8] | Tensor,
    step: int,
    *,
    default_root_dir: str | os.PathLike[str] = ".",
) -> None:
    """Log a figure or an image to one or several loggers of Lightning; write a PNG file for other loggers.

    TensorBoard, Weights & Biases, MLflow, Comet, LitLogger, DVCLive, SwanLab, ClearML and Trackio receive the picture
    by their own calls, under `name` and at `step`, and so do loggers added by `register_logger`. Without Lightning,
    `logger` may be a `SummaryWriter`, a `dvclive.Live`, a `clearml.Task` or a `trackio.Run`. For any other logger, such
    as `CSVLogger`, the file `pictures/NAME_step_000012.png` is written in its `log_dir` or `save_dir`. If there is no
    such folder or no logger, the file is written in `default_root_dir`. A slash in `name` starts a folder, characters
    that some file systems refuse are written as in URLs, and parts of more than 200 bytes are cut and end with a hash.
    A figure is rendered as it would be saved, in its size and resolution. It is neither closed nor changed, and pyplot
    is not used.

    With several processes, call this on one process only, as in `if self.trainer.is_global_zero:`. Loggers ignore the
    other processes, but all of them would write the file.

    Example:
        >>> import tempfile, torch
        >>> from pathlib import Path
        >>> image = torch.zeros(64, 32, 3, dtype=torch.uint8)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     log_picture(None, "val/nearest", image, step=12, default_root_dir=folder)
        ...     print(*(path.relative_to(folder).as_posix() for path in Path(folder).rglob("*.png")))
        pictures/val/nearest_step_000012.png

    Args:
        logger: `self.logger` or `self.loggers` of a LightningModule; None or an empty list if there is none.
        name: name such as "val/cmc". For MLflow, characters that it refuses become "_".
        picture: a figure of Matplotlib, an image of Pillow, or an image [H, W, 3] of uint8 as a NumPy array or a tensor
            on any device.
        step: step such as `self.global_step`; files with the same name and step are overwritten.
        default_root_dir: folder for files if the logger has none, such as `self.trainer.default_root_dir`.

    Raises:
        ModuleNotFoundError: Pillow is not installed; Matplotlib requires it.
        TypeError: `picture`, `name` or `step` is of another type, or an image is not uint8.
        ValueError: an image has another shape or no pixels, `name` has no characters, or `step` is negative.
    """
    _checks.positive_int("step", step, least=0)
    log_pictures(logger, {name: picture}, step, folder=default_root_dir, is_row_open=False)


class PictureTable(NamedTuple):
    """A table with pictures in its cells, for loggers that accept such tables."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    """cells are numbers, words, None, or pairs of an image of Pillow and its caption"""


@one_warning_of_glyphs()
def log_pictures(
    logger: Any, pictures: Mapping[str, object], step: int, *, folder: str | os.PathLike[str], is_row_open: bool
) -> None:
    """Log the pictures and tables of one step by name, in one call if a logger accepts several pictures at once.

    With `is_row_open`, numbers of the same step follow and share a row in Weights & Biases. `folder` is for files if a
    logger has no folder. See `log_picture` for everything else.
    """
    for name in pictures:
        if not isinstance(name, str):
            raise TypeError(f"`name` must be a str; got {type(name).__name__}.")
        if not name.strip("/"):
            raise ValueError(f"`name` must have a character that is no slash; got {name!r}.")
    tables = {}
    images = {}
    for name, picture in pictures.items():
        if isinstance(picture, PictureTable):
            tables[name] = picture
        else:
            images[name] = _to_image(picture)

    images_by_text = {_NO_TEXT.sub("\N{REPLACEMENT CHARACTER}", name): image for name, image in images.items()}
    loggers = logger if isinstance(logger, (list, tuple)) else [logger]
    for single_logger in loggers or [None]:
        send = _sender_to(single_logger)
        if send is None:
            _write_files(single_logger, images, step, folder)
        elif send is _to_wandb:
            send(single_logger, images_by_text, step, tables=tables, is_row_open=is_row_open)
        else:
            send(single_logger, images_by_text, step)


def takes_tables(loggers: Sequence[object]) -> bool:
    """Return whether a logger accepts tables with pictures in their cells."""
    return any(_sender_to(logger) is _to_wandb for logger in loggers)


def register_logger(kind: type | str, send: Sender) -> None:
    """Let `log_picture` and `EvaluationPictures` pass pictures to loggers of a class, instead of writing files.

    A function that was registered before for the class is replaced.

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
        kind: the class, or its name; subclasses are included.
        send: function that is called as `send(logger, images, step)` with the images of one step, RGB images of Pillow
            by name: one image from `log_picture`, all images of a validation from `EvaluationPictures`.

    Raises:
        TypeError: `kind` is neither a class nor a str, or `send` is not callable.
    """
    if not isinstance(kind, (type, str)):
        raise TypeError(f"`kind` must be a class or the name of one; got {type(kind).__name__}.")
    if not callable(send):
        raise TypeError(f"`send` must be a function of a logger, images and a step; got {type(send).__name__}.")
    _SENDERS[kind if isinstance(kind, str) else _names_of(kind)[0]] = send


def _to_image(picture: object) -> Image:
    """Convert a picture to an image of Pillow; some loggers rescale arrays and guess the order of their axes."""
    require("A picture in a log", "PIL")
    from PIL import Image as ImageModule  # noqa: PLC0415 - not every evaluation has pictures

    figures = sys.modules.get("matplotlib.figure")  # imported if the picture is a figure
    if figures is not None and isinstance(picture, figures.Figure):
        return ImageModule.fromarray(_render(picture))
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
    if isinstance(picture, Tensor):
        picture = picture.cpu().numpy()
    return ImageModule.fromarray(picture)


def _render(figure: Any) -> NDArray[np.uint8]:
    """Return the pixels of a figure, with white where it is transparent."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - large

    user_canvas = figure.canvas  # maybe in a window; the new canvas replaces it
    canvas: Any = FigureCanvasAgg(figure)
    try:
        canvas.draw()
    finally:
        figure.set_canvas(user_canvas)
    rgba = np.asarray(canvas.buffer_rgba())
    opacity = rgba[..., 3:] / 255
    return np.asarray(np.rint(opacity * rgba[..., :3] + (1 - opacity) * 255), np.uint8)


def _names_of(kind: type) -> tuple[str, str]:
    """Return the name of a class with its module, and without."""
    return f"{kind.__module__}.{kind.__qualname__}", kind.__name__


def _sender_to(logger: object) -> Sender | None:
    """Return the function for the logger's class or its nearest base class; None if there is none."""
    for kind in type(logger).__mro__:
        for name in _names_of(kind):
            if name in _SENDERS:
                return _SENDERS[name]
    return None


def _client(logger: Any) -> Any:
    """Return the client of a Lightning logger; a client itself is returned unchanged."""
    return getattr(logger, "experiment", logger)


def _singly(send: Callable[[Any, str, Image, int], object]) -> Sender:
    """Return the function for a client that accepts one picture per call."""

    def send_all(logger: Any, images: _Images, step: int) -> None:
        for name, image in images.items():
            send(logger, name, image, step)

    return send_all


def _in_one_call(package: str) -> Sender:
    """Return the function for a client that accepts several pictures, as instances of its package's class `Image`."""

    def send(logger: Any, images: _Images, step: int) -> None:
        client_image = importlib.import_module(package).Image
        _client(logger).log({name: client_image(image) for name, image in images.items()}, step=step)

    return send


def _to_wandb(logger: Any, images: _Images, step: int, *, tables: dict[str, PictureTable], is_row_open: bool) -> None:
    """Log images and tables to Weights & Biases."""
    client = importlib.import_module("wandb")  # its logger requires it

    def to_cell(value: Any) -> Any:
        if isinstance(value, tuple):
            image, caption = value
            return client.Image(image, caption=caption)
        return value

    prefix = ""
    if getattr(logger, "_prefix", ""):  # Lightning does the same with names of numbers
        prefix = f"{logger._prefix}-"  # noqa: SLF001 - it has no other name
    media: dict[str, Any] = {}
    for name, image in images.items():
        media[prefix + name] = [client.Image(image)]
    for name, table in tables.items():
        cells = [[to_cell(value) for value in row] for row in table.rows]
        media[prefix + name] = client.Table(columns=list(table.columns), data=cells)
    media["trainer/global_step"] = step
    logger.experiment.log(media, commit=not is_row_open)


@_singly
def _to_tensorboard(logger: Any, name: str, image: Image, step: int) -> None:
    _client(logger).add_image(name, np.array(image), step, dataformats="HWC")


@_singly
def _to_mlflow(logger: Any, name: str, image: Image, step: int) -> None:
    client = logger.experiment  # starts the run, so that it gets an id
    key = re.sub(r"[^a-zA-Z0-9_\-./ ]", "_", name)  # Lightning does the same with names of numbers
    client.log_image(logger.run_id, image, key=key, step=step)


@_singly
def _to_litlogger(logger: Any, name: str, image: Image, step: int) -> None:
    logger.experiment[name].append(importlib.import_module("litlogger").Image(image), step=step)


@_singly
def _to_clearml(_: Any, name: str, image: Image, step: int) -> None:
    title, _, series = name.rpartition("/")
    client = importlib.import_module("clearml").Logger.current_logger()
    client.report_image(title or series, series, step, image=np.array(image))


# DVCLive shows a folder of steps with a slider.
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
    # It replaces all loggers in `Trainer(fast_dev_run=True)`, and drops numbers as well.
    "DummyLogger": lambda *_: None,
}
"""functions by name of the logger's class, with the module if the name is ambiguous"""


def _write_files(logger: object, images: _Images, step: int, default_root_dir: str | os.PathLike[str]) -> None:
    """Write a file for each name, in folders by its slashes; repeated slashes count as one."""
    folder = os.fspath(default_root_dir)
    for attribute in ("log_dir", "save_dir"):
        value = getattr(logger, attribute, None)
        if isinstance(value, (str, os.PathLike)):
            folder = os.fspath(value)
            break
    for name, image in images.items():
        safe_name = "/".join(_escape(part) for part in name.split("/") if part)
        path = f"pictures/{safe_name}_step_{step:06d}.png"
        contents = io.BytesIO()
        image.save(contents, format="PNG")
        if "://" not in folder:
            write_whole(Path(folder, path), contents.getvalue())
            continue
        # `CSVLogger` can write to object stores as well; PyTorch and Lightning require fsspec.
        with importlib.import_module("fsspec").open(f"{folder}/{path}", "wb") as file:
            file.write(contents.getvalue())


def _escape(part: str) -> str:
    """Write unsafe characters of a file name as in URLs; cut a long name and append a hash."""
    escaped = _UNSAFE.sub(lambda match: "".join(f"%{ord(character):02X}" for character in match[0]), part).encode()
    if len(escaped) <= _MAX_NAME_BYTES:
        return escaped.decode()
    digest = hashlib.sha256(escaped).hexdigest()[:16]
    return f"{escaped[:_MAX_NAME_BYTES].decode(errors='ignore')}~{digest}"
