"""Pictures of plain results; matplotlib and Pillow are imported when something is drawn."""

from reid_torchmetrics.plot.boxes import draw_box_grid, draw_boxes
from reid_torchmetrics.plot.camera_pairs import plot_camera_pairs
from reid_torchmetrics.plot.cmc import plot_cmc
from reid_torchmetrics.plot.comparison import plot_comparison
from reid_torchmetrics.plot.confidence import Matched, plot_confidence
from reid_torchmetrics.plot.confusion import MOST_CLASSES as MOST_CLASSES
from reid_torchmetrics.plot.confusion import plot_confusion_matrix
from reid_torchmetrics.plot.detection_curve import plot_detection_curve
from reid_torchmetrics.plot.detection_curves import Evaluated, plot_precision_recall
from reid_torchmetrics.plot.error_kinds import plot_error_breakdown
from reid_torchmetrics.plot.first_ranks import plot_first_ranks
from reid_torchmetrics.plot.pictures import Pictures, picture_at
from reid_torchmetrics.plot.pictures import check_pictures as check_pictures
from reid_torchmetrics.plot.rank_lists import draw_rank_lists
from reid_torchmetrics.plot.retrieval_curves import plot_retrieval_precision_recall
from reid_torchmetrics.plot.scores import plot_scores
from reid_torchmetrics.plot.verification_curves import plot_det, plot_roc

__all__ = [
    "Evaluated",
    "Matched",
    "Pictures",
    "draw_box_grid",
    "draw_boxes",
    "draw_rank_lists",
    "picture_at",
    "plot_camera_pairs",
    "plot_cmc",
    "plot_comparison",
    "plot_confidence",
    "plot_confusion_matrix",
    "plot_det",
    "plot_detection_curve",
    "plot_error_breakdown",
    "plot_first_ranks",
    "plot_precision_recall",
    "plot_retrieval_precision_recall",
    "plot_roc",
    "plot_scores",
]
