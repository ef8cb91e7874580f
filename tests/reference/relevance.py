"""Who is positive, negative or junk under every rule, pair by pair, from the definitions."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.reference.retrieval import Candidates


def sort_gallery(
    query: Mapping[str, Any],
    gallery: Sequence[Mapping[str, Any]],
    *,
    same_camera: str = "same_identity",
    camera_map: Mapping[int, int] | None = None,
    search_cameras: Sequence[int] | None = None,
    junk_identities: Sequence[int] = (-1,),
    clothes: str = "keep",
    radius: float | None = None,
    must_agree: Sequence[str] = (),
    must_differ: Sequence[str] = (),
    is_junk_pair: Callable[[int], bool] = lambda _: False,
) -> Candidates:
    """Sort the gallery of one query; samples are mappings with an identity and maybe other labels.

    Args:
        query: The query; `position` is its own place in the gallery, if it has one.
        gallery: The gallery.
        same_camera: `"same_identity"`, `"all"`, `"only"` or `"keep"`.
        camera_map: Cameras that count as another one for `same_camera`.
        search_cameras: The cameras that are searched, None for all.
        junk_identities: Identities that are junk to every query.
        clothes: `"drop_same"`, `"drop_other"` or `"keep"`.
        radius: The largest distance between the coordinates of a query and of a positive, None for its identity.
        must_agree: The keys of samples in which an item must agree with the query.
        must_differ: The keys of samples in which an item must differ from the query.
        is_junk_pair: Whether a gallery position is junk to this query for another reason.
    """
    places = camera_map or {}
    found = Candidates([], [], [])
    for position, item in enumerate(gallery):
        is_kin = _is_kin(query, item, radius)
        same_place = "camera" in query and _mapped(item["camera"], places) == _mapped(query["camera"], places)
        if "camera" in query:
            of_query = dict(query) | {"camera": _mapped(query["camera"], places)}
            of_item = dict(item) | {"camera": _mapped(item["camera"], places)}
        else:
            of_query, of_item = dict(query), dict(item)
        same_clothes = "clothes" in query and item["clothes"] == query["clothes"]
        reasons = [
            "identity" in query and item["identity"] in junk_identities,
            position == query.get("position"),
            same_place and {"same_identity": is_kin, "all": True, "only": False, "keep": False}[same_camera],
            "camera" in query and not same_place and same_camera == "only",
            is_kin and {"drop_same": same_clothes, "drop_other": not same_clothes, "keep": False}[clothes],
            search_cameras is not None and item["camera"] not in search_cameras,
            "sequence" in query and item["sequence"] == query["sequence"],
            any(of_item[key] != of_query[key] for key in must_agree),
            any(of_item[key] == of_query[key] for key in must_differ),
            is_junk_pair(position),
        ]
        group = found.junk if any(reasons) else found.positive if is_kin else found.negative
        group.append(position)
    return found


def _is_kin(query: Mapping[str, Any], item: Mapping[str, Any], radius: float | None) -> bool:
    if radius is None:
        return item["identity"] == query["identity"]
    return math.dist(item["coordinates"], query["coordinates"]) <= radius


def _mapped(camera: int, places: Mapping[int, int]) -> int:
    return places.get(camera, camera)
