"""The classes of pycocotools, by the names and arguments of pycocotools, on the evaluator of this package.

    from reid_torchmetrics.coco import COCO, COCOeval

`install` puts them in the place of pycocotools for code that imports it.
"""

from .data_set import COCO
from .evaluation import COCOeval, Params
from .in_place import install, uninstall

__all__ = ["COCO", "COCOeval", "Params", "install", "uninstall"]
