"""The changes that the pages show, made in stand-ins for the callers of other code bases, against the definition."""

import contextlib
import io
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.io
import torch

from reid_torchmetrics import KReciprocal
from reid_torchmetrics import evaluate as evaluate_embeddings
from tests.coming_from import callers
from tests.functional.detection.detection_samples import fed, images, torchmetrics_peer
from tests.reference import measures
from tests.reference.retrieval import evaluate, similarity

NUM_QUERIES, NUM_PEOPLE = 24, 9


def people(*, with_lonely=False):
    """Features, identities and cameras of queries and gallery, the gallery with distractors and junk."""
    rng = np.random.default_rng(3)
    identities = np.concatenate([np.arange(NUM_QUERIES) % NUM_PEOPLE + 1, rng.integers(-1, NUM_PEOPLE + 1, 70)])
    cameras = rng.integers(0, 4, len(identities))
    identities[0] = 99 if with_lonely else identities[0]  # a query without a positive
    features = rng.normal(size=(NUM_PEOPLE + 1, 6))[identities % (NUM_PEOPLE + 1)] + 1.5 * rng.normal(size=(94, 6))
    columns = features.astype(np.float32), identities, cameras
    return [[column[part] for column in columns] for part in (slice(NUM_QUERIES), slice(NUM_QUERIES, None))]


def expected(sides, name, **options):
    """The evaluation by the definition."""
    (query, *of_query), (gallery, *of_gallery) = sides
    labels = [column for pair in zip(of_query, of_gallery, strict=True) for column in pair]
    return evaluate(similarity(query, gallery, name), *labels, **options)


@pytest.mark.parametrize(("feat_norm", "name"), [("yes", "cosine"), ("", "euclidean")])
def test_the_processor_of_transreid_logs_the_numbers_of_the_definition(feat_norm, name, monkeypatch):
    sides = people(with_lonely=True)
    (lines, cmc, mean_precision), reference = processed(sides, feat_norm, monkeypatch), expected(sides, name)
    assert mean_precision == pytest.approx(np.nanmean(reference.average_precision["rectangle"]))
    assert cmc == pytest.approx(reference.cmc(50))
    assert lines[:2] == [f"mAP: {mean_precision:.1%}", f"CMC curve, Rank-1  :{cmc[0]:.1%}"]


def test_the_processor_of_transreid_ranks_again_with_its_own_constants(monkeypatch):
    sides = people()
    labels = [column for pair in zip(sides[0][1:], sides[1][1:], strict=True) for column in pair]
    expected_again = evaluate_embeddings(sides[0][0], sides[1][0], *labels, rerank=KReciprocal(k1=50, k2=15))
    _, cmc, mean_precision = processed(sides, "yes", monkeypatch, reranking=True)
    assert (cmc.tolist(), mean_precision) == (expected_again.cmc.tolist(), expected_again["map"])
    assert mean_precision != processed(sides, "yes", monkeypatch)[2]


def processed(sides, feat_norm, monkeypatch, *, reranking=False):
    """What TransReID's processor returns after the change of the page, from batches with tuples of labels."""
    made = callers.load(
        callers.changed(callers.PROCESSOR, "transreid"), monkeypatch, exact_reid=callers.saved("transreid")
    )
    features, pids, camids = (np.concatenate(columns) for columns in zip(*sides, strict=True))
    parts = [slice(first, first + 13) for first in range(0, len(pids), 13)]
    loader = [(torch.from_numpy(features[part]), tuple(pids[part]), tuple(camids[part])) for part in parts]
    cfg = SimpleNamespace(TEST=SimpleNamespace(FEAT_NORM=feat_norm, RE_RANKING=reranking))
    return made["do_inference"](cfg, torch.nn.Identity(), loader, NUM_QUERIES)


def test_the_evaluators_of_open_reid_return_the_numbers_of_the_definition(monkeypatch):
    sides = people()
    source = callers.changed(callers.EVALUATORS, "open_reid")
    neighbors = {"caller": "", "caller.feature_extraction": "extract_cnn_feature = None"}
    made = callers.load(source, monkeypatch, exact_metrics=callers.saved("open_reid"), **neighbors)
    distances = -similarity(sides[0][0], sides[1][0], "euclidean")
    labels = [column.tolist() for pair in zip(sides[0][1:], sides[1][1:], strict=True) for column in pair]
    precision, curves = made["evaluate_all"](torch.from_numpy(distances), *labels)
    reference = expected(sides, "euclidean")
    assert precision == pytest.approx(np.nanmean(reference.average_precision["rectangle"]))
    assert curves["market1501"][:20] == pytest.approx(reference.cmc(20))
    lists = [measures.certain(*each) for each in zip(reference.ranks, reference.num_candidates, strict=True)]
    all_shots = [mean(measures.all_shots_at(each, k) for each in lists) for k in (1, 5, 10)]
    assert np.take(curves["allshots"], [0, 4, 9]) == pytest.approx(all_shots)
    by_protocol = made["cmc"](torch.from_numpy(distances), *labels, first_match_break=True, protocol="cuhk03_openreid")
    assert curves["cuhk03"] == pytest.approx(by_protocol)


def test_the_script_of_layumi_prints_the_numbers_of_the_definition_of_single_and_multiple_queries(
    tmp_path, monkeypatch
):
    query, gallery = people(with_lonely=True)
    rng = np.random.default_rng(5)
    of_query = rng.integers(0, NUM_QUERIES, 60)  # some queries share their identity and camera
    of_query[:NUM_QUERIES] = np.arange(NUM_QUERIES)
    more = query[0][of_query] + rng.normal(size=(60, 6)), query[1][of_query], query[2][of_query]
    own = [(more[1] == identity) & (more[2] == camera) for identity, camera in zip(*query[1:], strict=True)]
    pooled = np.stack([more[0][rows].mean(0) for rows in own])
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "pytorch_result.mat", query=query, gallery=gallery)
    single = line("", [query, gallery])
    assert printed_by_script(monkeypatch) == [single]
    write(tmp_path / "multi_query.mat", mquery=more)
    assert printed_by_script(monkeypatch) == [single, line("multi ", [[pooled, *query[1:]], gallery])]


def write(path, **sides):
    """A file as layumi's `test.py` writes it."""
    columns = {f"{side}_{name}": values[place] for side, values in sides.items() for place, name in enumerate("flc")}
    endings = {"f": "f", "l": "label", "c": "cam"}
    scipy.io.savemat(path, {name[:-1] + endings[name[-1]]: values for name, values in columns.items()})


def printed_by_script(monkeypatch):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        callers.load(callers.script("layumi"), monkeypatch)
    return printed.getvalue().splitlines()


def line(title, sides):
    """The line of the definition: average precision of trapezoids, and queries without positives count 0."""
    reference = expected(sides, "dot")
    num_queries = len(reference.first_rank)
    cmc = [np.sum(np.asarray(reference.first_rank) <= rank) / num_queries for rank in (1, 5, 10)]
    mean = np.nansum(reference.average_precision["trapezoid"]) / num_queries
    return f"{title}Rank@1:{cmc[0]:f} Rank@5:{cmc[1]:f} Rank@10:{cmc[2]:f} mAP:{mean:f}"


def mean(values):
    return float(np.mean([float(value) for value in values]))


@pytest.mark.filterwarnings("ignore")  # of Lightning, and that boxes are inverted
def test_a_module_with_inverted_boxes_logs_the_map_of_torchmetrics(monkeypatch):
    lightning = pytest.importorskip("lightning")
    preds, target = images(7, 8, num_levels=9999)
    generator = torch.Generator().manual_seed(1)
    for each in preds:  # a head that has learned little: corners are off by so much that some boxes are inverted
        each["boxes"] = each["boxes"] + 40 * torch.randn(each["boxes"].shape, generator=generator)
    assert sum(int((each["boxes"][:, 2:] < each["boxes"][:, :2]).any(1).sum()) for each in preds) > 5
    made = callers.load(callers.LIGHTNING_MODULE, monkeypatch)
    made["OPTIONS"] = {"thresholds": "torchmetrics"}
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    batches = [(preds[place : place + 3], target[place : place + 3]) for place in range(0, 8, 3)]
    trainer = lightning.Trainer(accelerator="cpu", **quiet)
    with contextlib.redirect_stdout(io.StringIO()):
        (logged,) = trainer.validate(
            made["Detection"](), torch.utils.data.DataLoader(batches, batch_size=None), verbose=False
        )
    with torchmetrics_peer() as peer:
        theirs = fed(peer(), preds, target).compute()["map"]
    assert logged["validation/mean_average_precision"] == pytest.approx(float(theirs), abs=1e-6)
