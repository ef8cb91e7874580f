"""Pictures of plain results; Matplotlib and Pillow are imported when something is drawn."""

from __future__ import annotations

from .boxes import draw_box_grid, draw_boxes
from .boxes import judged_like as judged_like
from .detection_curves import plot_detection_confidence, plot_detection_curve, plot_detection_precision_recall
from .differences import plot_comparison, plot_error_breakdown
from .figures import COUNTED as COUNTED
from .figures import FIGURES as FIGURES
from .figures import ResultFigure as ResultFigure
from .figures import why_no_errors as why_no_errors
from .figures import why_no_kinds_of_errors as why_no_kinds_of_errors
from .matrices import MOST_CLASSES as MOST_CLASSES
from .matrices import plot_camera_pairs, plot_confusion_matrix
from .pictures import Channels as Channels
from .pictures import Indexed as Indexed
from .pictures import Pictures as Pictures
from .pictures import check_pictures as check_pictures
from .pictures import picture_at as picture_at
from .pictures import without_normalization as without_normalization
from .rank_lists import ListedPicture as ListedPicture
from .rank_lists import captioned_pictures as captioned_pictures
from .rank_lists import draw_rank_lists
from .rank_lists import listed_pictures as listed_pictures
from .retrieval_curves import plot_cmc, plot_first_ranks, plot_retrieval_precision_recall
from .verification_curves import plot_det, plot_roc, plot_scores, plot_tpir

__all__ = [
    "draw_box_grid",
    "draw_boxes",
    "draw_rank_lists",
    "plot_camera_pairs",
    "plot_cmc",
    "plot_comparison",
    "plot_confusion_matrix",
    "plot_det",
    "plot_detection_confidence",
    "plot_detection_curve",
    "plot_detection_precision_recall",
    "plot_error_breakdown",
    "plot_first_ranks",
    "plot_retrieval_precision_recall",
    "plot_roc",
    "plot_scores",
    "plot_tpir",
]
