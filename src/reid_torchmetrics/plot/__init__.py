"""Pictures of plain results; matplotlib is imported when something is drawn."""

from reid_torchmetrics.plot.cmc import plot_cmc
from reid_torchmetrics.plot.comparison import plot_comparison
from reid_torchmetrics.plot.detection_curves import Evaluated, plot_precision_recall

__all__ = ["Evaluated", "plot_cmc", "plot_comparison", "plot_precision_recall"]
