"""Where the examples log to: TensorBoard, or Weights & Biases with `--wandb`."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning.pytorch.loggers import TensorBoardLogger, WandbLogger

if TYPE_CHECKING:
    from argparse import Namespace

    from lightning.pytorch.loggers import Logger

WANDB_HELP = (
    "log to Weights & Biases and not to TensorBoard; without an API key (`wandb login`, or WANDB_API_KEY) into files"
    " below the output folder, which `wandb sync` uploads"
)


def settings(options: Namespace) -> dict[str, Any]:
    """The options of a run, as its logger keeps them."""
    return {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()}


def make_logger(options: Namespace) -> Logger:
    """Make the logger of the options `wandb` and `output`; it writes into `output` only.

    Raises:
        SystemExit: `wandb` was chosen and is not installed.
    """
    if not options.wandb:
        return TensorBoardLogger(options.output, name="tensorboard")
    if importlib.util.find_spec("wandb") is None:
        raise SystemExit("`--wandb` needs Weights & Biases: pip install wandb")
    return WandbLogger(project="reid_torchmetrics", save_dir=options.output, offline=not has_wandb_key())


def has_wandb_key() -> bool:
    """Whether there is an API key of Weights & Biases, in the environment or where `wandb login` puts it."""
    files = [os.environ.get("NETRC", ""), "~/.netrc", "~/_netrc"]
    found = (Path(file).expanduser() for file in files if file)
    return bool(os.environ.get("WANDB_API_KEY")) or any(
        "api.wandb.ai" in file.read_text(errors="replace", encoding="utf-8") for file in found if file.is_file()
    )


def how_to_look(options: Namespace) -> str:
    """The command that shows what was logged."""
    if not options.wandb:
        return f"tensorboard --logdir {options.output}"
    return "at https://wandb.ai" if has_wandb_key() else f"wandb sync {options.output}/wandb/offline-run-*"
