"""The rules by which a benchmark is evaluated, as one frozen value, and the settings of a ranking and of results.

Each benchmark ships its split into query and gallery; a protocol fixes how the split is evaluated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import Any, Literal, TypedDict, get_args, get_origin, get_type_hints

import numpy as np
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional.retrieval import measures, relevance
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES
from reid_torchmetrics.functional.retrieval.scores import SIMILARITIES, CustomSimilarity, similarity_name


@dataclass(frozen=True)
class GalleryDraw:
    """A rule for drawing galleries: `shots` items from every stratum, uniformly, without replacement, independently.

    A stratum with fewer items gives all of them. With `shots` None everything is drawn, and nothing is random.

    Raises:
        TypeError: `shots` is neither an int nor None.
        ValueError: `shots` is below 1, or an unknown `per`.
    """

    shots: int | None = 1
    per: _names.DrawnPer = "identity"
    """one stratum for each "identity" (CUHK03, VehicleID), or for each "identity_and_camera" (SYSU-MM01)"""

    def __post_init__(self) -> None:
        _checks.cutoff("shots", self.shots)
        _checks.one_of("per", self.per, _names.DrawnPer)

    def num_drawn(self, available: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        """Return the number of items that are drawn from strata with `available` items."""
        if self.shots is None:
            return available
        return available.clamp(max=self.shots)


class RelevanceOptions(TypedDict, total=False):
    """Fields of `Protocol` that decide relevance, and the value of a query without positives."""

    same_camera: _names.CameraRule | None
    camera_map: Mapping[int | str, int | str] | None
    search_cameras: Iterable[int | str] | None
    junk_identities: Iterable[int | str] | None
    missing_identities: _names.MissingLabels | None
    clothes: _names.ClothesRule | None
    radius: float | None
    must_agree: Collection[str] | None
    must_differ: Collection[str] | None
    gallery_draw: GalleryDraw | None
    empty_target_action: _names.EmptyTargetAction | None


class ProtocolOptions(RelevanceOptions, total=False):
    """Fields of `Protocol` that may be changed where it is used."""

    cmc_same_camera: _names.CameraRule | None
    positive_lists: Sequence[str] | None
    junk_lists: Sequence[str] | None
    leave_one_out: bool | None
    rule: _names.ApRule | None
    k: int | None
    normalizer: _names.Normalizer | None
    precision_divisor: _names.PrecisionDivisor | None
    mode: _names.CmcMode | None
    gain: _names.Gain | None
    gallery_draw_for_map: bool | None
    queries_in_draw: bool | None
    reports: Sequence[str] | Sequence[Any] | None


_TYPES = {name: get_args(union)[0] for name, union in get_type_hints(ProtocolOptions).items()}
_WORDS = {name: kind for name, kind in _TYPES.items() if get_origin(kind) is Literal}
"""the fields that are one of some words, with their types"""
_FLAGS = ("needs_groups", "needs_lists", "leave_one_out", "gallery_draw_for_map", "queries_in_draw", "reads_codes")
"""the fields that are True or False"""


@dataclass(frozen=True)
class Protocol:
    """Rules for the evaluation of a benchmark. The defaults are those of today's code bases for Market-1501.

    `dataclasses.replace` changes a field; the `repr` is the expression that makes the value.

    Raises:
        TypeError: a field of the wrong type.
        ValueError: an unknown option, or fields that do not fit each other.
    """

    name: str
    source: str
    """the paper that defines it, and the code that computes it"""
    _: KW_ONLY
    same_camera: _names.CameraRule = "same_identity"
    """gallery items of the query's camera that are dropped, see `find_relevance`"""
    cmc_same_camera: _names.CameraRule | None = None
    """the camera rule of the CMC where it differs from the one of average precision"""
    camera_map: tuple[tuple[int | str, int | str], ...] = ()
    """cameras that the camera rule takes for another one, as pairs; names where cameras are names"""
    search_cameras: tuple[int | str, ...] | None = None
    """cameras of the gallery; None for all"""
    junk_identities: tuple[int | str, ...] = (-1,)
    """identities that are dropped for every query; names where identities are names"""
    missing_identities: _names.MissingLabels = "error"
    """whether samples without an identity, None, NaN or "", are refused or junk"""
    clothes: _names.ClothesRule = "keep"
    """whether gallery items with the query's identity are dropped for the same clothes, or for other ones"""
    radius: float | None = None
    """the largest distance of a positive from the query's position; None where relevance is by identity"""
    must_agree: tuple[str, ...] = ()
    """labels with equal values for a query and its candidates: other gallery items are dropped"""
    must_differ: tuple[str, ...] = ()
    """labels with different values for a query and its candidates: other gallery items are dropped"""
    needs_groups: bool = False
    """whether gallery items come in groups, such as tracks, and each group is ranked by its best member"""
    needs_lists: bool = False
    """whether the benchmark lists positives and junk of each query, as labels do not decide its relevance"""
    positive_lists: tuple[str, ...] = ("ok",)
    """the lists of a query's ground truth that are its positives, where relevance comes as lists; one is enough"""
    junk_lists: tuple[str, ...] = ("junk",)
    """the lists that are dropped for it; a list that is neither is an error"""
    leave_one_out: bool = False
    """whether every query must be in the gallery, as all images of the test set are queries and gallery"""
    rule: _names.ApRule = "rectangle"
    """rule of average precision; see `average_precision`, also for `normalizer`"""
    k: int | None = None
    """cutoff of average precision and of the reciprocal rank"""
    normalizer: _names.Normalizer = "positives"
    precision_divisor: _names.PrecisionDivisor = "k"
    """divisor of precision at k, see `precision_at`"""
    mode: _names.CmcMode = "first_match"
    """rule by which the CMC counts a query as matched, see `cmc_at`"""
    gain: _names.Gain = "linear"
    """the gain of a grade in nDCG, see `normalized_dcg`; a positive without a grade has gain 1"""
    similarity: _names.SimilarityName | None = None
    """similarity of embeddings, unless the caller passes one; None for "cosine" """
    reads_codes: bool = False
    """whether embeddings of integers, bools, or 0 and 1 are binary codes, unless the caller passes a similarity"""
    ties: _names.TieName | None = None
    """the order of equal scores, unless the caller passes one; None for "pessimistic" """
    gallery_draw: GalleryDraw | None = None
    """draw of the gallery; the numbers are expectations over all draws, exact but for rounding"""
    gallery_draw_for_map: bool = True
    """whether average precision and INP are those of drawn galleries, and not of the whole gallery"""
    queries_in_draw: bool = False
    """whether every image takes its turn as the gallery image of its identity (VehicleID)"""
    empty_target_action: _names.EmptyTargetAction = "skip"
    """the value of a query without positives in a mean, see `mean_over_queries`"""
    reports: tuple[str | Any, ...] = ("map", "minp", "rank_1", "rank_5", "rank_10")
    """the numbers to compute: names of `MEASURES`, such as "rank_5", the CMC at rank 5, and measures of your own: a
    `Measure`, a function of ranks or an `EmbeddingMetric`, which become names"""

    def __post_init__(self) -> None:
        # Users may write lists and mappings; values that are hashed and compared are tuples.
        for field in fields(Protocol):
            object.__setattr__(self, field.name, _frozen(getattr(self, field.name)))
        object.__setattr__(self, "reports", _as_field("reports", self.reports))
        # Check each field by itself, then combinations of fields.
        self._check_fields()
        _checks.nonempty("reports", self.reports)
        measures.check_area(self.rule, self.k, self.normalizer)
        self._check_expectations()
        if self.queries_in_draw and self.gallery_draw is None:
            raise ValueError("`queries_in_draw` needs a drawn gallery; got no `gallery_draw`.")
        if self.gallery_draw is not None and self.radius is not None:
            raise ValueError(f"`gallery_draw` needs relevance by identity; got `radius` {self.radius}.")

    def _check_fields(self) -> None:
        """Raise unless each field has a valid value by itself."""
        for name, words in _WORDS.items():
            if name != "cmc_same_camera" or self.cmc_same_camera is not None:
                _checks.one_of(name, getattr(self, name), words)
        if self.similarity is not None:
            _checks.one_of("similarity", self.similarity, SIMILARITIES)
        if self.ties is not None:
            _checks.one_of("ties", self.ties, TIE_POLICIES)
        for name in ("reports", "positive_lists", "junk_lists"):
            _check_names(name, getattr(self, name))
        for name in _FLAGS:
            _checks.boolean(name, getattr(self, name))
        _checks.cutoff("k", self.k)
        if self.search_cameras is not None:
            _checks.integers_or_names("search_cameras", self.search_cameras)
        _checks.instance("gallery_draw", self.gallery_draw, (GalleryDraw,))
        if self.radius is not None:
            _checks.nonnegative("radius", self.radius)
        _check_camera_pairs(self.camera_map)
        _checks.integers_or_names("junk_identities", self.junk_identities)
        rules = {name: getattr(self, name) for name in ("must_agree", "must_differ", "clothes")}
        for same_camera in (self.same_camera, self.cmc_same_camera):
            relevance.check_agreement(rules | {"same_camera": same_camera})

    def _check_expectations(self) -> None:
        """Raise if a reported number is unknown or ambiguous, or has no expectation over the drawn galleries."""
        for name in self.reports:
            measure, k = measures.parse_report(name)
            if isinstance(name, measures.OwnName) and self.reports.count(name) > 1:
                raise ValueError(f"`reports` must hold measures of your own with different names; got {name!r} twice.")
            if self.draws(measure) and not measure.has_expectation(k):
                supported = measures.with_expectation()
                raise ValueError(f"`gallery_draw` has expectations of {supported} only; got {name!r} to report.")
        if self.gallery_draw is None:
            return
        if self.gallery_draw_for_map and (self.rule != "rectangle" or self.k is not None):
            got = f"rule {self.rule!r}" if self.k is None else f"rule {self.rule!r} and k {self.k}"
            raise ValueError(f"`gallery_draw` needs rule 'rectangle' without a cutoff `k`; got {got}.")
        if self.mode != "first_match":
            raise ValueError(f"`gallery_draw` needs mode 'first_match'; got {self.mode!r}.")

    def similarity_or(
        self, similarity: _names.SimilarityName | CustomSimilarity | None
    ) -> _names.SimilarityName | CustomSimilarity:
        """Return the similarity that the caller passed, else that of the protocol, else "cosine"."""
        if similarity is not None:
            return similarity
        return self.similarity or "cosine"

    def ties_or(self, ties: _names.TieName | None) -> _names.TieName:
        """Return the tie policy that the caller passed, else that of the protocol, else "pessimistic"."""
        if ties is not None:
            return ties
        return self.ties or "pessimistic"

    def leaves_ties_open(self, ties: _names.TieName | None) -> bool:
        """Return whether neither the caller nor the protocol chooses a tie policy."""
        return ties is None and self.ties is None

    def draws(self, measure: measures.Measure) -> bool:
        """Return whether a measure is computed for drawn galleries, and not for the whole gallery."""
        return self.gallery_draw is not None and (measure.is_cmc or self.gallery_draw_for_map)

    @property
    def for_cmc(self) -> Protocol:
        """The protocol with the camera rule of the CMC; the same object if the CMC has no rule of its own."""
        if self.cmc_same_camera is None:
            return self
        return replace(self, same_camera=self.cmc_same_camera)

    @cached_property
    def needed_labels(self) -> dict[str, str]:
        """Names of the labels that the rules need, with the reasons."""
        return relevance.why_needed(vars(self))

    @cached_property
    def own_labels(self) -> tuple[str, ...]:
        """Labels of the user's own that must agree or differ, in the order of their columns."""
        return relevance.names_in_rules(vars(self))

    @property
    def relevance_options(self) -> dict[str, Any]:
        """Options of `find_relevance`."""
        options = {name: getattr(self, name) for name in relevance.LABEL_OPTIONS}
        options["camera_map"] = dict(self.camera_map) or None
        return options

    def check_relevance(self, options: Mapping[str, Any], *, lists: bool, lists_argument: str = "ground_truth") -> None:
        """Raise unless relevance can be by lists, or by labels, under the protocol with some options.

        Args:
            options: the fields that the caller changes.
            lists: whether relevance is by lists, and not by labels.
            lists_argument: the caller's argument for lists, for messages.

        Raises:
            ValueError: lists and an option about labels, labels and an option about lists, or labels for a benchmark
                that has lists for each query.
        """
        if lists:
            for name in options:
                if name in ("cmc_same_camera", *relevance.LABEL_OPTIONS):
                    raise ValueError(
                        f"`{name}` must come with labels; got `{lists_argument}`, lists, which it cannot act on."
                    )
            return
        for name in ("positive_lists", "junk_lists"):
            if name in options and _frozen(options[name]) != getattr(self, name):
                raise ValueError(f"`{name}` must come with lists for every query; got labels, which have no lists.")
        if self.needs_lists:
            raise ValueError(f"`protocol` {self.name!r} needs `{lists_argument}`, lists for every query; got labels.")

    def changes(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options, fields, with another value than that of the protocol."""
        values = {name: _as_field(name, value) for name, value in options.items()}
        return {name: value for name, value in values.items() if value != getattr(self, name)}

    def with_options(self, options: Mapping[str, Any]) -> Protocol:
        """Return the protocol with other options; its name lists the changes.

        A `same_camera` holds for the CMC, too, unless it comes with a `cmc_same_camera`.

        Raises:
            ValueError: an option that is not a field.
        """
        for name in options:
            if name not in PROTOCOL_FIELDS:
                raise ValueError(
                    f"`options` must be some of {_checks.listed(PROTOCOL_FIELDS, str, near=name)}; got {name!r}."
                )
        if "same_camera" in options:
            options = {"cmc_same_camera": None, **options}
        # The name lists real changes only; an equal protocol stays itself.
        changes = self.changes(options)
        if changes:
            text = ", ".join(f"{name}={value!r}" for name, value in changes.items())
            joint = ", " if " with " in self.name else " with "
            changes["name"] = f"{self.name}{joint}{text}"
        if "reports" in options:  # two measures of a user may have one name
            changes["reports"] = _as_field("reports", options["reports"])
        return replace(self, **changes) if changes else self

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, JSON-safe."""
        return asdict(self)


_RELEVANCE_FIELDS = (*relevance.LABEL_OPTIONS, "leave_one_out", "positive_lists", "junk_lists")
_DRAW_FIELDS = ("gallery_draw", "queries_in_draw", "gallery_draw_for_map")
_SHORTEST_CURVE = 50  # of an expectation over drawn galleries
_ARGUMENTS = ("similarity", "ties")
"""fields that are arguments of their own where a protocol is used"""
PROTOCOL_FIELDS = tuple(field.name for field in fields(Protocol) if field.name not in _ARGUMENTS)


def _check_names(argument: str, value: object) -> None:
    """Raise unless `value` is a tuple of names."""
    if not isinstance(value, tuple):
        got = f"{value!r}, so write ({value!r},)" if isinstance(value, str) else type(value).__name__
        raise TypeError(f"`{argument}` must be a tuple or list of names; got {got}.")
    for name in value:
        if not isinstance(name, str):
            raise TypeError(f"`{argument}` must hold names only; got {name!r}.")


def _check_camera_pairs(value: object) -> None:
    """Raise unless `value` holds pairs of cameras, as a frozen mapping does."""
    if not isinstance(value, tuple) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
        raise TypeError(f"`camera_map` must be a mapping of ints or names, or a tuple of pairs; got {value!r}.")
    relevance.check_camera_map(dict(value))


def _as_field(name: str, value: Any) -> Any:
    """Return the value of a field as it is compared: frozen, with the names of measures in `reports`."""
    value = _frozen(value)
    if name == "reports" and isinstance(value, tuple):
        return tuple(map(measures.name_of, value))
    return value


def _frozen(value: Any) -> Any:
    """Return mappings as pairs, collections as tuples and NumPy's numbers as Python's, so that they can be hashed."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):  # pairs are sorted, so that equal mappings are equal
        return tuple((key, value[key]) for key in relevance.in_one_order(value))
    if isinstance(value, Collection) and not isinstance(value, (str, bytes, tuple)):
        return tuple(value)
    return value


@dataclass(frozen=True)
class RankingOptions:
    """Settings of a ranking. Metrics with equal settings and the same samples share a ranking."""

    protocol: Protocol
    """with the fields that decide relevance and draws; all others have their defaults"""
    similarity: Any
    ties: str
    rerank: Any = None
    lists: Any = None
    """the positives and junk of each query, where relevance is by lists; see `LIST_READERS`"""
    max_rank: int = 0
    """length of the CMC over drawn galleries"""
    exchanged: bool = False
    """whether gallery items are the queries, and queries the gallery"""

    @classmethod
    def of(cls, protocol: Protocol, *, is_cmc: bool = False, longest: int = 0, **settings: Any) -> RankingOptions:
        """Return the options of a ranking under a protocol, for the CMC or for other measures.

        Args:
            protocol: with all fields.
            is_cmc: whether the camera rule and the drawn galleries are those of the CMC.
            longest: the largest rank of a CMC, besides the reports of the protocol.
            settings: the fields of the options besides `protocol` and `max_rank`.
        """
        ranking_protocol = _ranking_protocol(protocol, is_cmc=is_cmc)
        max_rank = 0
        if ranking_protocol.gallery_draw is not None:
            # Expectations are computed for a long curve, so that metrics at several ranks share it.
            max_rank = max(longest, _SHORTEST_CURVE)
            for measure, k in map(measures.parse_report, protocol.reports):
                if measure.is_cmc:
                    max_rank = max(max_rank, k)
        return cls(protocol=ranking_protocol, max_rank=max_rank, **settings)

    @property
    def needs_all_samples(self) -> bool:
        """True if a ranking cannot be put together from rankings of parts of the gallery."""
        return self.rerank is not None or self.protocol.gallery_draw is not None

    def describe(self) -> dict[str, str]:
        """Return texts of all settings, the same on every process."""
        values = {name: getattr(self.protocol, name) for name in (*_RELEVANCE_FIELDS, *_DRAW_FIELDS)}
        for field in fields(self):
            if field.name != "protocol":
                values[field.name] = getattr(self, field.name)
        # The `repr` of a function has its address, which differs between processes.
        values["similarity"] = similarity_name(self.similarity)
        return {name: repr(value) for name, value in values.items()}


@dataclass(frozen=True)
class Setup:
    """Similarity, tie policy, re-ranking and the kinds of labels, JSON-safe."""

    ties: str
    similarity: str
    """its name, the name of a function, or "given scores" """
    rerank: str | None = None
    cameras: bool = False
    """whether cameras were given; without, no camera rule drops anything"""
    lists: bool = False
    """whether relevance came as lists and not as labels"""
    sequences: bool = False
    junk_pairs: bool = False
    multi_query: bool = False
    cut: bool = False
    """whether a list may lack positives, as lists were given or a detector made them"""
    groups: bool = False
    """whether groups of gallery items were ranked"""
    exchanged: bool = False
    """whether gallery items were the queries, and queries the gallery"""
    several_labels: bool = False
    """whether samples had several labels, and a positive shares at least one of them"""

    @classmethod
    def of(cls, ties: str, similarity: Any, rerank: Any, label_names: Collection[str]) -> Setup:
        """Return the setup for a similarity, a re-ranking and the names of the labels that the evaluation was given."""
        return cls(
            ties=ties,
            similarity=similarity_name(similarity),
            rerank=None if rerank is None else repr(rerank),
            cameras="cameras" in label_names,
            sequences="sequences" in label_names,
            groups="groups" in label_names,
            several_labels="several_labels" in label_names,
        )

    def __str__(self) -> str:
        """Describe the setup in words; options that were not used are left out."""
        words = [f"similarity: {self.similarity}", f"ties: {self.ties}"]
        if self.rerank:
            words.append(f"re-ranked by {self.rerank}")
        if self.multi_query:
            words.append("queries pooled by identity and camera")
        if self.sequences:
            words.append("items of the query's sequence dropped")
        if self.groups:
            words.append("groups ranked by their best member")
        if self.exchanged:
            words.append("queries and gallery exchanged")
        if self.junk_pairs:
            words.append("pairs dropped by `junk_pairs`")
        return "; ".join(words)


@lru_cache(maxsize=64)  # a metric asks at every step, and checking a protocol takes a tenth of a millisecond
def _ranking_protocol(protocol: Protocol, *, is_cmc: bool) -> Protocol:
    """Return a protocol with only the fields that decide a ranking, those of drawn galleries only if it is drawn.

    All other fields keep their defaults, so that protocols that rank alike are equal.
    """
    protocol = protocol.for_cmc if is_cmc else protocol
    names = list(_RELEVANCE_FIELDS)
    if protocol.gallery_draw is not None and (is_cmc or protocol.gallery_draw_for_map):
        names += _DRAW_FIELDS
    fields_of_ranking = {name: getattr(protocol, name) for name in names}
    for name in ("junk_identities", *relevance.AGREEMENT_RULES):
        fields_of_ranking[name] = relevance.in_one_order(fields_of_ranking[name])
    return Protocol(name="", source="", **fields_of_ranking)
