"""Pictures of plain results; matplotlib and Pillow are imported when something is drawn."""

from reid_torchmetrics.plot.cmc import plot_cmc
from reid_torchmetrics.plot.detection_curves import Evaluated, plot_precision_recall
from reid_torchmetrics.plot.pictures import Pictures, picture_at
from reid_torchmetrics.plot.rank_lists import draw_rank_lists

__all__ = ["Evaluated", "Pictures", "draw_rank_lists", "picture_at", "plot_cmc", "plot_precision_recall"]
