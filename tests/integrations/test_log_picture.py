"""Pictures in loggers: what was handed over is read back, from the real loggers where they are installed."""

import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

from reid_torchmetrics.integrations import log_picture, pictures, register_logger
from tests.integrations.clients import (
    CLIENTS,
    NEARLY_BLACK,
    PIXELS,
    STEP,
    CometLogger,
    MLFlowLogger,
    WandbLogger,
    decoded,
    images_in_events,
    new_figure,
    pixels_in,
)
from tests.paths import path

pytestmark = pytest.mark.usefixtures("own_folder")
lightning = pytest.importorskip("lightning")
loggers = pytest.importorskip("lightning.pytorch.loggers")
dummies = pytest.importorskip("lightning.pytorch.loggers.logger")


# TensorBoard


class Renamed(loggers.TensorBoardLogger):
    """Not in any table; it is known by the class that it inherits from."""


@pytest.mark.parametrize("kind", [loggers.TensorBoardLogger, Renamed, "SummaryWriter"])
@pytest.mark.parametrize("picture", [PIXELS, PIXELS[::-1], torch.from_numpy(PIXELS).transpose(0, 1), NEARLY_BLACK])
def test_an_image_is_in_the_events_of_tensorboard(tmp_path, kind, picture):
    if kind == "SummaryWriter":
        logger = pytest.importorskip("torch.utils.tensorboard").SummaryWriter(tmp_path)
        finish = logger.close
    else:
        logger = kind(tmp_path, name="", version="")
        finish = partial(logger.finalize, "success")
    log_picture(logger, "val/nearest", picture, STEP)
    finish()
    (event,) = images_in_events(tmp_path, "val/nearest")
    assert event.step == STEP
    assert decoded(event, tmp_path / "image.png").tolist() == picture.tolist()
    assert not (tmp_path / "pictures").exists()


@pytest.mark.slow
def test_a_figure_is_in_the_events_of_tensorboard_as_its_own_call_draws_it(tmp_path):
    logger = loggers.TensorBoardLogger(tmp_path, name="", version="")
    log_picture(logger, "ours", new_figure(), STEP)
    logger.experiment.add_figure("its own", new_figure(), STEP)
    logger.finalize("success")
    (ours,), (its_own,) = images_in_events(tmp_path, "ours"), images_in_events(tmp_path, "its own")
    assert (ours.step, ours.width, ours.height) == (STEP, 300, 200)
    assert decoded(ours, tmp_path / "1.png").tolist() == decoded(its_own, tmp_path / "2.png").tolist()


def test_a_process_other_than_the_first_logs_nothing(tmp_path, monkeypatch):
    from lightning.fabric.utilities.rank_zero import rank_zero_only  # noqa: PLC0415 - may be missing

    monkeypatch.setattr(rank_zero_only, "rank", 1)
    log_picture(loggers.TensorBoardLogger(tmp_path), "val/nearest", PIXELS, STEP)
    assert [*tmp_path.iterdir()] == []


# Weights & Biases and MLflow, where they are installed


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the client's dependencies
@pytest.mark.parametrize("picture", [NEARLY_BLACK, new_figure()], ids=["image", "figure"])
def test_a_picture_is_in_an_offline_run_of_wandb(tmp_path, monkeypatch, picture):
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setenv("WANDB_SILENT", "true")
    logger = loggers.WandbLogger(save_dir=tmp_path, offline=True)
    log_picture(logger, "val/nearest", picture, STEP)
    summary = dict(logger.experiment.summary["val/nearest"])
    wandb.finish()
    wandb.teardown()  # the log is complete when the client's service has ended
    (path,) = tmp_path.glob("wandb/offline-run-*/files/media/images/val/nearest_*.png")
    written = pixels_in(path)
    assert (summary["count"], summary["height"], summary["width"]) == (1, *written.shape[:2])
    assert written.shape == ((200, 300, 3) if isinstance(picture, Figure) else picture.shape)
    if not isinstance(picture, Figure):
        assert written.tolist() == picture.tolist()


@pytest.mark.filterwarnings("ignore")  # of the client's dependencies
def test_a_picture_is_in_a_store_of_mlflow(tmp_path, monkeypatch):
    pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # newer versions ask for it
    logger = loggers.MLFlowLogger(tracking_uri=f"file:{tmp_path / 'runs'}")
    log_picture(logger, "val/nearest (AP@0.5)", PIXELS, STEP)
    (artifact,) = (
        each.path for each in logger.experiment.list_artifacts(logger.run_id, "images") if each.path.endswith(".png")
    )
    assert re.match(r"images/val.nearest _AP_0.5_.step.12.timestamp", artifact)
    (path,) = tmp_path.glob(f"runs/*/{logger.run_id}/artifacts/{artifact}")
    assert pixels_in(path).tolist() == PIXELS.tolist()


def test_every_logger_has_a_stand_in_or_the_real_client():
    real = {"TensorBoardLogger", "SummaryWriter", "DummyLogger"}
    names = {name for name in pictures._SENDERS if "." not in name}
    lacking = sorted(names - real - {client.__name__ for client in CLIENTS})
    assert not lacking, f"add stand-ins for {lacking} to `CLIENTS` in tests/integrations/clients.py"


@pytest.mark.usefixtures("_packages")
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_gets_an_image_of_pillow_with_its_name_and_step(client, tmp_path):
    logger = client()
    log_picture(logger, "val/nearest", PIXELS, STEP)
    log_picture(logger, "val/nearest", new_figure(), STEP + 1)
    (name, image, step), (_, figure, later) = logger.calls
    assert (name, step, later) == ("val/nearest", STEP, STEP + 1)
    assert isinstance(image, Image.Image)
    assert np.asarray(image).tolist() == PIXELS.tolist()
    assert (figure.mode, figure.size) == ("RGB", (300, 200))
    assert [*tmp_path.iterdir()] == []


@pytest.mark.usefixtures("_packages")
@pytest.mark.parametrize(
    ("client", "name", "expected"),
    [
        (WandbLogger, "val/\x00\ud800", "val/\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"),
        (CometLogger, "val/\x00\ud800", "val/\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"),
        (MLFlowLogger, "val/\x00\ud800", "val/__"),
        (MLFlowLogger, "val/AP@0.5 of-a_b", "val/AP_0.5 of-a_b"),
    ],
)
def test_characters_that_are_no_text_or_that_mlflow_refuses_are_replaced(client, name, expected):
    logger = client()
    log_picture(logger, name, PIXELS, STEP)
    assert logger.calls[0][0] == expected


# Loggers of other packages, where they are installed


@pytest.mark.filterwarnings("ignore")  # of the client's dependencies
@pytest.mark.parametrize("has_lightning", [True, False])
def test_pictures_of_steps_are_in_a_folder_of_dvclive(tmp_path, has_lightning):
    dvclive = pytest.importorskip("dvclive", reason="dvclive is not installed")
    options = {"dir": str(tmp_path / "live"), "save_dvc_exp": False, "monitor_system": False}
    if has_lightning:
        logger = pytest.importorskip("dvclive.lightning").DVCLiveLogger(**options)
    else:
        logger = dvclive.Live(**options)
    for step in (1, STEP):
        log_picture(logger, "val/nearest", PIXELS, step)
    folder = tmp_path / "live/plots/images/val/nearest"
    assert sorted(path.name for path in folder.iterdir()) == ["1.png", "12.png"]
    assert pixels_in(folder / "12.png").tolist() == PIXELS.tolist()


@pytest.mark.filterwarnings("ignore")
def test_a_picture_is_in_an_offline_run_of_swanlab(tmp_path):
    swanlab = pytest.importorskip("swanlab", reason="swanlab is not installed")
    integration = pytest.importorskip("swanlab.integration.pytorch_lightning")
    logger = integration.SwanLabLogger(project="test", mode="offline", logdir=str(tmp_path))
    log_picture(logger, "val/nearest", PIXELS, STEP)
    swanlab.finish()
    (path,) = tmp_path.glob("run-*/media/image/012-*.png")
    assert pixels_in(path).tolist() == PIXELS.tolist()


@pytest.mark.filterwarnings("ignore")
def test_a_picture_is_in_the_folder_of_trackio(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    trackio = pytest.importorskip("trackio", reason="trackio is not installed")
    run = trackio.init(project="test", name="run")
    log_picture(run, "val/nearest", PIXELS, STEP)
    trackio.finish()
    (path,) = tmp_path.rglob("12/*.png")
    with Image.open(path) as written:  # with opacity
        assert np.asarray(written.convert("RGB")).tolist() == PIXELS.tolist()


# Loggers that users register


class Shelf:
    """A logger of the user's own."""

    def __init__(self):
        self.held = []


@pytest.mark.parametrize("kind", [Shelf, "Shelf"])
def test_a_registered_logger_and_its_heirs_get_all_pictures_at_once(kind, monkeypatch, tmp_path):
    monkeypatch.setattr(*path("senders"), dict(pictures._SENDERS))
    register_logger(kind, lambda shelf, images, step: shelf.held.append((images, step)))
    shelf = type("Heir", (Shelf,), {})()
    pictures.log_pictures([shelf], {"a": PIXELS, "b": new_figure()}, STEP, folder=".", is_row_open=False)
    ((images, step),) = shelf.held
    assert (step, [*images], images["b"].size) == (STEP, ["a", "b"], (300, 200))
    assert np.asarray(images["a"]).tolist() == PIXELS.tolist()
    assert [*tmp_path.iterdir()] == []


def test_only_a_class_and_a_function_can_be_registered():
    with pytest.raises(TypeError, match=r"^`kind` must be a class or the name of one; got Shelf\.$"):
        register_logger(Shelf(), print)
    with pytest.raises(TypeError, match=r"^`send` must be a function of a logger, images and a step; got str\.$"):
        register_logger(Shelf, "print")


# Several, and none


@pytest.mark.usefixtures("_packages")
@pytest.mark.parametrize("group", [list, tuple])
def test_each_of_several_loggers_gets_the_picture(tmp_path, group):
    clients = [client() for client in CLIENTS]
    files = loggers.CSVLogger(tmp_path / "csv")
    log_picture(group([*clients, files]), "val/nearest", new_figure(), STEP)
    assert [len(client.calls) for client in clients] == [1] * len(CLIENTS)
    assert len([*tmp_path.rglob("*.png")]) == 1


def test_the_logger_of_a_fast_dev_run_drops_the_picture(tmp_path):
    log_picture(dummies.DummyLogger(), "val/nearest", PIXELS, STEP)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.filterwarnings("ignore")  # of Lightning about loaders and loggers
@pytest.mark.parametrize(
    ("named", "folders"),
    [(["csv"], ["csv/pictures"]), (["tensorboard", "csv"], ["csv/pictures", "tensorboard"]), ([], ["root/pictures"])],
)
def test_a_module_logs_to_all_loggers_of_its_trainer(tmp_path, named, folders):
    class Module(lightning.LightningModule):
        def validation_step(self, batch, batch_idx):
            pass

        def on_validation_epoch_end(self):
            folder = self.trainer.default_root_dir
            log_picture(self.loggers, "val/nearest", PIXELS, self.global_step, default_root_dir=folder)

    classes = {"csv": loggers.CSVLogger, "tensorboard": loggers.TensorBoardLogger}
    logger = [classes[name](tmp_path, name=name, version="") for name in named]
    options = {"accelerator": "cpu", "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(logger=logger or False, default_root_dir=tmp_path / "root", **options)
    trainer.validate(Module(), torch.utils.data.DataLoader(torch.zeros(1)), verbose=False)
    if "tensorboard" in folders:
        assert len(images_in_events(tmp_path / "tensorboard", "val/nearest")) == 1
    written = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.png")]
    assert len(written) == 1
    assert written[0].startswith(folders[0])


# Figures


@pytest.mark.parametrize("make", [new_figure, lambda: plt.subplots()[0]])
def test_a_figure_stays_as_it_was_and_open_in_pyplot_if_it_was_there(make):
    figure, numbers = make(), plt.get_fignums()
    canvas, size, dpi = figure.canvas, figure.get_size_inches().tolist(), figure.dpi
    try:
        log_picture(None, "cmc", figure, STEP)
        assert figure.canvas is canvas
        assert (figure.get_size_inches().tolist(), figure.dpi, len(figure.axes)) == (size, dpi, 1)
        assert plt.get_fignums() == numbers
    finally:
        plt.close(figure)


def test_a_transparent_figure_is_drawn_on_white():
    figure = Figure(figsize=(1, 1), dpi=10, facecolor=(1, 0, 0, 0.5))
    log_picture(None, "red", figure, STEP)
    log_picture(None, "none", Figure(figsize=(1, 1), dpi=10, facecolor="none"), STEP)
    assert pixels_in("pictures/red_step_000012.png")[5, 5] == pytest.approx([255, 127.5, 127.5], abs=1)
    assert pixels_in("pictures/none_step_000012.png").min() == 255


# Errors

KINDS = "`picture` must be a figure of Matplotlib, an image of Pillow, a NumPy array or a tensor; got list."
BAD = [
    (("a", [[0]], 1), TypeError, KINDS),
    (("a", PIXELS / 255, 1), TypeError, "`picture` must have the dtype uint8; got float64."),
    (("a", torch.zeros(2, 2, 3), 1), TypeError, "`picture` must have the dtype uint8; got torch.float32."),
    (("a", PIXELS[..., 0], 1), ValueError, "`picture` must have shape [H, W, 3]; got [5, 7]."),
    (("a", PIXELS.transpose(2, 0, 1), 1), ValueError, "`picture` must have shape [H, W, 3]; got [3, 5, 7]."),
    (("a", PIXELS[:0], 1), ValueError, "`picture` must have at least one pixel; got [0, 7, 3]."),
    ((3, PIXELS, 1), TypeError, "`name` must be a str; got int."),
    (("", PIXELS, 1), ValueError, "`name` must have a character that is no slash; got ''."),
    (("//", PIXELS, 1), ValueError, "`name` must have a character that is no slash; got '//'."),
    (("a", PIXELS, -1), ValueError, "`step` must be at least 0; got -1."),
    (("a", PIXELS, 1.0), TypeError, "`step` must be an int; got float."),
]


@pytest.mark.parametrize(("arguments", "kind", "message"), BAD, ids=[message for _, _, message in BAD])
def test_bad_input_is_refused_and_nothing_is_written(arguments, kind, message, tmp_path):
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        log_picture(None, *arguments)
    assert [*tmp_path.iterdir()] == []


def test_a_figure_of_the_user_warns_once_of_characters_that_its_font_lacks(tmp_path):
    figure = Figure()
    figure.subplots().set(title="狗", xlabel="猫狗")
    with pytest.warns(UserWarning, match="has no glyphs for '狗', '猫'") as caught:
        log_picture(None, "title", figure, 0, default_root_dir=tmp_path)
    assert len(caught) == 1


pytestmark = pytest.mark.usefixtures("own_folder")
loggers = pytest.importorskip("lightning.pytorch.loggers")


def test_a_logger_that_takes_no_pictures_finds_a_file_in_its_folder_or_in_the_current_directory(tmp_path):
    logger = loggers.CSVLogger(tmp_path / "logs", name="run", version=3)
    log_picture(logger, "val/nearest", PIXELS, STEP, default_root_dir=tmp_path / "elsewhere")
    (path,) = tmp_path.rglob("*.png")
    assert path.relative_to(tmp_path).as_posix() == "logs/run/version_3/pictures/val/nearest_step_000012.png"
    assert pixels_in(path).tolist() == PIXELS.tolist()
    log_picture(None, "cmc", new_figure(), 0)
    assert pixels_in(tmp_path / "pictures" / "cmc_step_000000.png").shape == (200, 300, 3)


@pytest.mark.parametrize(
    ("logger", "folder"),
    [
        (SimpleNamespace(log_dir="logged", save_dir="saved"), "logged"),
        (SimpleNamespace(log_dir=None, save_dir=Path("saved")), "saved"),
        (SimpleNamespace(log_dir=None, save_dir=None), "default"),
        (SimpleNamespace(), "default"),
        (None, "default"),
        ([], "default"),
    ],
)
def test_the_folder_is_the_first_that_there_is(logger, folder):
    log_picture(logger, "nearest", PIXELS, STEP, default_root_dir="default")
    assert [path.as_posix() for path in Path().rglob("*.png")] == [f"{folder}/pictures/nearest_step_000012.png"]


def test_a_folder_may_be_in_an_object_store():
    fsspec = pytest.importorskip("fsspec")
    log_picture(SimpleNamespace(log_dir="memory://run"), "val/nearest", PIXELS, STEP)
    with fsspec.open("memory://run/pictures/val/nearest_step_000012.png") as file:
        assert pixels_in(file).tolist() == PIXELS.tolist()
    assert [*Path().iterdir()] == []


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("val/cmc", "val/cmc_step_000012.png"),
        ("/a//b/", "a/b_step_000012.png"),
        ("AP@0.5 (ü)", "AP@0.5 (ü)_step_000012.png"),
        ("a:b", "a%3Ab_step_000012.png"),
        ("a%3Ab", "a%253Ab_step_000012.png"),
        ("../../a", "%2E%2E/%2E%2E/a_step_000012.png"),
        (".", "%2E_step_000012.png"),
        ("x./y ", "x%2E/y%20_step_000012.png"),
        ("CON/nul.a/com1 .b/console", "%43ON/%6Eul.a/%63om1 .b/console_step_000012.png"),
        ("a\ud800", "a%D800_step_000012.png"),
        ("a" * 200, f"{'a' * 200}_step_000012.png"),
        ('a\\b?*"<>|\n', "a%5Cb%3F%2A%22%3C%3E%7C%0A_step_000012.png"),
    ],
)
def test_a_file_has_a_name_that_every_file_system_takes(name, file):
    log_picture(None, name, PIXELS, STEP)
    assert [path.relative_to("pictures").as_posix() for path in Path("pictures").rglob("*.png")] == [file]


def test_long_names_and_steps_have_files_of_their_own_and_a_step_is_overwritten():
    names = [f"{letter * 300}/{letter * 300}{end}" for letter in "aü" for end in "12"]
    for name in names:
        log_picture(None, name, PIXELS, 10**6)
    assert len([*Path("pictures").rglob("*.png")]) == 4
    for step in (1, 2, 10_000_000, 2):
        log_picture(None, "a", PIXELS, step)
    files = sorted(path.name for path in Path("pictures").glob("*.png"))
    assert files == ["a_step_000001.png", "a_step_000002.png", "a_step_10000000.png"]


PICTURES = [PIXELS[::-1], torch.from_numpy(PIXELS).transpose(0, 1)]
PICTURES += [Image.fromarray(PIXELS).convert(mode) for mode in ("RGB", "RGBA", "L")]


@pytest.mark.parametrize("picture", PICTURES)
def test_a_picture_may_be_a_view_or_an_image_of_pillow(picture):
    log_picture(None, "a", picture, STEP)
    pixels = np.asarray(picture.convert("RGB") if isinstance(picture, Image.Image) else picture)
    assert pixels_in("pictures/a_step_000012.png").tolist() == pixels.tolist()
