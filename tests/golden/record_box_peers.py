"""Records what evaluators of boxes give for random problems: `python -m tests.golden.record_box_peers FOLDER`.

It runs where the packages of `README.md` are installed, and not this one; FOLDER has clones of WongKinYiu/ScaledYOLOv4
and rbgirshick/py-faster-rcnn.
"""

import ast
import contextlib
import io
import json
import pickle
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import faster_coco_eval as faster
import hotcoco as hotcoco_package
import kwimage
import numpy as np
import pycocotools.coco as pycocotools_api
import pycocotools.cocoeval as pycocotools_eval
import supervision as supervision_package
import torch
import torchmetrics.detection as torchmetrics_detection
import vernier as vernier_package
from evalsuite.vision import detection_report
from globox import Annotation, AnnotationSet, BoundingBox, COCOEvaluator
from ignite.metrics import CommonObjectDetectionMetrics
from kwcoco.metrics import DetectionMetrics
from mapcalc import calculate_map, calculate_map_range
from mean_average_precision import MetricBuilder
from od_metrics import ODMetrics
from podm import metrics as podm_metrics
from supervision import metrics as supervision_metrics
from supervision.metrics.core import AveragingMethod
from tidecv import TIDE, Data
from ultralytics.engine.validator import BaseValidator
from ultralytics.utils.metrics import Metric, ap_per_class, box_iou

FOLDER = Path(__file__).parent
TRAITS = ("plain", "absent", "ties", "crowds", "many", "halves", "difficult", "sizes")
NAMES = ("map", "map_50", "map_75", "map_small", "map_medium", "map_large")
NAMES += ("mar_1", "mar_10", "mar_100", "mar_small", "mar_medium", "mar_large")
Problem = dict[str, Any]


def draw(trait: str) -> Problem:
    """Objects and detections of some images, boxes as corners in quarters of a pixel."""
    generator = np.random.default_rng(TRAITS.index(trait) + 11)
    truths, found = [], []
    for image in range(8):
        for _ in range(generator.integers(3, 8)):
            side = generator.choice([12, 40, 150]) if trait == "sizes" else generator.integers(15, 120)
            label = generator.integers(0, 3)
            corner = generator.integers(0, 1200, 2) / 4
            box = [*corner, *(corner + np.round(side * generator.uniform(0.6, 1.4, 2) * 4) / 4)]
            truths.append([image, label, *box])
            for _ in range(generator.integers(0, 3)):
                moved = np.round((np.array(box) + generator.normal(0, 0.12 * side, 4)) * 4) / 4
                if trait == "halves" and generator.random() < 0.5:  # an overlap of 1/2
                    moved = np.array([box[0], box[1], box[2] + box[2] - box[0], box[3]])
                moved[2:] = np.maximum(moved[2:], moved[:2] + 1)
                found.append([image, label if generator.random() < 0.85 else generator.integers(0, 3), *moved])
        number = 140 if trait == "many" and image < 2 else 2
        for _ in range(number):
            corner = generator.integers(0, 1200, 2) / 4
            found.append([image, generator.integers(0, 3), *corner, *(corner + generator.integers(40, 300, 2) / 4)])
    if trait == "absent":  # class 3 is detected only, class 4 is never detected
        found += [[image, 3, 5, 5, 60, 60] for image in range(3)]
        truths += [[image, 4, 5, 5, 60, 60] for image in range(3)]
    levels = 6 if trait == "ties" else len(found)
    places = generator.integers(0, levels, len(found)) if trait == "ties" else generator.permutation(levels)
    scores = np.round((places + 1) / (levels + 1) * 4096) / 4096
    of_detections, of_truths = np.array(found, dtype=float), np.array(truths, dtype=float)
    rare = generator.random(len(truths)) < 0.25
    return {
        "detections": of_detections,
        "scores": scores,
        "ground_truths": of_truths,
        "is_crowd": rare & (trait == "crowds"),
        "is_difficult": rare & (trait == "difficult"),
    }


def per_image(problem: Problem) -> Iterator[tuple[Any, ...]]:
    """Boxes and labels of the objects, flags of crowds, then boxes, labels and scores of the detections, by image."""
    found, true = problem["detections"], problem["ground_truths"]
    for image in range(8):
        rows, of_truths = found[:, 0] == image, true[:, 0] == image
        yield (
            *(true[of_truths, 2:], true[of_truths, 1].astype(int), problem["is_crowd"][of_truths]),
            *(found[rows, 2:], found[rows, 1].astype(int), problem["scores"][rows]),
        )


def coco_files(problem: Problem) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The data set and the results in COCO's form."""
    annotations, results = [], []
    for row, crowd in zip(problem["ground_truths"].tolist(), problem["is_crowd"].tolist(), strict=True):
        image, label, left, top, right, bottom = row
        sizes = {"bbox": [left, top, right - left, bottom - top], "area": (right - left) * (bottom - top)}
        ids = {"id": len(annotations) + 1, "image_id": int(image) + 1, "category_id": int(label) + 1}
        annotations.append({**ids, **sizes, "iscrowd": int(crowd)})
    for (image, label, left, top, right, bottom), score in zip(
        problem["detections"].tolist(), problem["scores"].tolist(), strict=True
    ):
        ids = {"image_id": int(image) + 1, "category_id": int(label) + 1}
        results.append({**ids, "bbox": [left, top, right - left, bottom - top], "score": score})
    images = [{"id": image + 1, "width": 640, "height": 640, "file_name": f"{image}.jpg"} for image in range(8)]
    labels = np.unique(np.concatenate([problem["detections"][:, 1], problem["ground_truths"][:, 1]]))
    categories = [{"id": int(label) + 1, "name": str(int(label))} for label in labels]
    return {"info": {}, "images": images, "categories": categories, "annotations": annotations}, results


def _stats(problem: Problem, coco: Any, evaluation: Any, **options: Any) -> dict[str, float]:
    data_set, results = coco_files(problem)
    truth = coco()
    truth.dataset = data_set
    truth.createIndex()
    run = evaluation(truth, truth.loadRes(results), "bbox", **options)
    run.evaluate()
    run.accumulate()
    run.summarize()
    return dict(zip(NAMES, run.stats, strict=False))


def pycocotools(problem: Problem) -> dict[str, float]:

    return _stats(problem, pycocotools_api.COCO, pycocotools_eval.COCOeval)


def vernier(problem: Problem) -> dict[str, float]:

    return _stats(problem, pycocotools_api.COCO, vernier_package.COCOeval)


def faster_coco_eval(problem: Problem) -> dict[str, float]:

    data_set, results = coco_files(problem)
    truth = faster.COCO(data_set)
    run = faster.COCOeval_faster(truth, truth.loadRes(results), "bbox", print_function=lambda *_: None)
    run.evaluate()
    run.accumulate()
    run.summarize()
    return dict(zip(NAMES, run.stats, strict=False))


def hotcoco(problem: Problem) -> dict[str, float]:

    data_set, results = coco_files(problem)
    truth = hotcoco_package.COCO(data_set)
    run = hotcoco_package.COCOeval(truth, truth.loadRes(results), "bbox")
    run.evaluate()
    run.accumulate()
    run.summarize()
    return dict(zip(NAMES, run.stats, strict=False))


def _torchmetrics(problem: Problem, **options: Any) -> dict[str, float]:

    metric = torchmetrics_detection.MeanAveragePrecision(**options)
    for boxes, labels, crowd, found, found_labels, scores in per_image(problem):
        preds = {"boxes": found, "labels": found_labels, "scores": scores}
        target = {"boxes": boxes, "labels": labels, "iscrowd": crowd.astype(int)}
        metric.update(*([{name: torch.tensor(value) for name, value in side.items()}] for side in (preds, target)))
    values = metric.compute()
    return {name: float(values[name]) for name in NAMES}


def torchmetrics(problem: Problem) -> dict[str, float]:
    return _torchmetrics(problem)


def torchmetrics_faster(problem: Problem) -> dict[str, float]:
    return _torchmetrics(problem, backend="faster_coco_eval")


def torchmetrics_micro(problem: Problem) -> dict[str, float]:
    return _torchmetrics(problem, average="micro")


def supervision(problem: Problem) -> dict[str, float]:

    precision = supervision_metrics.MeanAveragePrecision()
    kinds = (supervision_metrics.F1Score, supervision_metrics.Precision, supervision_metrics.Recall)
    scores_of = {(kind.__name__, mean): kind(averaging_method=mean) for mean in AveragingMethod for kind in kinds}
    for boxes, labels, crowd, found, found_labels, scores in per_image(problem):
        detections = supervision_package.Detections(xyxy=found, class_id=found_labels, confidence=scores)
        truths = supervision_package.Detections(xyxy=boxes, class_id=labels, data={"iscrowd": crowd.astype(int)})
        for metric in (precision, *scores_of.values()):
            metric.update(detections, truths)
    result = precision.compute()
    sizes = (result.small_objects, result.medium_objects, result.large_objects)
    numbers = (result.map50_95, result.map50, result.map75, *(size.map50_95 for size in sizes))
    values = dict(zip(NAMES, numbers, strict=False))
    names = {"F1Score": "f1_50", "Precision": "precision_at_50", "Recall": "recall_at_50"}
    if not problem["is_crowd"].any():  # which count as objects
        for (kind, mean), metric in scores_of.items():
            values[f"{mean.value} {kind}"] = getattr(metric.compute(), names[kind])
    return values


def od_metrics(problem: Problem) -> dict[str, float]:

    truths = [{"boxes": b, "labels": c, "iscrowd": crowd} for b, c, crowd, *_ in per_image(problem)]
    found = [{"boxes": b, "labels": c, "scores": s} for *_, b, c, s in per_image(problem)]
    values = ODMetrics(box_format="xyxy").compute(truths, found)
    kinds = [f"mAP@[{at} | all | 100]" for at in (".5:.95", ".5", ".75")]
    kinds += [f"mAP@[.5:.95 | {size} | 100]" for size in ("small", "medium", "large")]
    kinds += [f"mAR@[.5:.95 | all | {most}]" for most in (1, 10, 100)]
    kinds += [f"mAR@[.5:.95 | {size} | 100]" for size in ("small", "medium", "large")]
    return dict(zip(NAMES, (values[kind] for kind in kinds), strict=True))


def evalsuite(problem: Problem) -> dict[str, float]:

    truths = [{"boxes": b, "labels": c, "iscrowd": crowd.astype(int)} for b, c, crowd, *_ in per_image(problem)]
    found = [{"boxes": b, "labels": c, "scores": s} for *_, b, c, s in per_image(problem)]
    values = detection_report(truths, found)
    return {name: values[name] for name in NAMES}


def globox(problem: Problem) -> dict[str, float]:

    def annotations(sides: list[Any]) -> Any:
        images = []
        for image, rows in enumerate(sides):
            boxes = [
                BoundingBox(label=str(label), xmin=box[0], ymin=box[1], xmax=box[2], ymax=box[3], confidence=score)
                for box, label, score in rows
            ]
            images.append(Annotation(str(image), (640, 640), boxes))
        return AnnotationSet(images)

    images = list(per_image(problem))
    truths = annotations([[(box, label, None) for box, label in zip(b, c, strict=True)] for b, c, *_ in images])
    found = annotations([list(zip(b.tolist(), c, map(float, s), strict=True)) for *_, b, c, s in images])
    run = COCOEvaluator(ground_truths=truths, predictions=found)
    kinds = ("ap", "ap_50", "ap_75", "ap_small", "ap_medium", "ap_large")
    kinds += ("ar_1", "ar_10", "ar_100", "ar_small", "ar_medium", "ar_large")
    return {name: getattr(run, kind)() for name, kind in zip(NAMES, kinds, strict=True)}


def ignite(problem: Problem) -> dict[str, float]:

    metric = CommonObjectDetectionMetrics(num_classes=5)
    found, truths = [], []
    for boxes, labels, crowd, *detected in per_image(problem):
        columns = {"bbox": boxes, "labels": labels, "iscrowd": crowd}
        truths.append({name: torch.tensor(values) for name, values in columns.items()})
        columns = dict(zip(("bbox", "labels", "scores"), detected, strict=True))
        found.append({name: torch.tensor(values) for name, values in columns.items()})
    metric.update((found, truths))
    values = metric.compute()
    sizes = ("S", "M", "L")
    kinds = ["AP@50..95", "AP@50", "AP@75", *(f"AP-{size}" for size in sizes)]
    kinds += ["AR-1", "AR-10", "AR-100", *(f"AR-{size}" for size in sizes)]
    return {name: float(values[kind]) for name, kind in zip(NAMES, kinds, strict=True)}


def mean_average_precision(problem: Problem) -> dict[str, float]:

    num_classes = 1 + int(max(problem["detections"][:, 1].max(), problem["ground_truths"][:, 1].max()))
    metric = MetricBuilder.build_evaluation_metric("map_2d", async_mode=False, num_classes=num_classes)
    for boxes, labels, _, found, found_labels, scores in per_image(problem):
        flags = np.zeros((len(boxes), 2))
        metric.add(np.column_stack([found, found_labels, scores]), np.column_stack([boxes, labels, flags]))
    elevenths = np.arange(0, 1.1, 0.1)
    grid = {"recall_thresholds": np.arange(0, 1.01, 0.01), "mpolicy": "soft"}
    return {
        "voc": metric.value(iou_thresholds=0.5)["mAP"],
        "voc07": metric.value(iou_thresholds=0.5, recall_thresholds=elevenths)["mAP"],
        "coco": metric.value(iou_thresholds=np.arange(0.5, 1.0, 0.05), **grid)["mAP"],
    }


def mapcalc(problem: Problem) -> dict[str, float]:
    """One image: the package knows no more."""

    boxes, labels, _, found, found_labels, scores = next(per_image(problem))
    truth = {"boxes": boxes.tolist(), "labels": labels.tolist()}
    result = {"boxes": found.tolist(), "labels": found_labels.tolist(), "scores": scores.tolist()}
    values = {"map_50": calculate_map(truth, result, 0.5)}
    values["map"] = calculate_map_range(truth, result, 0.5, 0.95, 0.05)
    return values


def podm(problem: Problem) -> dict[str, float]:

    truths, found = [], []
    for image, (boxes, labels, _, detected, found_labels, scores) in enumerate(per_image(problem)):
        truths += [
            podm_metrics.BoundingBox.of_bbox(image, str(c), *b) for b, c in zip(boxes.tolist(), labels, strict=True)
        ]
        rows = zip(detected.tolist(), found_labels, scores.tolist(), strict=True)
        found += [podm_metrics.BoundingBox.of_bbox(image, str(c), *b, score) for b, c, score in rows]
    values = {}
    for name, method in (("voc", "AllPointsInterpolation"), ("voc07", "ElevenPointsInterpolation")):
        run = podm_metrics.get_pascal_voc_metrics(
            truths, found, 0.5, getattr(podm_metrics.MethodAveragePrecision, method)
        )
        values[name] = float(podm_metrics.MetricPerClass.mAP(run))
    return values


def kwcoco(problem: Problem) -> dict[str, float]:

    metrics = DetectionMetrics(classes=["0", "1", "2", "3", "4"])
    for image, (boxes, labels, _, found, found_labels, scores) in enumerate(per_image(problem)):
        true = {"boxes": kwimage.Boxes(boxes, "ltrb"), "class_idxs": labels, "classes": metrics.classes}
        columns = {"boxes": kwimage.Boxes(found, "ltrb"), "class_idxs": found_labels, "scores": scores}
        metrics.add_predictions(kwimage.Detections(**columns, classes=metrics.classes), gid=image)
        metrics.add_truth(kwimage.Detections(**true), gid=image)
    values = {"score_pycocotools": metrics.score_pycocotools()["mAP"]}
    for method in ("voc2012", "voc2007"):
        values[method] = metrics.score_voc(iou_thresh=0.5, method=method)["mAP"]
    values["score_kwcoco"] = metrics.score_kwcoco(iou_thresh=0.5)["mAP"]
    return values


def tidecv(problem: Problem) -> dict[str, float]:

    truth, found = Data("gt"), Data("dt")
    for image, (boxes, labels, crowd, detected, found_labels, scores) in enumerate(per_image(problem)):
        truth.add_image(image, str(image))
        for box, label, is_crowd in zip(boxes, labels.tolist(), crowd, strict=True):
            add = truth.add_ignore_region if is_crowd else truth.add_ground_truth
            add(image, label, [*box[:2], *(box[2:] - box[:2])])
        for box, label, score in zip(detected, found_labels.tolist(), scores.tolist(), strict=True):
            found.add_detection(image, label, score, [*box[:2], *(box[2:] - box[:2])])
    tide = TIDE()
    return {"map_50": tide.evaluate(truth, found, mode=TIDE.BOX).ap / 100}


def ultralytics(problem: Problem) -> dict[str, float]:

    validator = BaseValidator.__new__(BaseValidator)
    validator.iouv = torch.linspace(0.5, 0.95, 10)
    stats = []
    for boxes, labels, _, found, found_labels, scores in per_image(problem):
        order = np.argsort(-scores, kind="stable")
        columns = [torch.tensor(values) for values in (found[order], found_labels[order], labels, boxes)]
        overlaps = box_iou(columns[3].float(), columns[0].float())
        right = validator.match_predictions(columns[1], columns[2], overlaps)
        stats.append((right.numpy(), scores[order], found_labels[order], labels))
    arrays = [np.concatenate(column) for column in zip(*stats, strict=True)]
    metric = Metric()
    metric.update(ap_per_class(*arrays)[2:])
    return dict(zip(("P", "R", "map_50", "map"), metric.mean_results(), strict=True)) | {"map_75": metric.map75}


def _source(repository: str, path: str) -> str:
    command = ["git", "-C", str(Path(sys.argv[1]) / repository), "show", f"HEAD:{path}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _functions(source: str, names: tuple[str, ...], scope: dict[str, Any]) -> dict[str, Any]:
    """Run the definitions of some functions."""
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    exec(compile(tree, "source", "exec"), scope)  # noqa: S102 - the evaluators' own code
    return scope


def scaled_yolov4(problem: Problem) -> dict[str, float]:
    """Run the loop over images of `test.py`, and `ap_per_class`."""
    names = ("ap_per_class", "compute_ap", "box_iou", "xywh2xyxy")
    scope = _functions(_source("ScaledYOLOv4", "utils/general.py"), names, {"np": np, "torch": torch})
    lines = _source("ScaledYOLOv4", "test.py").splitlines()
    first = next(number for number, line in enumerate(lines) if "# Assign all predictions as incorrect" in line)
    last = next(number for number, line in enumerate(lines) if "# Append statistics" in line)
    loop = compile(textwrap.dedent("\n".join(lines[first:last])), "loop", "exec")
    stats = []
    for boxes, labels, _, *detected in per_image(problem):
        order = np.argsort(-detected[2], kind="stable")  # as they come from its suppression
        found, found_labels, scores = (values[order] for values in detected)
        centers = np.column_stack([labels, (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]])
        scope |= {"pred": torch.tensor(np.column_stack([found, scores, found_labels])), "labels": torch.tensor(centers)}
        scope |= {"nl": len(labels), "niou": 10, "iouv": torch.linspace(0.5, 0.95, 10), "device": "cpu", "whwh": 1.0}
        exec(loop, scope)  # noqa: S102 - the same
        stats.append((scope["correct"].numpy(), scores, found_labels, labels))
    arrays = [np.concatenate(column) for column in zip(*stats, strict=True)]
    precision, recall, ap, _, _ = scope["ap_per_class"](*arrays)
    means = (precision[:, 0].mean(), recall[:, 0].mean(), ap[:, 0].mean(), ap.mean())
    return dict(zip(("P", "R", "map_50", "map"), means, strict=True))


def voc_eval(problem: Problem) -> dict[str, float]:
    """Run `voc_eval` of Python 2: its two lines that print are left out, and `cPickle` is `pickle`."""
    source = _source("py-faster-rcnn", "lib/datasets/voc_eval.py")
    lines = [line for line in source.splitlines() if not line.lstrip().startswith(("print '", "i + 1, len("))]
    text = (
        "\n".join(lines)
        .replace("if i % 100 == 0:", "")
        .replace("np.bool)", "bool)")
        .replace("(cachefile, 'r')", "(cachefile, 'rb')")
    )
    scope = _functions(text, ("voc_ap", "voc_eval"), {"np": np, "cPickle": pickle, "os": __import__("os")})
    values = {}
    labels = np.unique(problem["ground_truths"][:, 1]).astype(int).tolist()
    with tempfile.TemporaryDirectory() as folder:
        records: dict[str, list[Any]] = {str(image): [] for image in range(8)}
        for row, difficult in zip(problem["ground_truths"].tolist(), problem["is_difficult"].tolist(), strict=True):
            records[str(int(row[0]))].append({"name": str(int(row[1])), "bbox": row[2:], "difficult": difficult})
        Path(folder, "annots.pkl").write_bytes(pickle.dumps(records))
        Path(folder, "images.txt").write_text("\n".join(records), encoding="utf-8")
        for label in labels:
            rows = problem["detections"][:, 1] == label
            texts = [
                " ".join(map(str, (int(row[0]), score, *row[2:])))
                for row, score in zip(
                    problem["detections"][rows].tolist(), problem["scores"][rows].tolist(), strict=True
                )
            ]
            Path(folder, f"{label}.txt").write_text("\n".join(texts), encoding="utf-8")
        for name, is_07 in (("voc", False), ("voc07", True)):
            precisions = []
            for label in labels:
                if not (problem["detections"][:, 1] == label).any():
                    precisions.append(0.0)
                    continue
                paths = (f"{folder}/{{}}.txt", "", f"{folder}/images.txt", str(label), folder)
                with contextlib.redirect_stdout(io.StringIO()):
                    precisions.append(scope["voc_eval"](*paths, use_07_metric=is_07)[2])
            values[name] = float(np.mean(precisions))
    return values


WITHOUT_CROWDS = (*(globox, mean_average_precision, mapcalc, podm, kwcoco, ultralytics, scaled_yolov4, voc_eval),)
PEERS: tuple[Callable[[Problem], dict[str, float]], ...] = (
    *(pycocotools, vernier, faster_coco_eval, hotcoco, torchmetrics, torchmetrics_faster, torchmetrics_micro),
    *(supervision, od_metrics, evalsuite, ignite, tidecv, *WITHOUT_CROWDS),
)


def main() -> None:
    """Draw the problems, run the evaluators, and write both files."""
    arrays, outputs = {}, {}
    for trait in TRAITS:
        problem = draw(trait)
        arrays.update({f"{trait}/{name}": values for name, values in problem.items()})
        for peer in PEERS:
            if problem["is_crowd"].any() and peer in WITHOUT_CROWDS:
                continue
            if problem["is_difficult"].any() and peer is not voc_eval:
                continue
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    values = peer(problem)
            except Exception as error:  # noqa: BLE001 - any evaluator may fail
                print(trait, peer.__name__, repr(error)[:300])  # noqa: T201
                continue
            outputs[f"{trait}/{peer.__name__}"] = {name: float(value) for name, value in values.items()}
    np.savez_compressed(FOLDER / "box_peers.npz", **arrays)
    text = json.dumps(outputs, indent=1)
    (FOLDER / "box_peers.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
