"""The classes of pycocotools, with its names and arguments, based on the evaluator of this package.

    from reid_torchmetrics.coco import COCO, COCOeval

`install` replaces pycocotools by them for code that imports it.
"""

from reid_torchmetrics import _collector

with _collector.importing_torch():
    from reid_torchmetrics import _signatures

    from .data_set import COCO
    from .evaluation import COCOeval, Params
    from .in_place import install, uninstall

__all__ = ["COCO", "COCOeval", "Params", "install", "uninstall"]

_signatures.tell_hints(globals())
