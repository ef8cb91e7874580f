"""`diagnose` tries every cause without suspicion, of metrics, results and samples, and changes nothing."""

import warnings

import pytest
import torch
from torchmetrics import MetricCollection

from reid_torchmetrics import DetectionMAP, DetectionMetrics, ReIDMeanAP, ReIDMetrics, diagnose, diagnosis, evaluate
from reid_torchmetrics._warnings import asking
from reid_torchmetrics.coco import COCO, COCOeval
from reid_torchmetrics.diagnosis.answers import Answer, Diagnosis, collecting
from reid_torchmetrics.diagnosis.causes import Cause
from reid_torchmetrics.diagnosis.detection import MatchedImages
from reid_torchmetrics.functional import workers
from reid_torchmetrics.functional.detection import evaluate_images
from reid_torchmetrics.functional.retrieval.evaluation import RankedSamples

CPU = torch.device("cpu")


def cause(name, values, attribute=None, **options):
    """A cause that nobody suspects, and that may need an attribute of a case."""

    def find(case):
        return values if attribute is None or getattr(case, attribute) is not None else None

    find.__doc__ = f"Look for mistake {name}.\n\n    It is so."
    options = {"suspect": lambda case: False} | options
    return Cause(name, f"{name} has {{num}}.", find, **options)


def causes(attribute):
    return [
        cause("found", {"num": 1}),
        cause("explained", {"num": 2}, explained_by=("found",)),
        cause("absent", None),
        cause("unknown", {"num": 3}, attribute),
    ]


ROWS = {RankedSamples: causes("positions"), MatchedImages: causes("points")}


def register(monkeypatch, samples, rows):
    """Look for these causes alone in results from such samples."""
    registries = diagnosis.module_for(samples).REGISTRIES
    case_of, _ = registries[samples]
    monkeypatch.setitem(registries, samples, (case_of, {row.name: row for row in rows}))


@pytest.fixture
def rows(monkeypatch):
    """Four causes in each registry."""
    for kind, causes_of_kind in ROWS.items():
        register(monkeypatch, kind, causes_of_kind)


def samples():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(12, 4, generator=generator), torch.arange(12) % 4


def updated(metric):
    embeddings, identities = samples()
    metric.update(embeddings, identities, is_query=torch.arange(12) < 6)
    return metric


def as_rows(diagnosis):
    return [(answer.name, answer.state) for answer in diagnosis]


def arguments():
    embeddings, identities = samples()
    return {
        "query": embeddings[:6],
        "gallery": embeddings[6:],
        "query_identities": identities[:6],
        "gallery_identities": identities[6:],
    }


def images():
    box = {"boxes": torch.tensor([[10.0, 10.0, 50.0, 50.0]]), "labels": torch.tensor([1])}
    return {"preds": [box | {"scores": torch.tensor([0.9])}], "target": [box]}


def detected(metric, num_images=1):
    metric.update(*(num_images * items for items in images().values()))
    return metric


def coco_evaluation():
    row = {"image_id": 1, "category_id": 1, "bbox": [10.0, 10.0, 40.0, 40.0], "area": 1600.0}
    data_set = COCO({"images": [{"id": 1}], "categories": [{"id": 1}], "annotations": [row | {"id": 1, "iscrowd": 0}]})
    return COCOeval(data_set, data_set.loadRes([row | {"score": 0.9}]), "bbox")


WAYS = {
    "a metric of embeddings": lambda: diagnose(updated(ReIDMeanAP())),
    "a collection for embeddings": lambda: diagnose(updated(ReIDMetrics())),
    "results of `evaluate`": lambda: diagnose(evaluate(**arguments())),
    "results of embeddings": lambda: diagnose(updated(ReIDMetrics()).results()),
    "results and embeddings": lambda: diagnose(updated(ReIDMetrics()).results(), arguments()),
    "a metric of boxes": lambda: diagnose(detected(DetectionMAP())),
    "a collection for boxes": lambda: diagnose(detected(DetectionMetrics())),
    "results of boxes": lambda: diagnose(detected(DetectionMAP()).results()),
    "results and boxes": lambda: diagnose(evaluate_images(**images()), images()),
    "a `COCOeval`": lambda: diagnose(coco_evaluation()),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("rows")
def test_every_cause_is_answered_once_without_suspicion(way):
    diagnosis = WAYS[way]()
    of_embeddings = "embeddings" in way or "evaluate" in way
    lacks = {"results of embeddings": "samples", "results of boxes": "images"}.get(way)
    lacks = lacks or ("positions" if of_embeddings else "sample of objects")
    assert as_rows(diagnosis) == [
        ("found", "found"),
        ("explained", "not found"),
        ("absent", "not found"),
        ("unknown", f"not looked at: no {lacks}"),
    ]
    assert diagnosis.found == [Answer("found", "mistake found", "found has 1.")]
    assert str(diagnosis).splitlines()[0] == "Diagnosis: 1 of 4 causes found"
    assert str(diagnosis).splitlines()[-1] == "  found: found has 1."


@pytest.mark.parametrize("kind", [ReIDMeanAP, ReIDMetrics, DetectionMAP, DetectionMetrics])
def test_a_metric_stays_as_it_is_and_warns_later_as_if_nothing_had_been_asked(kind, monkeypatch):
    for samples_of_kind in ROWS:
        register(monkeypatch, samples_of_kind, [cause("told", {"num": 1}, suspect=lambda case: True)])
    metric = detected(kind()) if kind in (DetectionMAP, DetectionMetrics) else updated(kind())
    members = [*metric.values(copy_state=False)] if isinstance(metric, MetricCollection) else [metric]
    before = [dict(vars(member)) for member in members]
    assert len(diagnose(metric).found) == 1
    for member, values in zip(members, before, strict=True):
        assert {name: value for name, value in values.items() if vars(member)[name] is not value} == {}
    with pytest.warns(UserWarning, match="told has 1") as told:
        metric.compute()
    assert [str(one.message) for one in told] == ["told has 1."]
    values = [member._computed for member in members]
    assert len(diagnose(metric).found) == 1
    assert all(member._computed is value for member, value in zip(members, values, strict=True))


def test_samples_are_evaluated_under_the_protocol_of_the_results():
    """A radius of one meter, in which positions of float32 are rounded, is an option of the metric alone."""
    positions = (5e6 + 7.5 * torch.arange(40, dtype=torch.float32))[:, None].expand(40, 2).double()
    given = {"query": torch.randn(40, 4), "gallery": torch.randn(40, 4)}
    given |= {"query_positions": positions, "gallery_positions": positions}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = evaluate(**given, radius=1.0)
    assert "rounded_positions" in [answer.name for answer in diagnose(results, given).found]


def test_a_warning_of_another_kind_is_left_out_and_comes_later():
    metric = ReIDMeanAP()
    metric.update(torch.eye(4), torch.arange(4), is_query=torch.arange(4) < 2)
    diagnose(metric)
    with pytest.warns(UserWarning, match="No query can be evaluated"):
        metric.compute()


def test_answers_are_collected_on_the_threads_of_workers():
    num_threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with collecting(Diagnosis()) as diagnosis:
            threads = workers.run(lambda: (asking.get(), workers.share(lambda _: asking.get(), [1, 2])), CPU)
    finally:
        torch.set_num_threads(num_threads)
    assert threads == (diagnosis, [diagnosis, diagnosis])
    assert asking.get() is None


def test_what_another_process_found_is_added_to_the_answers():
    diagnosis = Diagnosis([Answer("a", "mistake a"), Answer("b", "mistake b", lacks="sample")])
    diagnosis.add({"b": "b has 2."})
    assert diagnosis == [Answer("a", "mistake a"), Answer("b", "mistake b", "b has 2.")]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (({"map": 0.5},), "`results` must be a metric, or results with `samples`; got dict alone."),
        ((None, {"query": 1, "boxes": 2}), "`samples` must be the arguments of evaluate, .*; got 'query', 'boxes'"),
    ],
)
def test_what_cannot_be_diagnosed_is_refused(given, message):
    with pytest.raises(TypeError, match=message):
        diagnose(*given)


@pytest.mark.parametrize("kind", [ReIDMeanAP, ReIDMetrics, DetectionMAP, DetectionMetrics])
def test_a_forgotten_reset_is_found_after_the_evaluation_too(kind):
    metric = kind()
    for is_repeated in (False, True):
        detected(metric, 8) if kind in (DetectionMAP, DetectionMetrics) else updated(metric)
        assert ("forgotten_reset" in [answer.name for answer in diagnose(metric).found]) == is_repeated
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            metric.compute()
        assert ("forgotten_reset" in [answer.name for answer in diagnose(metric).found]) == is_repeated
