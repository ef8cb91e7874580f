"""Pictures of plain results; matplotlib and Pillow are imported when something is drawn."""

from reid_torchmetrics.plot.boxes import draw_box_grid, draw_boxes
from reid_torchmetrics.plot.cmc import plot_cmc
from reid_torchmetrics.plot.detection_curves import Evaluated, plot_precision_recall
from reid_torchmetrics.plot.rank_lists import draw_rank_lists

__all__ = ["Evaluated", "draw_box_grid", "draw_boxes", "draw_rank_lists", "plot_cmc", "plot_precision_recall"]
