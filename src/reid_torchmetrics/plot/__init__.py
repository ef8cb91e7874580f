"""Pictures of plain results; Matplotlib and Pillow are imported when something is drawn."""
# mypy: implicit-reexport

from reid_torchmetrics import _signatures

from .axes import COLUMN_SIZE, new_axes
from .boxes import draw_box_grid, draw_boxes, judged_like
from .detection_curves import plot_detection_confidence, plot_detection_curve, plot_detection_precision_recall
from .differences import last_p_value, plot_comparison, plot_error_breakdown, size_for_differences
from .figures import COUNTED, FIGURES, ResultFigure, why_no_errors, why_no_kinds_of_errors
from .glyphs import one_warning_of_glyphs
from .matrices import MOST_CLASSES, plot_camera_pairs, plot_confusion_matrix
from .pictures import Channels, Indexed, Pictures, check_pictures, picture_at, without_normalization
from .rank_lists import (
    ListedPicture,
    captioned_pictures,
    draw_duplicates,
    draw_rank_lists,
    hardest_queries,
    listed_pictures,
)
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


def __dir__() -> list[str]:  # without what other tools take
    return __all__


_signatures.tell_hints(globals())
