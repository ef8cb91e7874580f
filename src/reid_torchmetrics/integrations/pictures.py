"""A picture goes to a logger by the logger's own call, and into a file where a logger takes no pictures.

Loggers are known by the names of their classes, so that none is imported. A figure is drawn here, once and for all of
them: their own calls for figures change the figure, or show a part of it (docs/decisions.md).
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._files import write_whole
from reid_torchmetrics.plot import picture_at

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image

_Pixels: TypeAlias = NDArray[np.uint8]  # [H, W, 3]

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

    TensorBoard, Weights & Biases, MLflow, Comet and LitLogger get the picture by their own calls, under `name` and at
    `step`. Any other logger, such as `CSVLogger`, finds it as `pictures/NAME_step_000012.png` in its `log_dir` or
    `save_dir`; without either, and without a logger, the file is in `default_root_dir`. A slash in `name` begins a
    folder, characters that not all file systems take are written as in URLs, and of parts of more than 200 bytes there
    is the beginning, with a hash. A figure is drawn as it would be
    saved, in its size and resolution; it is neither closed nor changed, and pyplot is not used.

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
    if not isinstance(name, str):
        raise TypeError(f"`name` must be a str; got {type(name).__name__}.")
    if not name.strip("/"):
        raise ValueError(f"`name` must have a character that is no slash; got {name!r}.")
    _checks.positive_int("step", step, least=0)
    pixels = _pixels_of(picture)
    sent = _NO_TEXT.sub("\N{REPLACEMENT CHARACTER}", name)
    loggers = logger if isinstance(logger, (list, tuple)) else [logger]
    for each in loggers or [None]:
        send = _sender_to(each)
        if send is None:
            _write_file(_folder_of(each, default_root_dir), name, pixels, step)
        else:
            send(each, sent, pixels, step)


def _pixels_of(picture: object) -> _Pixels:
    # Who has a figure or an image of Pillow has imported its module.
    figures = sys.modules.get("matplotlib.figure")
    if figures is not None and isinstance(picture, figures.Figure):
        return _drawn(picture)
    images = sys.modules.get("PIL.Image")
    if images is not None and isinstance(picture, images.Image):
        return np.array(picture_at("picture", (picture,), 0))
    if not isinstance(picture, (np.ndarray, Tensor)):
        raise TypeError(
            "`picture` must be a figure of Matplotlib, an image of Pillow, a NumPy array or a tensor; got"
            f" {type(picture).__name__}."
        )
    if str(picture.dtype).removeprefix("torch.") != "uint8":
        raise TypeError(f"`picture` must have the dtype uint8; got {picture.dtype}.")
    if picture.ndim != 3 or picture.shape[2] != 3:
        raise ValueError(f"`picture` must have shape [H, W, 3]; got {list(picture.shape)}.")
    if 0 in picture.shape:
        raise ValueError(f"`picture` must have at least one pixel; got {list(picture.shape)}.")
    return picture.cpu().numpy() if isinstance(picture, Tensor) else picture


def _drawn(figure: Any) -> _Pixels:
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
    pixels: _Pixels = np.rint(opacity * rgba[..., :3] + (1 - opacity) * 255).astype(np.uint8)
    return pixels


def _as_image(pixels: _Pixels) -> Image:
    # Loggers take an image of Pillow as it is. Of an array some rescale the values and guess the order of axes.
    try:
        from PIL import Image  # noqa: PLC0415 - not every evaluation has pictures
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("Logging pictures needs Pillow: pip install pillow.", name=error.name) from error
    return Image.fromarray(pixels)


def _sender_to(logger: object) -> Callable[[Any, str, _Pixels, int], object] | None:
    """The function for a logger of this class, or of a class that it inherits from."""
    known = (_SENDERS[each.__name__] for each in type(logger).__mro__ if each.__name__ in _SENDERS)
    return next(known, None)


def _to_tensorboard(logger: Any, name: str, pixels: _Pixels, step: int) -> None:
    logger.experiment.add_image(name, pixels, step, dataformats="HWC")


def _to_wandb(logger: Any, name: str, pixels: _Pixels, step: int) -> None:
    logger.log_image(key=name, images=[_as_image(pixels)], step=step)


def _to_mlflow(logger: Any, name: str, pixels: _Pixels, step: int) -> None:
    key = re.sub(r"[^a-zA-Z0-9_\-./ ]", "_", name)  # as Lightning does with the names of numbers
    client = logger.experiment  # begins the run: its number is not known before
    client.log_image(logger.run_id, _as_image(pixels), key=key, step=step)


def _to_comet(logger: Any, name: str, pixels: _Pixels, step: int) -> None:
    logger.experiment.log_image(_as_image(pixels), name=name, step=step)


def _to_litlogger(logger: Any, name: str, pixels: _Pixels, step: int) -> None:
    from litlogger import Image  # noqa: PLC0415 - who has its logger has it

    logger.experiment[name].append(Image(_as_image(pixels)), step=step)


def _to_nobody(logger: Any, name: str, pixels: _Pixels, step: int) -> None:
    """Drop a picture, as this logger does with numbers: it stands for all others in `Trainer(fast_dev_run=True)`."""


_SENDERS: dict[str, Callable[[Any, str, _Pixels, int], object]] = {
    "TensorBoardLogger": _to_tensorboard,
    "WandbLogger": _to_wandb,
    "MLFlowLogger": _to_mlflow,
    "CometLogger": _to_comet,
    "LitLogger": _to_litlogger,
    "DummyLogger": _to_nobody,
}


def _folder_of(logger: object, default_root_dir: str | os.PathLike[str]) -> str:
    for attribute in ("log_dir", "save_dir"):
        folder = getattr(logger, attribute, None)
        if isinstance(folder, (str, os.PathLike)):
            return os.fspath(folder)
    return os.fspath(default_root_dir)


def _write_file(folder: str, name: str, pixels: _Pixels, step: int) -> None:
    file_name, contents = f"pictures/{_file_name(name, step)}", io.BytesIO()
    _as_image(pixels).save(contents, format="PNG")
    if "://" in folder:  # `CSVLogger` writes to object stores, too
        import fsspec  # noqa: PLC0415 - PyTorch and Lightning bring it

        with fsspec.open(f"{folder}/{file_name}", "wb") as file:
            file.write(contents.getvalue())
    else:
        write_whole(Path(folder, file_name), contents.getvalue())


def _file_name(name: str, step: int) -> str:
    """A file for each name, in folders by its slashes; several slashes are one."""
    parts = [_cut(_UNSAFE.sub(_percent_encoded, part)) for part in name.split("/") if part]
    return f"{'/'.join(parts)}_step_{step:06d}.png"


def _cut(part: str) -> str:
    """A part of a name, with a hash of all of it behind its beginning where it is too long."""
    written = part.encode()
    if len(written) <= _LONGEST:
        return part
    return f"{written[:_LONGEST].decode(errors='ignore')}~{hashlib.sha256(written).hexdigest()[:16]}"


def _percent_encoded(match: re.Match[str]) -> str:
    return "".join(f"%{ord(character):02X}" for character in match[0])
