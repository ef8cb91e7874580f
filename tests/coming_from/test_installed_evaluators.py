"""Evaluators of packages that are installed at night, on random problems, beside the calls that the pages give."""

import inspect
import re
import subprocess
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from reid_torchmetrics import evaluate, evaluate_lists, evaluate_scores, verify_pairs
from tests.coming_from import callers
from tests.coming_from.pages import PAGES
from tests.coming_from.pages import names as names_of_page
from tests.real_packages import modules_of

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]
OF_IMAGES = ["torchvision", "gdown", "albumentations", "cv2", "validators"]
"""what OML imports for images"""


@pytest.mark.parametrize("same_camera", ["same_identity", "keep"])
@pytest.mark.parametrize("has_mask", [False, True])
def test_roboflows_reid_has_the_numbers_of_distances_with_junk(same_camera, has_mask):
    with modules_of("reid") as import_module:
        evaluate_matrix = import_module("reid.eval.metrics")._compute_reid_metrics
    generator = torch.Generator().manual_seed(1)
    for _ in range(50):
        identities = torch.randint(5, (8,), generator=generator), torch.randint(-1, 5, (30,), generator=generator)
        labels = [*identities, *(torch.randint(3, (size,), generator=generator) for size in (8, 30))]
        distances = torch.rand(8, 30, generator=generator)
        candidate_mask = torch.rand(8, 30, generator=generator) < (0.8 if has_mask else 2)
        theirs = evaluate_matrix(
            distances.numpy(),
            *(column.numpy() for column in labels),
            candidate_mask=candidate_mask.numpy() if has_mask else None,
            exclude_same_pid_camid=same_camera == "same_identity",
        )
        options = {"junk_pairs": ~candidate_mask, "same_camera": same_camera}
        ours = evaluate_scores(None, *labels, distances=distances, **options)
        names = ("map", "minp", "rank_1", "rank_5", "rank_10")
        numbers = (theirs.mean_average_precision, theirs.minp, theirs.rank1, theirs.rank5, theirs.rank10)
        values = evaluate_scores(None, *labels, distances=distances, reports=names, **options).means
        assert numbers == pytest.approx([100 * values[name] for name in names], abs=1e-4)
        assert theirs.num_queries == ours.counts.valid


def run_and_judgements(generator: torch.Generator) -> tuple[dict, dict]:
    """Scores of 12 items for each of 6 queries, without ties, and 4 relevant items, not all of which are retrieved."""
    run, judgements = {}, {}
    for query in range(6):
        scores = torch.rand(20, generator=generator)
        run[f"q{query}"] = {f"d{item:02}": float(scores[item]) for item in range(12)}
        judgements[f"q{query}"] = {f"d{item:02}": 1 for item in torch.randperm(20, generator=generator)[:4].tolist()}
    return run, judgements


def test_sentence_transformers_has_the_numbers_at_a_cutoff():
    evaluators = pytest.importorskip("sentence_transformers.evaluation")
    run, judgements = run_and_judgements(torch.Generator().manual_seed(2))
    kinds = ("accuracy", "precision_recall", "mrr", "ndcg", "map")
    cutoffs = {f"{kind}_at_k": [1, 5, 10] for kind in kinds}
    evaluator = SimpleNamespace(
        **cutoffs,
        queries=list(run),
        queries_ids=list(run),
        relevant_docs={query: set(items) for query, items in judgements.items()},
        compute_dcg_at_k=evaluators.InformationRetrievalEvaluator.compute_dcg_at_k,
    )
    hits = [[{"corpus_id": item, "score": score} for item, score in scores.items()] for scores in run.values()]
    theirs = evaluators.InformationRetrievalEvaluator.compute_metrics(evaluator, hits)
    names = {name: name for name in ("precision", "recall", "ndcg", "mrr", "map")} | {"accuracy": "hit_rate"}
    reports = [f"{ours}_{k}" for ours in names.values() for k in (1, 5, 10)]
    values = evaluate_lists(run, judgements, reports=reports, normalizer="attainable").means
    for name, ours in names.items():
        assert {k: values[f"{ours}_{k}"] for k in (1, 5, 10)} == pytest.approx(dict(theirs[f"{name}@k"]))


def test_beir_has_the_reciprocal_rank_at_a_cutoff():
    with modules_of("beir") as import_module:
        mrr = import_module("beir.retrieval.custom_metrics").mrr
    run, judgements = run_and_judgements(torch.Generator().manual_seed(3))
    values = evaluate_lists(run, judgements, reports=("mrr_1", "mrr_10")).means
    rounded = {"MRR@1": round(values["mrr_1"], 5), "MRR@10": round(values["mrr_10"], 5)}
    assert mrr(judgements, run, [1, 10]) == rounded


@pytest.mark.parametrize("length", [1, 10])
def test_lightly_has_the_votes_of_unit_vectors(length):
    with modules_of("lightly", ["torchvision"]) as import_module:
        knn_predict = import_module("lightly.utils.benchmarking.knn").knn_predict
    generator = torch.Generator().manual_seed(4)
    vectors = torch.nn.functional.normalize(torch.randn(90, 4, generator=generator))
    classes = torch.randint(3, (90,), generator=generator)
    predicted = knn_predict(vectors[:30], vectors[30:].T, classes[30:], num_classes=3, knn_k=20, knn_t=0.1)[:, 0]
    results = evaluate(
        length * vectors[:30], length * vectors[30:], classes[:30], classes[30:], same_camera="keep", junk_identities=()
    )
    right = results.nearest(20).knn_accuracy(temperature=0.1)
    assert torch.equal(right.bool(), predicted == classes[:30])


def test_speechbrain_has_the_mean_error_and_the_cost_that_is_not_divided():
    absent = ["joblib", "torchaudio", "hyperpyyaml", "sentencepiece"]
    with modules_of("speechbrain", absent) as import_module:
        module = import_module("speechbrain.utils.metric_stats")
    genuine, impostors = torch.tensor([0.9, 0.8, 0.4]), torch.tensor([0.7, 0.6, 0.3, 0.2])
    verification = verify_pairs(torch.cat([genuine, impostors]), [True] * 3 + [False] * 4)
    rate, _ = module.EER(genuine, impostors)
    assert rate == pytest.approx(float(verification.equal_error_rate("closest").rate)) == pytest.approx(7 / 24)
    cost, _ = module.minDCF(genuine, impostors)
    assert cost == pytest.approx(0.01 * float(verification.min_dcf(0.01))) == pytest.approx(0.01 / 3)


def test_the_tie_aware_metrics_have_the_expected_numbers():
    trm = pytest.importorskip("trm")
    generator = torch.Generator().manual_seed(6)
    scores = torch.randint(4, (10, 12), generator=generator).float()
    scores[0, :5], scores[0, 5:] = torch.tensor([0.99, 0.97, 0.97, 0.97, 0.95]), -1.0
    is_relevant = torch.rand(10, 12, generator=generator) < 0.3
    is_relevant[:, 0] = True
    names = ("map", "mrr", "ndcg", "recall", "precision")
    theirs = trm.evaluate(
        scores=scores.tolist(), is_relevant=is_relevant.tolist(), metrics=list(names), k_list=[1, 3, 12]
    ).metrics
    reports = [f"{name}_{k}" for name in names for k in (1, 3, 12)]
    ours = evaluate_scores(scores, ground_truth=is_relevant, ties="expected", reports=reports).means
    for name in names:
        for k in (1, 3, 12):
            assert ours[f"{name}_{k}"] == pytest.approx(theirs[name][k].expected), (name, k)


def of_interface(interface: type, **attributes: Any) -> Any:
    """An instance of a class with abstract methods."""
    return type("DataSet", (interface,), attributes | {"__getitem__": None, "get_label2category": lambda _: None})()


class Reversed:
    """A post-processor of OML that reverses the first three items."""

    top_n = 3

    def process(self, rr):
        ids, distances = list(rr.retrieved_ids), list(rr.distances)
        ids = [torch.cat([row[:3].flip(0), row[3:]]) for row in ids]
        return type(rr)(distances=distances, retrieved_ids=ids, gt_ids=rr.gt_ids)


@pytest.mark.parametrize("split", ["all are both", "apart", "some queries in the gallery"])
@pytest.mark.parametrize("state", ["", "sequence", "lacking sequences", "post-processor"])
def test_the_patched_metrics_of_oml_return_what_the_others_return(state, split, monkeypatch):
    with modules_of("oml", OF_IMAGES) as import_module:
        import_module("oml.retrieval.retrieval_results")
        module = import_module("oml.metrics.embeddings")
        interface = import_module("oml.interfaces.datasets").IQueryGalleryLabeledDataset
        source = callers.changed(inspect.getsource(module), "oml")
        patched = callers.load(source, monkeypatch, exact_metrics=callers.saved("oml"))
    generator = torch.Generator().manual_seed(7)
    tracks = torch.arange(120) // 2  # two near copies of each
    classes = torch.cat([tracks % 15, torch.tensor([99])])  # the last one has no positive
    embeddings = torch.randn(60, 8, generator=generator)[tracks] + 0.1 * torch.randn(120, 8, generator=generator)
    embeddings = torch.cat([embeddings, torch.randn(1, 8, generator=generator)])
    names = [f"track {track}" for track in tracks.tolist()] + ["alone"]
    if state == "lacking sequences":
        names[::5] = [None] * len(names[::5])
    items = torch.randperm(121, generator=generator)
    num_queries, first = {"all are both": (121, 0), "apart": (40, 40)}.get(split, (40, 20))

    data_set = of_interface(
        interface,
        __len__=lambda _: len(classes),
        extra_data={"sequence": names} if "sequence" in state else {},
        get_labels=lambda _: classes.numpy(),
        get_query_ids=lambda _: items[:num_queries],
        get_gallery_ids=lambda _: items[first:],
    )
    found = []
    for metrics in (module.EmbeddingMetrics, patched["EmbeddingMetrics"]):
        processor = Reversed() if state == "post-processor" else None
        calculator = metrics(
            data_set, (1, 3), (5,), (5, 10), pcf_variance=(0.5,), postprocessor=processor, verbose=False
        )
        calculator.setup()
        calculator.update(embeddings, torch.arange(121))
        calculator.compute_metrics()
        found.append(calculator.metrics_unreduced["OVERALL"])
    theirs, ours = found
    for name in ("cmc", "precision", "map"):
        for k, values in theirs[name].items():
            assert ours[name][k].tolist() == pytest.approx(values.tolist(), abs=1e-6, nan_ok=True), (name, k)


@pytest.mark.parametrize("k", [None, 1, 4, "max_bin_count"])
@pytest.mark.parametrize("avg_of_avgs", [False, True])
@pytest.mark.parametrize("reference", ["none", "apart", "the queries first"])
def test_pytorch_metric_learning_has_the_numbers_of_the_page(reference, avg_of_avgs, k):
    calculators = pytest.importorskip("pytorch_metric_learning.utils.accuracy_calculator")
    inference = pytest.importorskip("pytorch_metric_learning.utils.inference")
    distances = pytest.importorskip("pytorch_metric_learning.distances")
    include = (
        "mean_average_precision",
        "mean_average_precision_at_r",
        "mean_reciprocal_rank",
        "precision_at_1",
        "r_precision",
    )
    knn_func = inference.CustomKNN(distances.LpDistance(normalize_embeddings=False))
    calculator = calculators.AccuracyCalculator(include=include, avg_of_avgs=avg_of_avgs, k=k, knn_func=knn_func)
    generator = torch.Generator().manual_seed(8)
    for _ in range(10):
        embeddings, labels = torch.randn(40, 3, generator=generator), torch.randint(5, (40,), generator=generator)
        sides = [embeddings[:15], labels[:15]]
        if reference != "none":
            part = slice(0 if reference == "the queries first" else 15, None)
            sides += [embeddings[part], labels[part], reference == "the queries first"]
        theirs = calculator.get_accuracy(*sides)
        ours = names_of_page("pytorch_metric_learning")["get_accuracy"](*sides, k=k, avg_of_avgs=avg_of_avgs)
        assert ours == pytest.approx({name: float(value) for name, value in theirs.items()}, abs=1e-5, nan_ok=True)


def people(seed):
    """Features, identities and cameras of 40 queries and 300 gallery items of 30 people."""
    generator = torch.Generator().manual_seed(seed)
    centers = torch.randn(30, 6, generator=generator)
    for size in (40, 300):
        identities = torch.arange(size) % 30
        features = centers[identities] + 2 * torch.randn(size, 6, generator=generator)
        yield features, identities, torch.randint(6, (size,), generator=generator)


def engines_of_torchreid(folder, monkeypatch):
    """The engine, and the one that the diff of the page makes of it by `patch`, as the page says."""
    with modules_of("torchreid", ["cv2", "gdown", "torchvision", "tensorboard"]) as import_module:
        module = import_module("torchreid.reid.engine.engine")
        path = folder / "engine.py"
        path.write_text(inspect.getsource(module), encoding="utf-8")
        (diff,) = re.findall(r"```diff\n(.*?)```", PAGES["torchreid"], flags=re.DOTALL)
        subprocess.run(["patch", str(path)], input=diff, text=True, check=True)  # noqa: S607 - that of the system
        source = path.read_text(encoding="utf-8")
        patched = callers.load(source, monkeypatch, exact_rank=callers.saved("torchreid"))
    return module.Engine, patched["Engine"]


def printed_by(engine, capsys, **setting):
    """What `_evaluate` of an engine prints in percent: mAP, and the CMC at each rank."""
    loaders = [[*zip(*(column.split(25) for column in side), strict=True)] for side in people(9)]
    reader = SimpleNamespace(
        use_gpu=False, parse_data_for_eval=lambda batch: batch, extract_features=lambda batch: batch
    )
    capsys.readouterr()
    engine._evaluate(reader, query_loader=loaders[0], gallery_loader=loaders[1], **setting)
    printed = capsys.readouterr().out.partition("** Results **")[2]
    return [float(word.rstrip("%")) for word in printed.split() if word.endswith("%")]


@pytest.mark.parametrize(
    "setting",
    [
        {},
        {"dist_metric": "cosine"},
        {"normalize_feature": True, "ranks": [1, 2, 3, 50]},
        {"rerank": True},
        {"use_metric_cuhk03": True},
    ],
    ids=lambda setting: "-".join(setting) or "default",
)
def test_the_patched_engine_of_torchreid_prints_what_the_other_prints(setting, monkeypatch, capsys, tmp_path):
    theirs, ours = engines_of_torchreid(tmp_path, monkeypatch)
    is_drawn = "use_metric_cuhk03" in setting  # their means over ten draws differ from the mean over all galleries
    np.random.seed(0)  # noqa: NPY002 - what torchreid draws by
    lines = [printed_by(theirs, capsys, **setting) for _ in range(30 if is_drawn else 1)]
    drawn = [sum(values) / len(values) for values in zip(*lines, strict=True)]
    assert len(drawn) == 5
    assert printed_by(ours, capsys, **setting) == pytest.approx(drawn, abs=1 if is_drawn else 0.05)


def squared_distances(features, **_):
    return torch.cdist(features, features).numpy() ** 2


@pytest.mark.parametrize(
    "setting",
    [
        {},
        {"METRIC": "euclidean"},
        {"AQE": SimpleNamespace(ENABLED=True, QE_TIME=1, QE_K=5, ALPHA=3.0)},
        {"RERANK": SimpleNamespace(ENABLED=True, K1=20, K2=6, LAMBDA=0.3)},
        {"ROC": SimpleNamespace(ENABLED=True)},
    ],
    ids=lambda setting: "-".join(setting) or "default",
)
def test_the_patched_evaluator_of_fast_reid_returns_what_the_other_returns(setting, monkeypatch):
    features, pids, camids = (torch.cat(columns) for columns in zip(*people(10), strict=True))
    disabled = dict.fromkeys(("AQE", "RERANK", "ROC"), SimpleNamespace(ENABLED=False))
    config = SimpleNamespace(TEST=SimpleNamespace(**{"METRIC": "cosine"} | disabled | setting))
    found = []
    with modules_of("fastreid", ["yacs", "termcolor", "tabulate", "cloudpickle", "iopath"]) as import_module:
        module = import_module("fastreid.evaluation.reid_evaluation")
        distances = import_module("fastreid.utils.compute_dist")
        monkeypatch.setattr(distances, "compute_jaccard_distance", squared_distances)  # theirs needs a GPU
        source = callers.changed(inspect.getsource(module), "fast_reid").replace("from .", "from fastreid.evaluation.")
        patched = callers.load(source, monkeypatch, exact_rank=callers.saved("fast_reid"))
        for evaluator in (module.ReidEvaluator, patched["ReidEvaluator"]):
            monkeypatch.setattr(evaluator, "_compile_dependencies", lambda _: None)
            made = evaluator(config, 40)
            for batch in torch.arange(len(pids)).split(64):
                made.process({"targets": pids[batch], "camids": camids[batch]}, features[batch])
            found.append(made.evaluate())
    theirs, ours = found
    assert {"Rank-1", "Rank-5", "Rank-10", "mAP", "mINP", "metric"} <= set(theirs)
    assert ours == pytest.approx(theirs, abs=1e-4)
