"""The callback that logs pictures of each evaluation: which, when, once, and never at the cost of the run."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning.pytorch import loggers
from matplotlib import pyplot as plt
from PIL import Image
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torchmetrics import MetricCollection, SumMetric

from reid_torchmetrics import DetectionMAP, ReIDCMC, ReIDMeanAP, plot
from reid_torchmetrics.functional.retrieval.evaluation import ranking
from reid_torchmetrics.integrations import EvaluationPictures, drawings, evaluation_pictures
from reid_torchmetrics.integrations.drawings import numbers_are_others
from tests.integrations.offline_runs import history, records
from tests.integrations.pictured_module import (
    CURVES,
    HARDEST,
    MAP,
    SAMPLES,
    DetectingModule,
    PicturedModule,
    files,
    fit,
    image,
    loader,
    named,
    picture,
    pixels,
    tags,
    trainer,
)

pytestmark = pytest.mark.usefixtures("quiet_folder", "blank_figures")


# What is logged


@pytest.mark.slow
@pytest.mark.usefixtures("drawn_figures")
def test_two_epochs_and_a_test_are_in_the_events_of_tensorboard_once_each(tmp_path):
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    callback = EvaluationPictures(pictures=picture)
    run = trainer(callback, loggers.TensorBoardLogger(tmp_path, name="", version=""))
    module = PicturedModule()
    run.fit(module, loader(), loader())
    run.test(module, loader(), verbose=False)

    events = event_accumulator.EventAccumulator(str(tmp_path), {"images": 0, "scalars": 0}).Reload()
    steps = {tag: [event.step for event in events.Images(tag)] for tag in events.Tags()["images"]}
    expected = {tag: [1, 3] for tag in tags("val", "hardest_queries")}
    assert steps == expected | {tag: [4] for tag in tags("test", "hardest_queries")}
    (first, _) = events.Images("val/cmc")
    assert (first.width, first.height) == (640, 420)
    Path("cmc.png").write_bytes(first.encoded_image_string)
    with Image.open("cmc.png") as decoded:
        assert decoded.size == (640, 420)
        assert np.asarray(decoded).std() > 1
    logged = {name: [event.value for event in events.Scalars(name)] for name in ("val/map", "logged_in_step")}
    assert logged == {name: pytest.approx([MAP] * len(values)) for name, values in logged.items()}
    assert [event.step for event in events.Scalars("val/map")] == [1, 3, 4]  # as the pictures
    assert plt.get_fignums() == []


def test_without_a_logger_the_files_are_in_the_default_folder(tmp_path):
    trainer(EvaluationPictures(), False, default_root_dir=tmp_path / "root").validate(PicturedModule(), loader())
    assert files("root") == named(tags("val"), 0)


@pytest.mark.slow
def test_the_hardest_queries_are_shown_with_their_candidates(monkeypatch):
    seen = []
    monkeypatch.setattr(drawings.plot, "draw_rank_lists", lambda *a, **options: seen.append((a, options)) or pixels())
    options = {"gallery_pictures": [picture(0)] * 5, "identity_names": {7: "seven"}}
    fit(EvaluationPictures(pictures=picture, num_queries=2, k=3, **options), max_epochs=1)
    ((lists, pictures), given) = seen[0]
    assert lists.query_index.tolist() == HARDEST
    assert lists.index.tolist() == [[4, 3, 2], [2, 3, 4]]
    assert lists.is_positive.tolist() == [[False, True, False], [True, False, True]]
    assert given.pop("average_precision").tolist() == pytest.approx([5 / 6, 1 / 2])
    assert given.pop("title") == "2 of 2 queries are not perfect"
    assert (pictures, given) == (picture, options)


@pytest.mark.parametrize(
    ("identities", "sentence", "queries"),
    [
        ([7, 3, 7, 3, 7], "2 of 2 queries are not perfect", HARDEST),
        ([7, 3, 7, 9, 7], "1 of 1 query is not perfect", [0]),
        ([7, 3, 7, 7, 3], "All 2 queries are perfect", []),
    ],
)
def test_only_queries_that_are_not_perfect_are_drawn_with_their_number(monkeypatch, identities, sentence, queries):
    embeddings, _, is_query, index = SAMPLES.tensors
    metric = ReIDMeanAP()
    metric.update(embeddings, torch.tensor(identities), is_query=is_query, index=index)
    options = drawings.DrawingOptions(picture, None, None, num_queries=5, k=3, num_images=5)
    draw = drawings.drawings_of(metric, options)
    assert (drawings.TABLE in draw) == bool(queries)
    assert draw["hardest_queries"]().shape[2] == 3
    seen = []
    monkeypatch.setattr(plot, "draw_rank_lists", lambda lists, *_, title, **__: seen.append((title, lists)))
    drawings.drawings_of(metric, options)["hardest_queries"]()
    ((title, lists),) = seen
    assert (title, lists.query_index.tolist()) == (sentence, queries)


@pytest.mark.slow
def test_the_numbers_and_the_pictures_come_of_one_ranking(monkeypatch):
    calls, count_ranks = [], ranking.count_sharded_ranks
    monkeypatch.setattr(ranking, "count_sharded_ranks", lambda *a, **k: calls.append(1) or count_ranks(*a, **k))
    fit(EvaluationPictures(["val_metrics", "val_map", "other"]), num_sanity_val_steps=0)
    assert len(calls) == 2  # epochs


@pytest.mark.parametrize("attribute", ["val_map", "other", "other.here", "collection"])
@pytest.mark.slow
def test_a_metric_is_found_wherever_it_is_held(attribute):
    class WithCollection(PicturedModule):
        def __init__(self):
            super().__init__()
            self.collection = MetricCollection({"map": ReIDMeanAP(), "rank_1": ReIDCMC(), "sum": SumMetric()})

        def validation_step(self, batch, batch_idx):
            super().validation_step(batch, batch_idx)
            embeddings, identities, is_query, index = batch
            for each in (self.collection["map"], self.collection["rank_1"]):
                each.update(embeddings, identities, is_query=is_query, index=index)

    fit(EvaluationPictures(attribute), module=WithCollection(), max_epochs=1)
    assert files() == named(tags("val"), 1)


@pytest.mark.parametrize("stage", ["val", "test"])
@pytest.mark.slow
def test_a_test_may_have_metrics_of_its_own(stage):
    run = trainer(EvaluationPictures("val_map", test_metrics=["val_metrics", "other"]), False)
    call = run.validate if stage == "val" else run.test
    call(PicturedModule(), loader(), verbose=False)
    folders = ["val"] if stage == "val" else ["test/val_metrics", "test/other.here"]
    assert files() == named([f"{folder}/{name}" for folder in folders for name in CURVES], 0)


@pytest.mark.slow
def test_only_each_nth_epoch_of_training_has_pictures_but_every_other_evaluation():
    callback = EvaluationPictures(every_n_epochs=2)
    run = fit(callback, max_epochs=3)
    assert files() == named(tags("val"), 3)
    run.validate(PicturedModule(), loader(), verbose=False)
    assert files() == named(tags("val"), 3, 6)


@pytest.mark.slow
def test_a_metric_that_is_logged_before_the_last_loader_still_has_its_samples():
    run = trainer(EvaluationPictures("val_map"), False)
    run.validate(PicturedModule(), [loader(), loader()], verbose=False)
    assert files() == named(tags("val"), 0)


@pytest.mark.slow
def test_a_fast_run_for_development_draws_but_logs_nothing():
    drawn = []
    run = trainer(EvaluationPictures(pictures=lambda n: drawn.append(n) or picture(n)), True, fast_dev_run=True)
    run.fit(PicturedModule(), loader(), loader(5))
    assert drawn
    trainer(EvaluationPictures(), False, fast_dev_run=True).fit(PicturedModule(), loader(), loader(5))
    assert [*Path().rglob("*.png")] == []


def test_a_curve_of_precision_needs_an_order_of_ties():
    class Expected(PicturedModule):
        def __init__(self):
            super().__init__()
            self.val_map = ReIDMeanAP(ties="expected")

    fit(EvaluationPictures("val_map"), module=Expected(), max_epochs=1)
    assert files() == named([f"val/{name}" for name in CURVES if name != "precision_recall"], 1)


@pytest.mark.filterwarnings("ignore")  # of the client's dependencies
@pytest.mark.nightly
@pytest.mark.usefixtures("drawn_figures")
def test_pictures_and_numbers_are_in_an_offline_run_of_wandb(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path))
    logger = loggers.WandbLogger(save_dir=tmp_path, offline=True)
    trainer(EvaluationPictures(pictures=picture), logger).fit(PicturedModule(), loader(), loader())
    summary = dict(logger.experiment.summary)
    wandb.finish()
    wandb.teardown()  # the log is complete when the client's service has ended
    (media,) = tmp_path.glob("wandb/offline-run-*/files/media/images/val")
    written = sorted(path.name.rpartition("_")[0].rpartition("_")[0] for path in media.iterdir())
    assert written == sorted([*CURVES, "hardest_queries"] * 2)  # two epochs
    rows = [row for row in history(tmp_path) if row.keys() & {"val/cmc", "val/cmc/filenames"}]  # old and new clients
    assert len(rows) == 2
    for row, step in zip(rows, (1, 3), strict=True):  # pictures and numbers of an epoch share a row and a step
        assert row["trainer/global_step"] == step
        assert row["val/map"] == pytest.approx(MAP)
    files_of_table = {each.path: each.local_path for each in records(tmp_path, "artifact")[0].manifest.contents}
    (path,) = (local for name, local in files_of_table.items() if name.endswith(".table.json"))
    table = json.loads(Path(path).read_text(encoding="utf-8"))
    assert table["columns"] == [
        *("query", "AP (%)", "rank of the first match", "picture"),
        *("#1", "#2", "#3", "first match"),
    ]
    first, _ = table["data"]
    assert first[:3] == [1, 50, 2]
    captions = [each and each["caption"] for each in first[3:]]
    assert captions == ["query 1  id 3", "✗  #1  0.994  id 7", "✓  #2  0.351  id 3", "✗  #3  0.110  id 7", None]
    assert summary["val/map"] == pytest.approx(MAP)
    assert (summary["val/cmc"]["count"], summary["val/cmc"]["width"], summary["val/cmc"]["height"]) == (1, 640, 420)


# Whose pictures these are


class Unnumbered(PicturedModule):
    """Gives no `index`, unless `is_numbered`."""

    is_numbered = False

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        embeddings, identities, _, index = batch
        self.val_map.update(embeddings, identities, index=index if self.is_numbered else None)

    def on_validation_epoch_end(self):
        self.val_map.compute()


class UnnumberedBoxes(DetectingModule):
    """Gives no `image_id`, unless `is_numbered`."""

    is_numbered = False

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        for number in range(3):
            found, true = image(number)
            if not self.is_numbered:
                del true["image_id"]
            self.val_boxes.update([found], [true])


SHUFFLED = {
    "shuffle": lambda: loader(shuffle=True),
    "subset": lambda: loader(sampler=SubsetRandomSampler(range(5))),
    "weighted": lambda: loader(sampler=WeightedRandomSampler([1.0] * 5, 5)),
    "batches": lambda: DataLoader(SAMPLES, batch_sampler=BatchSampler(RandomSampler(SAMPLES), 3, drop_last=False)),
    "distributed": lambda: loader(sampler=DistributedSampler(SAMPLES, 1, 0, shuffle=True)),
    "one of two": lambda: {"a": loader(), "b": loader(shuffle=True)},
}
KEPT = {
    "in order": loader,
    "of one process": lambda: loader(sampler=DistributedSampler(SAMPLES, 1, 0, shuffle=False)),
    "two in order": lambda: [loader(), loader()],
    "no loader of torch": type("Batches", (), {"__iter__": lambda _: iter(loader())}),
}
KINDS = {"val_map": (Unnumbered, "hardest_queries"), "val_boxes": (UnnumberedBoxes, "worst_images")}


def drawn_of(attribute, loaders, *, is_numbered=False) -> set[str]:
    kind, name = KINDS[attribute]
    module = kind()
    module.is_numbered = is_numbered
    callback = EvaluationPictures(attribute, pictures=lambda number: picture(number % 5))
    trainer(callback, False).validate(module, loaders, verbose=False)
    return {file.split("_step")[0] for file in files()} & {f"val/{name}"}


@pytest.mark.filterwarnings("ignore:Your `val_dataloader`'s sampler has shuffling enabled")
@pytest.mark.parametrize("attribute", KINDS)
@pytest.mark.parametrize("kind", SHUFFLED)
@pytest.mark.slow
def test_samples_without_numbers_in_another_order_have_no_pictures_and_a_warning_says_so(attribute, kind):
    argument = {"val_map": "index", "val_boxes": "image_id"}[attribute]
    with pytest.warns(UserWarning, match=f"^No pictures of the samples of `{attribute}` were drawn.*`{argument}`"):
        assert drawn_of(attribute, SHUFFLED[kind]()) == set()
    assert files()  # the curves


@pytest.mark.parametrize("attribute", KINDS)
@pytest.mark.parametrize("kind", [*KEPT, "shuffle"])
@pytest.mark.filterwarnings("ignore:Your `val_dataloader`'s sampler has shuffling enabled")
@pytest.mark.filterwarnings("error:No pictures")
@pytest.mark.slow
def test_samples_with_numbers_or_in_order_have_pictures(attribute, kind):
    loaders = (KEPT | SHUFFLED)[kind]()
    assert drawn_of(attribute, loaders, is_numbered=kind == "shuffle") == {f"val/{KINDS[attribute][1]}"}


def test_embeddings_without_numbers_that_are_dealt_out_have_no_pictures_and_images_have():
    dealt = DistributedSampler(SAMPLES, 2, 1, shuffle=False)
    module = Unnumbered()
    module.val_map.update(SAMPLES.tensors[0], SAMPLES.tensors[1])
    boxes = DetectionMAP()
    boxes.update(*([each] for each in image(1)))
    assert numbers_are_others(module.val_map, loader(sampler=dealt))
    assert not numbers_are_others(boxes, loader(sampler=dealt))
    assert not numbers_are_others(ReIDMeanAP(), loader(sampler=dealt))


# Pictures that were normalized


MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.5)


def normalized(number: int) -> torch.Tensor:
    channels = torch.from_numpy(picture(number)).permute(2, 0, 1) / 255
    return (channels - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]


@pytest.mark.parametrize(
    "given",
    [
        normalized,
        [normalized(number) for number in range(5)],
        [(normalized(number), 3) for number in range(5)],
        {number: {"image": normalized(number)} for number in range(5)},
        picture,
    ],
    ids=["function", "list", "items", "dicts", "images"],
)
@pytest.mark.slow
def test_a_normalization_is_undone(given, monkeypatch):
    written = []
    monkeypatch.setattr(
        evaluation_pictures, "log_pictures", lambda _, pictures, *a, **k: written.extend(pictures.items())
    )
    options = {"mean": MEAN, "std": STD}
    for pictures, more in ((picture, {}), (given, options)):
        callback = EvaluationPictures(pictures=pictures, **more)
        trainer(callback, False).validate(PicturedModule(), loader(), verbose=False)
    expected, found = (image for name, image in written if name == "val/hardest_queries")
    assert np.abs(expected.astype(int) - found).max() <= 1


@pytest.mark.slow
def test_normalized_pictures_have_a_remedy_in_one_line():
    with pytest.warns(UserWarning, match="could not be drawn") as said:
        trainer(EvaluationPictures(pictures=normalized), False).validate(PicturedModule(), loader(), verbose=False)
    (text,) = [str(each.message) for each in said if str(each.message).startswith("The picture")]
    expected = "`pictures(1)` must lie in [0, 1] as floats; got values from -1.52 to -0.208: undo a normalization, as"
    assert text.splitlines()[1:] == [f"{expected} `EvaluationPictures(..., mean=mean, std=std)` does."]


# As large as can be looked at


def test_a_warning_of_too_many_places_points_to_the_line_that_asks_for_them():
    for option in ("num_queries", "k", "num_images"):
        with pytest.warns(UserWarning, match=rf"^`{option}` is 51; a picture shows 50 at most\.$") as caught:
            callback = EvaluationPictures(**{option: 51})
        assert [warning.filename for warning in caught] == [__file__]
        assert getattr(callback._options, option) == 50


@pytest.mark.slow
def test_a_picture_has_no_more_places_than_there_are_candidates():
    trainer(EvaluationPictures(pictures=picture, k=50), False).validate(PicturedModule(), loader(), verbose=False)
    with Image.open("pictures/val/hardest_queries_step_000000.png") as drawn:
        assert drawn.width < 640  # two queries against three gallery items
