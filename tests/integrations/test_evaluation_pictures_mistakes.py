"""Mistakes, and what fails on the way: the callback says so, once, and the run goes on."""

import re
import sys
from collections import Counter
from pathlib import Path

import lightning
import pytest
from lightning.pytorch import loggers

from reid_torchmetrics import ReIDMeanAP, integrations
from reid_torchmetrics.functional.retrieval import RetrievalResults
from reid_torchmetrics.integrations import EvaluationPictures, evaluation_pictures
from reid_torchmetrics.plot import FIGURES
from tests.integrations.pictured_module import PicturedModule, files, fit, loader, named, picture, tags, trainer

pytestmark = pytest.mark.usefixtures("quiet_folder", "blank_figures")


# Never at the cost of the run


def ours(said) -> list[str]:
    """The texts of the callback's warnings; Lightning has some of its own."""
    texts = [str(each.message) for each in said]
    return [text for text in texts if text.startswith(("The picture", "No picture"))]


def failing(number):
    raise OSError(f"the picture {number} is gone")


@pytest.mark.slow
def test_pictures_that_fail_are_said_once_and_the_run_goes_on():
    with pytest.warns(UserWarning, match="could not be drawn") as said:
        run = fit(EvaluationPictures(pictures=failing))
    (text,) = ours(said)
    assert text.startswith(
        "The picture 'val/hardest_queries' could not be drawn. The run continues, and this warning appears once."
        "\nTraceback"
    )
    assert text.endswith("OSError: the picture 1 is gone\n")
    assert run.current_epoch == 2
    assert files() == named(tags("val"), 1, 3)


@pytest.mark.slow
def test_a_logger_that_fails_keeps_no_other_from_its_pictures(monkeypatch):
    class Full(loggers.CSVLogger):
        """On a disk that is full."""

    log_pictures = evaluation_pictures.log_pictures

    def log(logger, *args, **options):
        if isinstance(logger, Full):
            raise OSError("no space left")
        return log_pictures(logger, *args, **options)

    monkeypatch.setattr(evaluation_pictures, "log_pictures", log)
    both = [Full("full", name="", version=""), loggers.CSVLogger("whole", name="", version="")]
    with pytest.warns(UserWarning, match="(?s)could not be logged to Full.*no space left") as said:
        trainer(EvaluationPictures(), both).validate(PicturedModule(), loader(), verbose=False)
    assert len(ours(said)) == 1
    assert files("whole") == named(tags("val"), 0)


@pytest.mark.slow
def test_without_a_logger_the_file_is_what_could_not_be_written():
    Path("pictures").write_text("in the way", encoding="utf-8")
    with pytest.warns(UserWarning, match="could not be written to files") as said:
        trainer(EvaluationPictures(), False).validate(PicturedModule(), loader(), verbose=False)
    assert len(ours(said)) == 1


@pytest.mark.slow
def test_a_figure_that_fails_leaves_the_others(monkeypatch):
    rows = FIGURES[RetrievalResults]
    monkeypatch.setitem(rows, "first_ranks", rows["first_ranks"]._replace(plot=lambda results: 1 / 0))
    with pytest.warns(UserWarning, match="(?s)'val/first_ranks' could not be drawn.*ZeroDivisionError") as said:
        fit(EvaluationPictures())
    assert len(ours(said)) == 1
    assert files() == named(["val/cmc", "val/precision_recall"], 1, 3)


@pytest.mark.slow
def test_candidates_that_cannot_be_listed_are_said_by_the_process_that_draws(monkeypatch):
    def nearest(self, k, queries=None):
        raise ValueError("no lists")

    monkeypatch.setattr(ReIDMeanAP, "nearest", nearest, raising=False)
    with pytest.warns(UserWarning, match="(?s)'val/hardest_queries' could not be drawn.*ValueError: no lists"):
        fit(EvaluationPictures("val_map", pictures=picture))
    assert files() == named(tags("val"), 1, 3)


@pytest.mark.parametrize(("call", "hook"), [("validate", "validation"), ("test", "test")])
def test_a_metric_without_samples_is_said_once_with_what_to_do(call, hook):
    class Early(PicturedModule):
        def __init__(self):
            super().__init__()
            self.unused = ReIDMeanAP()

    run = trainer(EvaluationPictures("unused"), False)
    message = (
        "No picture of `unused` was logged, because it has no samples when callbacks are called at the end of the"
        f" {hook} epoch: update it in `{hook}_step`, and do not reset it before `on_{hook}_epoch_end` of the module."
    )
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$") as said:
        _ = [getattr(run, call)(Early(), loader(), verbose=False) for _ in range(2)]
    assert len(ours(said)) == 1
    assert [*Path().rglob("*.png")] == []


# Mistakes


NAMES = "must hold at least one name and none twice"
BAD = [
    ({"metrics": 3}, TypeError, "`metrics` must be a str or a list of them; got int."),
    ({"metrics": [3]}, TypeError, "`metrics` must hold names of attributes only; got 3."),
    ({"metrics": []}, ValueError, f"`metrics` {NAMES}; got []."),
    ({"metrics": ""}, ValueError, f"`metrics` {NAMES}; got ''."),
    ({"metrics": ["a", "a"]}, ValueError, f"`metrics` {NAMES}; got ['a', 'a']."),
    ({"test_metrics": 3}, TypeError, "`test_metrics` must be a str or a list of them; got int."),
    ({"pictures": 3}, TypeError, "`pictures` must be a function of a number or be indexed by it; got int."),
    ({"gallery_pictures": []}, ValueError, "`pictures` must be given with `gallery_pictures`; got None."),
    ({"mean": 0.5}, ValueError, "`mean` and `std` must be given together; got `mean` alone."),
    ({"mean": "a", "std": [1]}, TypeError, "`mean` must be a number; got str."),
    ({"identity_names": ["a"]}, TypeError, "`identity_names` must be a mapping of labels to names; got list."),
    *(
        ({option: 0}, ValueError, f"`{option}` must be at least 1; got 0.")
        for option in ("num_queries", "k", "num_images", "every_n_epochs")
    ),
]


@pytest.mark.parametrize(("options", "kind", "message"), BAD)
def test_a_bad_argument_is_refused(options, kind, message):
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        EvaluationPictures(**options)


NO_ATTRIBUTE = "name an attribute of PicturedModule, whose metrics are 'val_metrics', 'val_map', 'other'; got 'x'"
NO_METRIC = "name a metric of embeddings or of boxes, or a collection of some; got 'same', a Identity"


@pytest.mark.parametrize("hook", ["fit", "validate", "test"])
@pytest.mark.parametrize(
    ("attribute", "kind", "rule"), [("x", ValueError, NO_ATTRIBUTE), ("same", TypeError, NO_METRIC)]
)
def test_an_attribute_that_is_no_metric_is_an_error_before_the_run_begins(hook, attribute, kind, rule):
    argument = "test_metrics" if hook == "test" else "metrics"
    run = trainer(EvaluationPictures(**{argument: attribute}), False, num_sanity_val_steps=0)
    loaders = [loader()] * (2 if hook == "fit" else 1)
    with pytest.raises(kind, match=f"^`{argument}` must {re.escape(rule)}\\.$"):
        getattr(run, hook)(PicturedModule(), *loaders)
    assert run.global_step == 0


def test_without_matplotlib_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = r"^EvaluationPictures needs Matplotlib: pip install '\.\[plot\]' in a clone of the repository\.$"
    with pytest.raises(ModuleNotFoundError, match=said):
        EvaluationPictures()


# Imports


def test_a_name_that_the_package_lacks_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'EvaluationPicture'"):
        _ = integrations.EvaluationPicture


def test_both_names_of_lightning_take_the_callback():
    twin = pytest.importorskip("pytorch_lightning")
    callback = EvaluationPictures()
    for package in (lightning.pytorch, twin):
        assert isinstance(callback, package.Callback)
        run = package.Trainer(callbacks=callback, logger=False, accelerator="cpu", enable_checkpointing=False)
        assert Counter(run.callbacks)[callback] == 1


def test_without_lightning_the_error_says_how_to_install_it(monkeypatch):
    for name in ("lightning", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, evaluation_pictures.__name__)
    monkeypatch.delattr(integrations, "evaluation_pictures")
    said = r"^EvaluationPictures needs Lightning: pip install '\.\[lightning\]' in a clone of the repository\.$"
    with pytest.raises(ModuleNotFoundError, match=said):
        _ = integrations.EvaluationPictures
