"""The rules of a counter in one spelling, so that equal rules have one digest."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from reid_torchmetrics.functional.retrieval.relevance import (
    AGREEMENT_RULES,
    LABEL_OPTIONS,
    find_relevance,
    in_one_order,
)


def in_one_spelling(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return checked rules of `find_relevance` in a form that is equal for equal rules.

    Defaults are filled in, collections are sorted, and each label occurs once.
    """
    parameters = inspect.signature(find_relevance).parameters
    rules = {name: rules.get(name, parameters[name].default) for name in LABEL_OPTIONS}
    mapping = rules["camera_map"] or {}
    changed = {camera: mapping[camera] for camera in in_one_order(mapping) if camera != mapping[camera]}
    rules["camera_map"] = changed or None
    if rules["search_cameras"] is not None:
        rules["search_cameras"] = in_one_order(rules["search_cameras"])
    if rules["radius"] is not None:
        rules["radius"] = float(rules["radius"])
    for name in ("junk_identities", *AGREEMENT_RULES):
        rules[name] = in_one_order(rules[name])
    return rules
