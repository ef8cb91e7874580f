"""Relevance: the positives, negatives and junk of each query."""
# mypy: implicit-reexport

from .extra_labels import AGREEMENT_RULES, EXTRA, argument_of, as_arguments, check_agreement, names_in_rules
from .from_labels import (
    LABEL_OPTIONS,
    POSITIVES_BY_OPTION,
    SAME_CAMERA_RULES,
    check_camera_map,
    check_sides,
    find_relevance,
    relevance_of,
)
from .label_names import NAMED_LABELS, NumberedLabels, fits_names, hash_names, lists_names, may_hold_names, number_names
from .labels import (
    LABEL_RULES,
    LABELS,
    NO_GROUP,
    OPTION_OF_LABEL,
    RELEVANCE_LABELS,
    SIDES,
    BatchLabels,
    ExtraLabels,
    Integers,
    IntegersOrNames,
    LabelValues,
    SideLabels,
    StreamLabels,
    check_needed,
    needed_by_options,
    num_labels_of,
    one_number_each,
    pack_columns,
    relevance_labels,
    select_samples,
    unpack_columns,
    why_needed,
    width_of,
    with_default_rules,
)
from .relevance import (
    GivenJunkPairs,
    JunkPairs,
    QueryCounts,
    Relevance,
    TileRelevance,
    check_listed_once,
    find_listed_relevance,
    junk_pairs_of,
)
from .several_labels import SEVERAL_LABELS, check_alike
from .vocabulary import MISSING, RULES_BY_LABEL, Vocabulary, in_one_order, labels_with_names, number_of_name
