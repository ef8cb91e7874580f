"""Who is positive, negative or junk under every rule, pair by pair, from the definitions."""

from collections.abc import Callable, Mapping, Sequence

from tests.reference.retrieval import Candidates


def sort_gallery(
    query: Mapping[str, int],
    gallery: Sequence[Mapping[str, int]],
    *,
    same_camera: str = "same_identity",
    camera_map: Mapping[int, int] | None = None,
    search_cameras: Sequence[int] | None = None,
    junk_identities: Sequence[int] = (-1,),
    is_junk_pair: Callable[[int], bool] = lambda _: False,
) -> Candidates:
    """Sort the gallery of one query; samples are mappings with an identity and maybe a camera and a sequence.

    Args:
        query: The query; `position` is its own place in the gallery, if it has one.
        gallery: The gallery.
        same_camera: `"same_identity"`, `"all"` or `"keep"`.
        camera_map: Cameras that count as another one for `same_camera`.
        search_cameras: The cameras that are searched, None for all.
        junk_identities: Identities that are junk to every query.
        is_junk_pair: Whether a gallery position is junk to this query for another reason.
    """
    places = camera_map or {}
    found = Candidates([], [], [])
    for position, item in enumerate(gallery):
        same_identity = item["identity"] == query["identity"]
        same_place = "camera" in query and _mapped(item["camera"], places) == _mapped(query["camera"], places)
        reasons = [
            item["identity"] in junk_identities,
            position == query.get("position"),
            same_place and {"same_identity": same_identity, "all": True, "keep": False}[same_camera],
            search_cameras is not None and item["camera"] not in search_cameras,
            "sequence" in query and item["sequence"] == query["sequence"],
            is_junk_pair(position),
        ]
        group = found.junk if any(reasons) else found.positive if same_identity else found.negative
        group.append(position)
    return found


def _mapped(camera: int, places: Mapping[int, int]) -> int:
    return places.get(camera, camera)
