"""Signatures of the metrics: every option is there, and can be written in a configuration."""

import functools
import inspect
import os
import re
import shutil
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from torchmetrics import Metric, MetricCollection

import reid_torchmetrics
from reid_torchmetrics import _names
from reid_torchmetrics.data.array_names import _PREFIXES, MATRICES
from reid_torchmetrics.data.label_files import _LABEL_KEYS
from reid_torchmetrics.data.list_lines import RETRIEVED_FORMS, TRUTH_FORMS
from reid_torchmetrics.functional import detection, retrieval
from reid_torchmetrics.functional.detection.curves import AP_RULES
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS
from reid_torchmetrics.functional.detection.inputs import BOX_FORMATS, THRESHOLDS
from reid_torchmetrics.functional.detection.inputs.shape_types import SHAPE_TYPES
from reid_torchmetrics.functional.retrieval import measures
from reid_torchmetrics.functional.retrieval.measures import cutoffs, means
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES
from reid_torchmetrics.functional.retrieval.relevance import LABEL_RULES, SAME_CAMERA_RULES
from reid_torchmetrics.functional.retrieval.scores import SIMILARITIES
from reid_torchmetrics.tasks import benchmarks
from reid_torchmetrics.tasks.detection_errors import CONFUSION_RULES
from reid_torchmetrics.tasks.evaluators import CLAIMS, YOLO_RULES
from reid_torchmetrics.tasks.identification import FPIR_RULES
from reid_torchmetrics.tasks.lists import MISSING_QUERIES
from reid_torchmetrics.tasks.metrics import PAIR_METRICS
from reid_torchmetrics.tasks.reranking import EXPANSIONS, ORIGINAL_DISTANCES
from reid_torchmetrics.tasks.votes import VOTES

USES = Path(__file__).parents[1] / "typed_uses.py"
CLASSES = {
    each.__name__: each
    for each in map(functools.partial(getattr, reid_torchmetrics), reid_torchmetrics.__all__)
    if inspect.isclass(each) and issubclass(each, (Metric, MetricCollection))
}
MADE = {name: each for name, each in CLASSES.items() if not inspect.isabstract(each)}
TABLES = {
    "SimilarityName": SIMILARITIES,
    "TieName": TIE_POLICIES,
    "TieByPlace": [name for name, policy in TIE_POLICIES.items() if policy.by_place is not None],
    "CameraRule": SAME_CAMERA_RULES,
    **{f"{name.capitalize()}Rule": rules for name, rules in LABEL_RULES.items()},
    "ApRule": measures.AP_RULES,
    "Normalizer": measures.AP_NORMALIZERS,
    "PrecisionDivisor": measures.PRECISION_DIVISORS,
    "Gain": measures.GAINS,
    "CmcMode": measures.CMC_MODES,
    "EmptyTargetAction": measures.EMPTY_TARGET_ACTIONS,
    "ProtocolName": retrieval.PROTOCOLS,
    "BenchmarkProtocol": [protocol.name for protocol in chain.from_iterable(benchmarks._FIELDS)],
    "FpirRule": FPIR_RULES,
    "PairMetric": PAIR_METRICS,
    "MedianRule": means._MEDIAN_RULES,
    "RankVariant": cutoffs._RETRIEVAL_RANKS,
    "Vote": VOTES,
    "Expansion": EXPANSIONS,
    "OriginalDistance": ORIGINAL_DISTANCES,
    "MissingQueries": MISSING_QUERIES,
    "EvaluatorName": EVALUATORS,
    "TaskEvaluator": EVALUATORS.keys() - {"coco"},
    "ClaimRule": CLAIMS,
    "ConfusionMatrixRule": CONFUSION_RULES,
    "Role": _PREFIXES,
    "MatrixKind": MATRICES,
    "ListForm": RETRIEVED_FORMS,
    "TruthForm": TRUTH_FORMS,
    "LabelField": _LABEL_KEYS,
    "FramePer": {"number", *(each._ROWS for each in (detection.DetectionResults, retrieval.RetrievalResults))},
    "BoxFormat": BOX_FORMATS,
    "IouType": ("bbox", *SHAPE_TYPES),
    "DetectionRule": AP_RULES,
    "TaskRule": AP_RULES.keys() - {"coco"},
    "VocRule": EVALUATORS["voc"].rules,
    "YoloRule": YOLO_RULES,
    "YoloMatching": [name for name, row in EVALUATORS.items() if row.reports_confidence],
    "ThresholdsName": THRESHOLDS,
}


def options(name):
    return inspect.signature(CLASSES[name]).parameters


def needed(name):
    """What has no default."""
    return {"metric": "mrr"} if name == "ReIDMeasure" else {}


def test_the_types_of_names_are_those_of_the_tables():
    """A name has a table, or is checked by its type."""
    code = "".join(each.read_text(encoding="utf-8") for each in Path(_names.__file__).parent.rglob("*.py"))
    checked = {*re.findall(r"one_of\([^()]+ (?:_names\.)?([A-Z][A-Za-z]+)\)", code)}
    named = {name for name in vars(_names) if name[0].isupper() and name != "Literal"}
    assert named == TABLES.keys() | (checked & named)
    for name, table in TABLES.items():
        lacking = {*get_args(getattr(_names, name))} ^ {*table}
        assert not lacking, f"`{name}` in _names.py and its table differ: add {sorted(lacking)} to the one without"


@pytest.mark.parametrize("name", CLASSES)
def test_a_signature_has_every_option_with_its_type_and_none_besides(name):
    kinds = {each.kind for each in options(name).values()}
    assert not kinds & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
    assert not [each for each in options(name).values() if isinstance(each.annotation, str)]
    assert list(inspect.signature(CLASSES[name].__init__).parameters)[1:] == list(options(name))


@pytest.mark.parametrize(("single", "collection"), [("ReIDMINP", "ReIDMetrics"), ("DetectionMAP", "DetectionMetrics")])
def test_a_collection_takes_what_its_members_take(single, collection):
    taken = inspect.signature(CLASSES[single].update).parameters
    for method in ("update", "forward"):
        assert inspect.signature(getattr(CLASSES[collection], method)).parameters == taken


@pytest.mark.parametrize("name", MADE)
def test_none_is_the_default_of_every_option(name):
    nothing = dict.fromkeys(options(name)) | needed(name)
    assert repr(MADE[name](**nothing)) == repr(MADE[name](**needed(name)))


def test_none_is_what_the_protocol_says_and_not_nothing():
    metrics = reid_torchmetrics.ReIDMetrics(protocol="gldv2", k=None, same_camera=None, reports=None, gallery_draw=None)
    assert metrics["map"].protocol is retrieval.PROTOCOLS["gldv2"]


LISTS = [
    (lambda: [1, 2, 3], list),
    (lambda: range(1, 4), tuple),
    (lambda: np.arange(1, 4), np.array),
    (lambda: torch.arange(1, 4), torch.tensor),
    (lambda: np.arange(1, 4, dtype=np.uint8), lambda values: [*map(np.float64, values)]),
]


@pytest.mark.parametrize(("ranks", "as_kind"), LISTS)
def test_options_may_be_sequences_of_any_kind(ranks, as_kind):
    metrics = reid_torchmetrics.ReIDMetrics(ranks(), junk_identities=ranks(), search_cameras=ranks())
    assert list(metrics) == ["map", "minp", "rank_1", "rank_2", "rank_3"]
    assert metrics["map"].protocol.junk_identities == metrics["map"].protocol.search_cameras == (1, 2, 3)
    thresholds = as_kind([0.5, 0.75])
    for kind in (
        reid_torchmetrics.DetectionMAP,
        reid_torchmetrics.LvisMAP,
        reid_torchmetrics.VocMAP,
        reid_torchmetrics.YoloMAP,
    ):
        assert kind(iou_thresholds=thresholds).iou_thresholds == [0.5, 0.75]
    metric = reid_torchmetrics.DetectionMAP(
        max_detection_thresholds=ranks(), rec_thresholds=thresholds, area_ranges={"all": as_kind([0.0, 9.0])}
    )
    assert metric.max_detection_thresholds == [1, 2, 3]
    assert metric.rec_thresholds == [0.5, 0.75]
    assert metric.area_ranges == {"all": (0.0, 9.0)}


def test_numbers_of_numpy_are_numbers_everywhere():
    assert reid_torchmetrics.ReIDCMC(np.int64(5), max_bytes=np.int32(9)).top_k == 5
    assert reid_torchmetrics.ReIDMeanAP(k=np.int16(3), protocol=np.str_("regdb")).protocol.k == 3
    named = {np.int64(3): np.str_("dog")}
    metrics = reid_torchmetrics.DetectionMetrics(("map", "f1_50"), classes=named, confidence=np.float32(0.5))
    assert list(metrics) == ["map", "f1_50", "map/dog"]
    assert reid_torchmetrics.VocMAP(whole_pixels=np.bool_(False)).whole_pixels is False


CHOSEN = {
    "ReIDMetrics": """{ranks: [1, 5], protocol: sysu_mm01_all_multi, similarity: euclidean, junk_identities: [-1, 0],
        camera_map: {3: 2}, rule: null, ties: null, gallery_draw: {shots: 2}, rerank: null, prefix: val/}""",
    "ReIDMeanAP": "{rule: trapezoid, k: 5, similarity: torch.nn.functional.linear}",
    "ReIDMeasure": "{metric: precision_5, empty_target_action: neg, search_cameras: [1, 2]}",
    "DetectionMAP": "{iou_type: [bbox, segm], iou_thresholds: [0.5, 0.75], area_ranges: {all: [0, 100]}}",
    "DetectionMetrics": "{values: [map, f1_50], classes: {3: dog}, confidence: 0.5, invalid: drop}",
    "LvisMAP": "{iou_type: segm, fixed: true, frequencies: {3: r}, metric: map_rare}",
    "YoloMAP": "{matching: yolov4, confidence: 0.25, class_names: [dog, cat]}",
}


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_a_metric_is_made_from_the_yaml_of_lightning_with_nothing_null_or_chosen_options(name, tmp_path, monkeypatch):
    pytest.importorskip("jsonargparse")
    monkeypatch.setenv("JSONARGPARSE_DEPRECATION_WARNINGS", "off")  # Lightning's own calls
    cli = pytest.importorskip("lightning.pytorch.cli")

    class Trained(cli.LightningModule):
        def __init__(self, metric: torch.nn.Module) -> None:
            super().__init__()
            self.metric = metric

    nulls = ", ".join(f"{each}: {needed(name).get(each, 'null')}" for each in options(name))
    made = []
    for number, given in enumerate((str(needed(name)), f"{{{nulls}}}", CHOSEN.get(name, "{}"))):
        file = tmp_path / f"{number}.yaml"
        metric = f"{{class_path: reid_torchmetrics.{name}, init_args: {given}}}"
        file.write_text(f"model: {{metric: {metric}}}\n", encoding="utf-8")
        monkeypatch.setattr(sys, "argv", ["train.py", "--config", str(file)])
        parsed = cli.LightningCLI(Trained, run=False, save_config_callback=None, seed_everything_default=False)
        made.append(parsed.model.metric)
    assert repr(made[0]) == repr(made[1]) == repr(MADE[name](**needed(name)))
    assert type(made[2]) is MADE[name]


@pytest.mark.parametrize("name", MADE)
def test_a_metric_is_made_from_the_yaml_of_hydra(name):
    hydra, omegaconf = pytest.importorskip("hydra"), pytest.importorskip("omegaconf")
    chosen = CHOSEN.get(name, str(needed(name))).replace("similarity: torch.nn.functional.linear", "ties: null")
    config = omegaconf.OmegaConf.create(f"{{_target_: reid_torchmetrics.{name}, {chosen[1:]}")
    if name == "ReIDMetrics":
        config.gallery_draw = {"_target_": "reid_torchmetrics.GalleryDraw", "shots": 2}
    assert type(hydra.utils.instantiate(config)) is MADE[name]


@pytest.mark.skipif(shutil.which("pyright", path=Path(sys.executable).parent) is None, reason="needs pyright")
def test_pyright_finds_the_wrong_uses_and_no_others():
    """As mypy does wherever the package is checked."""
    pyright = Path(sys.executable).with_name("pyright")
    found = subprocess.run(
        [pyright, "--pythonpath", sys.executable, USES],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(Path(reid_torchmetrics.__file__).parents[1])},
    )
    assert found.stdout.startswith("0 errors"), found.stdout
