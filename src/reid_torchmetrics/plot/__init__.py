"""Pictures of plain results; matplotlib and Pillow are imported when something is drawn."""

from .boxes import draw_box_grid, draw_boxes
from .camera_pairs import plot_camera_pairs
from .comparison import plot_comparison
from .confusion import MOST_CLASSES as MOST_CLASSES
from .confusion import plot_confusion_matrix, plot_error_breakdown
from .detection_curves import plot_confidence, plot_detection_curve, plot_precision_recall
from .figures import COUNTED as COUNTED
from .figures import FIGURES as FIGURES
from .figures import ResultFigure as ResultFigure
from .pictures import Pictures as Pictures
from .pictures import check_pictures as check_pictures
from .pictures import picture_at as picture_at
from .rank_lists import draw_rank_lists
from .retrieval_curves import plot_cmc, plot_first_ranks, plot_retrieval_precision_recall
from .verification_curves import plot_det, plot_roc, plot_scores

__all__ = [
    "draw_box_grid",
    "draw_boxes",
    "draw_rank_lists",
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
