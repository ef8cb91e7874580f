"""Known keys of an image's dicts, and the keys that misspelled ones may stand for.

An optional key that is misspelled would change a number in silence: without `iscrowd`, crowds are plain objects. Users'
dicts also have keys of their own, such as `size` or `file_name`, so only a key that is close to an optional one,
or that the field uses for it, is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from os import PathLike
from typing import Any

import numpy as np
from torch import Tensor

SIMILAR_KEYS = 0.87  # ratio of `difflib`: `num_keypoint` is meant as `num_keypoints`, `category_ids` is another key
_SHORT_KEY = 5  # characters; shorter keys are similar by chance

LISTS = ("neg_category_ids", "not_exhaustive_category_ids")
"""keys of the lists of classes of an image: of absent ones, and of partly annotated ones"""
OPTIONAL_KEYS = ("iscrowd", "area", "image_id", "difficult", "num_keypoints", *LISTS)
"""keys that `target` may have"""
KNOWN_KEYS = frozenset(
    ("boxes", "scores", "labels", "masks", "keypoints", "rotated_boxes", "orig_size", *OPTIONAL_KEYS)
)
ALWAYS_USED_KEYS = KNOWN_KEYS.difference(("difficult", "orig_size", *LISTS))
"""known keys, but for the ones that only Pascal VOC's or LVIS' evaluation uses, or only advice"""

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


def are_similar(key: str, wanted: str) -> bool:
    """Whether a key is another spelling of a wanted one, such as `isCrowd`, `areas` or `num_keypoint`."""
    simple_key = simplified(key)
    simple_wanted = simplified(wanted)
    if simple_key == simple_wanted:
        return True
    if len(key) < _SHORT_KEY:
        return False
    return bool(get_close_matches(simple_key, [simple_wanted], n=1, cutoff=SIMILAR_KEYS))


@lru_cache(maxsize=256)
def meant_key(key: object, *, uses_difficult: bool) -> tuple[str, bool] | None:
    """Return the optional key that an unknown key may stand for, and whether by its spelling; None for no such key."""
    if not isinstance(key, str) or key in _PLAIN_KEYS or (key in _LEVELS and not uses_difficult):
        return None
    for wanted in OPTIONAL_KEYS:
        if are_similar(key, wanted):
            return wanted, True
    simple_key = simplified(key)
    for wanted in OPTIONAL_KEYS:
        if simple_key in _OTHER_NAMES.get(wanted, ()):
            return wanted, False
    if simple_key in _IGNORED:
        return ("difficult" if uses_difficult else "iscrowd"), False
    return None


def meant_required_key(wanted: str, keys: Iterable[object]) -> str | None:
    """Return the key that stands in the place of a missing one; None if there is none."""
    for key in keys:
        if not isinstance(key, str) or key in KNOWN_KEYS:
            continue
        if are_similar(key, wanted) or simplified(key) in _OTHER_NAMES.get(wanted, ()):
            return key
    return None


def keys_of_dicts(target: Sequence[Mapping[Any, Any]]) -> set[Any]:
    """Return the keys of all dicts; none if an item is no dict, as other checks name it."""
    try:
        return set().union(*target)
    except TypeError:
        return set()


def check_optional_keys(
    keys: set[Any], target: Sequence[Mapping[Any, Any]], *, uses_difficult: bool, uses_boxes: bool
) -> None:
    """Raise if a dict has a misspelled key in the place of an optional one.

    Args:
        keys: of all dicts.
        target: the dicts of the ground truths; what is no dict is left to other checks.
        uses_difficult: whether the evaluation uses `difficult`.
        uses_boxes: whether the evaluation uses `boxes` if they are given, beside other shapes.

    Raises:
        ValueError: the message names the dict, the key and what it may stand for.
    """
    unknown_keys = keys - KNOWN_KEYS
    doubtful_keys = {key for key in unknown_keys if meant_key(key, uses_difficult=uses_difficult) is not None}
    if uses_boxes:
        doubtful_keys |= {key for key in unknown_keys if meant_required_key("boxes", [key]) is not None}
    if doubtful_keys:
        for position, item in enumerate(target):
            if isinstance(item, Mapping):
                _check_keys_of_item(position, item, doubtful_keys, uses_difficult=uses_difficult)


def _check_keys_of_item(
    position: int, item: Mapping[Any, Any], doubtful_keys: set[Any], *, uses_difficult: bool
) -> None:
    for key in item:
        if key not in doubtful_keys:
            continue
        wanted, is_misspelled = meant_key(key, uses_difficult=uses_difficult) or ("boxes", False)
        # Another word beside the right key is a key of the user's own, as is a picture.
        right_keys = _FLAGS if wanted in _FLAGS else (wanted,)
        is_picture = wanted == "image_id" and not _is_id(item[key])
        if not is_misspelled and (is_picture or any(right_key in item for right_key in right_keys)):
            continue
        raise ValueError(f"`target[{position}]` must have keys that are known; got `{key}`, which may be `{wanted}`.")


def _is_id(value: object) -> bool:
    """Whether a value may be the number or the name of an image, and is not the image itself."""
    if isinstance(value, (Tensor, np.ndarray)):
        return int(np.prod(value.shape)) == 1
    return isinstance(value, (int, float, str, np.integer, PathLike))
