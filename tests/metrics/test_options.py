"""An option is declared once, in the signature of its class: the `repr` and collections follow it.

The values of options are those of `test_shared_results.py`, and of `OTHER_VALUES` for options that decide no value.
"""

import inspect
from typing import Any, get_type_hints

import pytest
from torchmetrics import Metric, MetricCollection

from reid_torchmetrics import DetectionMAP, DetectionMetrics, EmbeddingMetric, ReIDMeanAP, ReIDMetrics, ReIDMINP
from reid_torchmetrics.functional.retrieval.evaluation import PROTOCOL_FIELDS
from reid_torchmetrics.metrics.base import MetricOptions
from reid_torchmetrics.metrics.detection.detection_map import DetectionOptions
from reid_torchmetrics.metrics.reid import ReIDOptions
from reid_torchmetrics.metrics.reid.reid import CollectionOptions
from tests.metrics.test_shared_results import NEEDED, NEUTRAL, OPTIONS, RANKED
from tests.profiles import each_row

OTHER_VALUES: dict[str, list[Any]] = {
    "backend": ["faster_coco_eval"],
    "class_names": [{1: "dog"}],
    "invalid": ["drop"],
    "keep_shapes": [True],
    "max_bytes": [1 << 20],
    "packed": [True],
    "postfix": ["/val"],
    "prefix": ["val/"],
}
"""other values of the options in `NEUTRAL`"""
NOT_SHOWN = {
    "frequencies": "there are a thousand of them",
    **dict.fromkeys(("prefix", "postfix", "ranks", "values", "classes", "class_values"), "of the names of members"),
    **dict.fromkeys(("directions",), "of the names of members"),
}
"""options that no `repr` has, with the reason"""
CLASSES = {kind.__name__: kind for kind in OPTIONS if kind is not EmbeddingMetric}


def values_of(kind: type) -> dict[str, list[Any]]:
    """Other values than the default of each option of a class, by name."""
    shared = RANKED if issubclass(kind, (EmbeddingMetric, ReIDMetrics)) else {}
    of_members = OPTIONS[DetectionMAP] if kind is DetectionMetrics else {}
    of_members = {name: values for name, values in of_members.items() if name not in ("metric", "confidence")}
    known = {**shared, **of_members, **OTHER_VALUES, **OPTIONS[kind]}
    names = inspect.signature(kind).parameters
    return {name: values for name, values in known.items() if name in names}


def needed_by(kind: type, option: str) -> dict[str, Any]:
    """The arguments that an option comes with."""
    needed = NEEDED.get(kind, {})
    if kind is DetectionMetrics and option not in needed:
        needed = {**NEEDED[DetectionMAP], None: needed[None]}
    of_option = {"packed": {"similarity": "hamming"}}.get(option, {})
    return {**needed.get(None, {}), **needed.get(option, {}), **of_option}


def arguments_of(kind: type) -> set[str]:
    """The names of the arguments of a class, without those of all metrics."""
    return inspect.signature(kind).parameters.keys() - get_type_hints(MetricOptions).keys()


def member_of(metric: Metric | MetricCollection) -> Metric:
    """A metric itself, or the first member of a collection."""
    if isinstance(metric, MetricCollection):
        metric, *_ = metric.values()
    return metric


def check_options(kind: type) -> None:
    """Raise an AssertionError unless every option of a class has another value, and shows it."""
    values = values_of(kind)
    if kind not in (ReIDMetrics, DetectionMetrics) and issubclass(kind, EmbeddingMetric):
        values = {name: values[name] for name in values if name not in PROTOCOL_FIELDS or name in OPTIONS[kind]}
    protocols = {*PROTOCOL_FIELDS} if issubclass(kind, (EmbeddingMetric, ReIDMetrics)) else set()
    missing = arguments_of(kind) - values.keys() - protocols
    assert not missing, (
        f"options of {kind.__name__} without another value: add {sorted(missing)} to the table of"
        " tests/metrics/test_shared_results.py, or if they decide no value to `NEUTRAL` there and to `OTHER_VALUES` in"
        " tests/metrics/test_options.py"
    )
    for option in values.keys() - NOT_SHOWN.keys():
        for value in values[option]:
            check_repr(kind, option, value)


def check_repr(kind: type, option: str, value: Any) -> None:
    """Raise an AssertionError unless the `repr` of a metric, or of a member, shows an option that was chosen."""
    needed = needed_by(kind, option)
    usual, other = repr(member_of(kind(**needed))), repr(member_of(kind(**needed | {option: value})))
    is_of_protocol = option in PROTOCOL_FIELDS and f"{option}=" not in usual
    words = "protocol=" if is_of_protocol else f"{option}="
    assert words in other, f"the `repr` of {kind.__name__} lacks `{option}`: keep it as an attribute of its name"
    assert other != usual, f"the `repr` of {kind.__name__} is {other} with and without {option}={value!r}"


@each_row("name", CLASSES)
def test_every_option_is_shown_by_its_class_and_taken_by_its_collection(name):
    check_options(CLASSES[name])


def test_every_neutral_option_has_another_value_here():
    assert OTHER_VALUES.keys() == NEUTRAL.keys()


TYPED: dict[str, tuple[type, tuple[type, ...]]] = {
    "CollectionOptions": (CollectionOptions, (ReIDMetrics,)),
    "ReIDOptions": (ReIDOptions, (ReIDMeanAP, ReIDMINP)),
    "DetectionOptions": (DetectionOptions, (DetectionMetrics,)),
}
"""for each record of options its type, and the classes whose common options it has"""
OF_COLLECTIONS = {"ranks", "prefix", "postfix", "directions", "values", "classes", "class_values", "confidence"}


@each_row("name", TYPED)
def test_type_checkers_are_told_the_options_that_the_signature_has(name):
    typed, classes = TYPED[name]
    in_signatures = set.intersection(*(set(inspect.signature(kind).parameters) for kind in classes))
    different = (in_signatures - OF_COLLECTIONS) ^ get_type_hints(typed).keys()
    names = " and ".join(kind.__name__ for kind in classes)
    assert not different, f"`{name}` and the signature of {names} differ in {sorted(different)}: add them to either"


def test_a_collection_has_the_signature_of_its_members():
    together = inspect.signature(DetectionMetrics).parameters
    for name, alone in inspect.signature(DetectionMAP).parameters.items():
        if name not in ("metric", "confidence"):
            assert (alone.annotation, alone.default) == (together[name].annotation, together[name].default)


def test_an_option_that_is_not_kept_is_told_so(monkeypatch):
    monkeypatch.setattr(DetectionMAP, "extra_repr", lambda self: f"average={self.average!r}")
    with pytest.raises(AssertionError, match=r"the `repr` of DetectionMAP (lacks|is) "):
        check_options(DetectionMAP)


def test_an_option_without_another_value_is_told_what_to_add(monkeypatch):
    monkeypatch.delitem(OPTIONS[DetectionMAP], "average")
    with pytest.raises(AssertionError, match=r"options of DetectionMAP without another value: add .*'average'"):
        check_options(DetectionMAP)
