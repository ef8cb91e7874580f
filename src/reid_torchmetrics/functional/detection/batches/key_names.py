"""Known keys of an image's dicts, and the keys that misspelled ones may stand for.

An optional key that is misspelled would change a number in silence: without `iscrowd`, crowds are plain objects. Users'
dicts also have keys of their own, such as `size` or `file_name`, so only a key that is close to an optional one,
or that the field uses for it, is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from os import PathLike
from typing import Any

import numpy as np
from torch import Tensor

from .image_columns import ImageColumns

SIMILAR_KEYS = 0.87  # ratio of `difflib`: `num_keypoint` is meant as `num_keypoints`, `category_ids` is another key
_SHORT_KEY = 5  # characters; shorter keys are similar by chance

LISTS = ("neg_category_ids", "not_exhaustive_category_ids")
"""keys of the lists of classes of an image: of absent ones, and of partly annotated ones"""
OPTIONAL_KEYS = ("iscrowd", "area", "image_id", "difficult", "num_keypoints", *LISTS)
"""keys that `target` may have"""
KNOWN_KEYS = frozenset(
    ("boxes", "scores", "labels", "masks", "keypoints", "rotated_boxes", "orig_size", *OPTIONAL_KEYS)
)

_OTHER_NAMES = {
    "iscrowd": ("crowd", "isgroup", "isgroupof", "groupof", "crowdflag", "iscrowdflag"),
    "image_id": ("image", "imgid", "img"),
    "num_keypoints": ("nkeypoint", "keypointcount", "numkpt", "nkpt"),
    "difficult": ("isdifficult", "difficultie", "difficultflag"),
    "neg_category_ids": ("negcatid", "negcategory", "negativecategoryid", "negclassid", "neglabel"),
    "not_exhaustive_category_ids": ("notexhaustivecatid", "nonexhaustivecategoryid", "notexhaustiveid"),
    "boxes": ("box", "bbox", "bboxe", "predboxe", "xyxy", "xywh"),
    "scores": ("score", "confidence", "conf", "prob", "probabilitie", "predscore"),
    "labels": ("label", "classlabel", "class", "classe", "cl", "categoryid", "categorie", "predclasse", "predlabel"),
    "masks": ("mask", "segmentation", "segm", "predmask"),
    "keypoints": ("keypoint", "kpt", "predkeypoint"),
    "rotated_boxes": ("rotatedbox", "rotatedbboxe", "rboxe", "rbox", "obb", "polygon", "corner", "xyxyxyxy"),
}
"""names in the field for a key, simplified"""
_IGNORED = ("ignore", "ignored", "isignore", "isignored", "ignoreflag")
"""names of flags of objects that do not count: `iscrowd`, or of Pascal VOC `difficult`"""
_FLAGS = ("iscrowd", "difficult")
_PLAIN_KEYS = ("image_idx", "image_index", "category_ids")
"""close to an optional key, and not meant as one"""
_LEVELS = ("difficulty",)
"""a level of difficulty, unless `difficult` is used"""


def simplified(key: object) -> str:
    """Return a key in lower case without `_`, `-`, spaces and a final s."""
    letters = str(key).lower().replace("_", "").replace("-", "").replace(" ", "")
    return letters.removesuffix("s")


def are_similar(key: str, known_key: str) -> bool:
    """Return whether a key is another spelling of a known one, such as `isCrowd`, `areas` or `num_keypoint`."""
    simple_key = simplified(key)
    simple_known_key = simplified(known_key)
    if simple_key == simple_known_key:
        return True
    if len(key) < _SHORT_KEY:
        return False
    return bool(get_close_matches(simple_key, [simple_known_key], n=1, cutoff=SIMILAR_KEYS))


@lru_cache(maxsize=256)
def meant_key(key: object, known_keys: Sequence[str], *, uses_difficult: bool = False) -> tuple[str, bool] | None:
    """Return the known key that another key may mean, and whether it is misspelled; None for no such key."""
    if not isinstance(key, str) or key in _PLAIN_KEYS or (key in _LEVELS and not uses_difficult):
        return None
    for known_key in known_keys:
        if are_similar(key, known_key):
            return known_key, True
    simple_key = simplified(key)
    for known_key in known_keys:
        if simple_key in _OTHER_NAMES.get(known_key, ()):
            return known_key, False
    if simple_key in _IGNORED and "iscrowd" in known_keys:
        return ("difficult" if uses_difficult else "iscrowd"), False
    return None


def keys_of_dicts(target: Sequence[Mapping[Any, Any]]) -> set[Any]:
    """Return the keys of all dicts; no keys if an item is no dict, because other checks name it."""
    if isinstance(target, ImageColumns):
        return target.keys
    try:
        return set().union(*target)
    except TypeError:
        return set()


def check_optional_keys(
    keys: set[Any], target: Sequence[Mapping[Any, Any]], *, uses_difficult: bool, uses_boxes: bool
) -> None:
    """Raise if a dict has a misspelled key in place of an optional one.

    Args:
        keys: the keys of all dicts.
        target: the dicts of the ground truths; other checks name items that are no dicts.
        uses_difficult: whether the evaluation uses `difficult`.
        uses_boxes: whether the evaluation uses `boxes`, where dicts have them, beside other shapes.

    Raises:
        ValueError: the message names the dict, the key and the key that may be meant.
    """
    known_keys = (*OPTIONAL_KEYS, "boxes") if uses_boxes else OPTIONAL_KEYS
    meant = {}
    for key in keys - KNOWN_KEYS:
        meaning = meant_key(key, known_keys, uses_difficult=uses_difficult)
        if meaning is not None:
            meant[key] = meaning
    if not meant:
        return
    for position, item in enumerate(target):
        if isinstance(item, Mapping):
            _check_keys_of_item(position, item, meant)


def _check_keys_of_item(position: int, item: Mapping[Any, Any], meant: Mapping[Any, tuple[str, bool]]) -> None:
    """Raise for the first key of a dict that is misspelled, or that replaces a key that the dict lacks."""
    for key in item:
        if key not in meant:
            continue
        optional_key, is_misspelled = meant[key]
        # Another word beside the right key is the user's own key, and so is a picture.
        right_keys = _FLAGS if optional_key in _FLAGS else (optional_key,)
        has_right_key = any(right_key in item for right_key in right_keys)
        is_picture = optional_key == "image_id" and not _is_id(item[key])
        is_misspelled = is_misspelled and optional_key != "boxes"
        if is_misspelled or not (has_right_key or is_picture):
            raise ValueError(
                f"`target[{position}]` must have keys that are known; got `{key}`, which may be `{optional_key}`."
            )


def _is_id(value: object) -> bool:
    """Return whether a value may be the number or the name of an image, and is not the image itself."""
    if isinstance(value, (Tensor, np.ndarray)):
        return int(np.prod(value.shape)) == 1
    return isinstance(value, (int, float, str, np.integer, PathLike))
