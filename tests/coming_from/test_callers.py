"""The changes that the pages show, made in stand-ins for the callers of other code bases, against the definition."""

import contextlib
import io
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import scipy.io
import torch

from reid_torchmetrics import KReciprocal
from reid_torchmetrics import evaluate as evaluate_embeddings
from tests.coming_from import callers
from tests.coming_from.pages import names
from tests.functional.detection.detection_samples import fed, images, torchmetrics_peer
from tests.reference import measures
from tests.reference.retrieval import candidates, evaluate, ranked_hits, ranks_of_hits, similarity

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


def engine(sides, monkeypatch):
    """torchreid's engine with the change of the page."""
    metrics = SimpleNamespace(compute_distance_matrix=lambda query, gallery, name: torch.cdist(query, gallery) ** 2)
    torchreid = ModuleType("torchreid")
    torchreid.metrics = metrics
    source = callers.changed(callers.ENGINE, "torchreid")
    made = callers.load(source, monkeypatch, torchreid=torchreid, exact_rank=callers.saved("torchreid"))
    return made["Engine"](*([torch.from_numpy(side[0]).double(), *side[1:]] for side in sides))


@pytest.mark.parametrize("with_lonely", [False, True])
def test_the_engine_of_torchreid_prints_the_numbers_of_the_definition(with_lonely, monkeypatch, capsys):
    sides = people(with_lonely=with_lonely)
    rank_1 = engine(sides, monkeypatch).test()
    reference = expected(sides, "euclidean")
    cmc = reference.cmc(50)
    printed = [float(word) for word in capsys.readouterr().out.splitlines()[-1].split()]
    assert printed == pytest.approx(
        [np.nanmean(reference.average_precision["rectangle"]), *np.take(cmc, [0, 4, 9, 19])]
    )
    assert rank_1 == pytest.approx(cmc[0])


def test_the_engine_of_torchreid_draws_no_galleries_for_cuhk03(monkeypatch, capsys):
    sides = people()
    asked = engine(sides, monkeypatch).test(use_metric_cuhk03=True)
    (query, *of_query), (gallery, *of_gallery) = sides
    labels = (column for pair in zip(of_query, of_gallery, strict=True) for column in pair)
    distances = -(similarity(query, gallery, "euclidean") ** 2)
    curve, _ = names("torchreid")["evaluate_rank"](-distances, *labels, protocol="cuhk03_torchreid")
    assert asked == pytest.approx(curve[0])
    assert asked != pytest.approx(engine(sides, monkeypatch).test(), abs=1e-3)


def test_the_evaluator_of_fast_reid_returns_the_numbers_of_the_definition(monkeypatch):
    sides = people(with_lonely=True)
    source = callers.changed(callers.REID_EVALUATOR, "fast_reid")
    made = callers.load(source, monkeypatch, exact_rank=callers.saved("fast_reid"))
    evaluator = made["ReidEvaluator"](NUM_QUERIES, lambda query, gallery: -similarity(query, gallery, "cosine"))
    features, pids, camids = (torch.from_numpy(np.concatenate(columns)) for columns in zip(*sides, strict=True))
    for batch in torch.arange(len(pids)).split(13):
        evaluator.process({"targets": pids[batch], "camids": camids[batch]}, features[batch])
    reference = expected(sides, "cosine")
    means = {"mAP": reference.average_precision["rectangle"], "mINP": reference.inverse_negative_penalty}
    cmc = {f"Rank-{rank}": 100 * reference.cmc(50)[rank - 1] for rank in (1, 5, 10)}
    assert evaluator.evaluate() == pytest.approx(cmc | {name: 100 * np.nanmean(of) for name, of in means.items()})


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


@pytest.mark.parametrize("split", ["all are both", "apart", "queries in the gallery", "some queries in the gallery"])
def test_the_embedding_metrics_of_oml_return_the_numbers_of_the_definition(split, monkeypatch):
    generator = torch.Generator().manual_seed(2)
    labels = torch.arange(60) % 11
    embeddings = torch.randn(11, 5, generator=generator)[labels] + torch.randn(60, 5, generator=generator)
    items = torch.randperm(60, generator=generator)
    parts = {"all are both": (60, 0), "apart": (20, 20), "queries in the gallery": (20, 0)}
    num_queries, first = parts.get(split, (20, 10))
    ids = items[:num_queries], items[first:]
    dataset = SimpleNamespace(
        get_query_ids=lambda: ids[0], get_gallery_ids=lambda: ids[1], get_labels=labels.numpy, extra_data={}
    )
    source = callers.changed(callers.EMBEDDING_METRICS, "oml")
    made = callers.load(source, monkeypatch, exact_metrics=callers.saved("oml"))
    made |= {"OVERALL_CATEGORIES_KEY": "OVERALL", "calc_topological_metrics": lambda **_: {}}
    metrics = made["EmbeddingMetrics"]
    calculator = metrics(dataset, cmc_top_k=(1, 5), precision_top_k=(5,), map_top_k=(3, 5))
    calculator.setup()
    for batch in torch.randperm(60, generator=generator).split(17):
        calculator.update(embeddings[batch], batch.tolist())
    found = calculator.compute_metrics()
    lists = [groups_of(query, ids[1].tolist(), embeddings, labels.tolist()) for query in ids[0].tolist()]
    assert found == {
        "cmc": {k: pytest.approx(mean(measures.hit_rate_at(each, k) for each in lists)) for k in (1, 5)},
        "precision": {
            5: pytest.approx(mean(measures.hits(each, 5) / min(5, measures.count(each)) for each in lists), abs=1e-6)
        },
        "map": {
            k: pytest.approx(mean(measures.average_precision(each, k=k, normalizer="hits") for each in lists))
            for k in (3, 5)
        },
    }


def groups_of(query, gallery, embeddings, labels):
    """The ranked list of a query, which is not among its own candidates."""
    place = gallery.index(query) if query in gallery else -1
    of_gallery = [labels[item] for item in gallery]
    sorted_by = candidates(labels[query], of_gallery, junk_identities=(), self_position=place)
    scores = similarity(embeddings[query, None].double(), embeddings[gallery].double(), "euclidean")[0]
    hits = ranked_hits(scores.tolist(), sorted_by.positive, sorted_by.negative)
    return measures.certain(ranks_of_hits(hits), len(hits))


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
