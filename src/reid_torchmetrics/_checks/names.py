"""Checks of names: those that a user may misspell, where the message names the likely one, and names of labels."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches

_SAID_ELSEWHERE = {
    **dict.fromkeys(("metric", "dist_metric", "distance", "distance_metric", "dist"), ("similarity",)),
    **dict.fromkeys(("topk", "top_k", "k", "max_rank", "rank"), ("top_k", "max_rank", "ranks", "k")),
    "ranks": ("top_k", "max_rank", "reports"),
    "q_pids": ("query_identities",),
    "g_pids": ("gallery_identities",),
    "q_camids": ("query_cameras",),
    "g_camids": ("gallery_cameras",),
}
"""what other libraries call an argument, and what may stand for it here, the likeliest first"""


def known_arguments(owner: str, given: Collection[str], names: Collection[str], fields: Collection[str] = ()) -> None:
    """Raise if a keyword argument is not one of `names`; `fields` are those of a protocol, which is an argument.

    It is TorchMetrics' error, and begins with its words.
    """
    unknown = [name for name in given if name not in names]
    if not unknown:
        return
    said = [other for other in _SAID_ELSEWHERE.get(unknown[0], ()) if other in names]
    likely = said or get_close_matches(unknown[0], names, n=1)
    hint = f", which may be `{likely[0]}`" if likely else ""
    if unknown[0] in fields and not said:
        hint = ", which is a field of `Protocol`"
    listed = ", ".join(names)
    raise ValueError(f"Unexpected keyword arguments: `{unknown[0]}`{hint}; `{owner}` takes {listed}.") from None


def names_of_labels(argument: str, names: object) -> None:
    """Raise unless it is a mapping to strings, or None."""
    if names is None:
        return
    if not isinstance(names, Mapping):
        raise TypeError(f"`{argument}` must be a mapping of labels to names; got {type(names).__name__}.")
    for label, name in names.items():
        if not isinstance(name, str):
            raise TypeError(f"`{argument}` must have strings as names; got {label!r}: {name!r}.")
