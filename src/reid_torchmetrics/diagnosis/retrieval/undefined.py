"""Results without a number: no query has a positive, or embeddings are not finite."""

from __future__ import annotations

from reid_torchmetrics.diagnosis.causes import Values, values_if
from reid_torchmetrics.functional.displays import counted

from .case import RetrievalCase, cause


@cause(
    message="`search_cameras` must hold cameras of the gallery; got {cameras}, in which no query has a candidate,"
    " so that the results are NaN.",
)
def missing_search_cameras(case: RetrievalCase) -> Values | None:
    """Look for a search in cameras that do not exist.

    No query has a candidate in the `search_cameras`.
    """
    searched = case.protocol.search_cameras
    has_samples = case.counts.total and case.samples.num_gallery
    return values_if(searched and has_samples and not bool(case.ranks.num_candidates.any()), cameras=searched)


@cause(
    message="No query can be evaluated, so the result is {result}: of {sizes}, {reason}.",
    explained_by=("not_finite", "missing_search_cameras", "unlike_labels"),
)
def no_positives(case: RetrievalCase) -> Values | None:
    """Look for queries without a positive.

    No query has a positive in the gallery.
    """
    counts, num_gallery = case.counts, case.samples.num_gallery
    if counts.valid:
        return None
    of_updates = case.samples.has_updates
    if not counts.total and of_updates and num_gallery:
        reason = "none has a positive; pass `is_query=True` for the queries"
    elif not counts.total:
        reason = "none has a positive, as no sample was given"
    elif num_gallery == 0 and of_updates:
        reason = "none has a positive; pass `is_query=False` for the gallery"
    elif num_gallery == 0:
        reason = "none has a positive, as the gallery is empty"
    else:
        reason = (
            f"{counts.not_in_gallery} have no other item {_kin(case)} in the gallery that is searched,"
            f" {counts.same_camera_only} lost every positive to rules of cameras, sequences, clothes or other labels,"
            f" {counts.junk} are junk"
        )
    result = "NaN, or what `empty_target_action` counts" if counts.total else "NaN"
    sizes = counted(counts.total, "query")
    if num_gallery is not None:
        sizes += f" against {counted(num_gallery, 'gallery item')}"
    return {"result": result, "sizes": sizes, "reason": reason}


def _kin(case: RetrievalCase) -> str:
    """Describe the items that are positives of a query unless a rule drops them."""
    if case.samples.has_lists:
        return "of their lists"
    radius = case.protocol.radius
    return "of their identity" if radius is None else f"within {radius:g} of their position"
