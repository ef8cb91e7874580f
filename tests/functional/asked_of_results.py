"""Everything that results can be asked for without further samples, to see that nothing fails by accident."""

from collections.abc import Callable

from reid_torchmetrics.functional.detection import DetectionResults
from reid_torchmetrics.functional.retrieval import RetrievalResults
from reid_torchmetrics.tasks import Comparison, IndexRecall, compare

FEW = {"num_resamples": 3, "num_permutations": 3}

RETRIEVAL: dict[str, Callable] = {
    "text": str,
    "dict": RetrievalResults.to_dict,
    "columns": RetrievalResults._columns,
    "table": RetrievalResults.model_table,
    "over identities": RetrievalResults.mean_over_identities,
    "by camera": RetrievalResults.by_camera,
    "by identity": RetrievalResults.by_identity,
    "by camera pair": RetrievalResults.by_camera_pair,
    "interval": lambda results: results.interval(num_resamples=3),
    "interval of identities": lambda results: results.interval(num_resamples=3, per_identity=True),
    "hardest": lambda results: results.hardest(3),
    "hardest by the last": lambda results: results.hardest(3, by="minp"),
    "mean curve": RetrievalResults.mean_precision_recall,
    "curve": lambda results: results.precision_recall(0),
    "nearest": lambda results: results.nearest(2),
    "nearest of some": lambda results: results.nearest(1, [0]),
    "names of candidates": lambda results: results.nearest(1).names(),
    "votes": lambda results: results.nearest(1).knn_accuracy(),
    "mistakes": lambda results: results.confident_mistakes(3),
    "identification": lambda results: results.identification().tpir_at_fpir([0.1]),
    "without a query": lambda results: results.means_without([0]),
    "compared": lambda results: compare(results, results, **FEW).to_dict(),
}
DETECTION: dict[str, Callable] = {
    "text": str,
    "dict": DetectionResults.to_dict,
    "columns": DetectionResults._columns,
    "table": DetectionResults.model_table,
    "table of classes": DetectionResults.class_table,
    "grid": lambda results: results.coco,
    "list": DetectionResults.detections,
    "ranked": lambda results: results.ranked,
    "boxes": lambda results: results.boxes_of(results.image_ids),
    "confusions": DetectionResults.confusion_matrix,
    "confusions above": lambda results: results.confusion_matrix(confidence=0.5),
    "errors": DetectionResults.error_breakdown,
    "at confidence": lambda results: results.at_confidence(0.5),
    "best F1": DetectionResults.best_f1,
    "best confidences": DetectionResults.best_confidences,
    "errors of images": DetectionResults.image_errors,
    "worst images": lambda results: results.worst_images(2),
    "confidence curve": DetectionResults.confidence_curve,
    "localization": DetectionResults.localization_errors,
    "curve": lambda results: results.precision_recall_curve(int(results.classes[0])) if len(results.classes) else None,
    "compared": lambda results: compare(results, results, **FEW).to_dict(),
}
COMPARISON: dict[str, Callable] = {"text": str, "dict": Comparison.to_dict, "table": Comparison.model_table}
INDEX: dict[str, Callable] = {
    "text": str,
    "dict": IndexRecall.to_dict,
    "mean": float,
    "interval": lambda results: results.interval(num_resamples=3),
}
QUESTIONS = {RetrievalResults: RETRIEVAL, DetectionResults: DETECTION, Comparison: COMPARISON, IndexRecall: INDEX}


def answers(results: object) -> dict[str, object]:
    """Every answer by its question; of a refusal, a ValueError, its text."""
    return {name: answer_to(ask, results) for name, ask in QUESTIONS[type(results)].items()}


def answer_to(ask: Callable, results: object) -> object:
    try:
        return ask(results)
    except ValueError as error:
        return str(error)
