"""`lists`: ranked lists in files, by `evaluate_lists`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from reid_torchmetrics.data import read_ground_truth, read_retrieved
from reid_torchmetrics.functional.retrieval import Protocol, evaluate
from reid_torchmetrics.functional.retrieval.evaluation import take_protocol
from reid_torchmetrics.functional.retrieval.relevance import SIDES, names_in_rules
from reid_torchmetrics.functional.world import ALONE
from reid_torchmetrics.tasks import IndexRecall, compare, evaluate_lists, index_recall
from reid_torchmetrics.tasks.lists import protocol_of_lists

from .evaluate import naming_bad_rows
from .label_tables import TABLES, LabelRules, add_labels_of_file_names, label_files
from .outputs import Outputs
from .sample_reading import log_guesses, options_for, read_label_files, read_sample_sets
from .sample_sets import Columns, SampleSets, as_arguments, open_embeddings
from .values import named_values


def run(arguments: SimpleNamespace, options: dict[str, Any]) -> int:
    """Evaluate ranked lists; return the exit status."""
    protocol, *_ = take_protocol(
        protocol_of_lists(options.get("protocol"), {}),
        options,
        lists=bool(arguments.positives),
        lists_argument="positives",
    )
    extra_labels = names_in_rules(protocol.relevance_options)
    one_based = bool(arguments.one_based)
    if arguments.exact:
        retrieved = read_retrieved(arguments.retrieved, form=arguments.form, one_based=one_based)
        return _compare_with_exact(retrieved, arguments, options, protocol, extra_labels)

    words = label_files(arguments.labels, extra_labels)
    rules = LabelRules(
        names=named_values("--names", arguments.names),
        missing_identities=options.get("missing_identities") or "error",
        extra_labels=extra_labels,
        file_names=arguments.file_names,
    )
    if not words:
        _check_used(rules, used_names=set())
        add_labels_of_file_names({}, rules, [])
    outputs = Outputs(arguments)
    retrieved = read_retrieved(arguments.retrieved, form=arguments.form, one_based=one_based)
    if words:
        labels = _read_labels(words, rules, retrieved)
        return outputs.write({"": evaluate_lists(retrieved, **labels, **options_for(labels, options))})

    try:
        positives = read_ground_truth(arguments.positives, form=arguments.ground_truth_form, one_based=one_based)
    except ValueError as error:  # `--form` is the form of the lists
        raise ValueError(str(error).replace("`form=", "`ground_truth_form=")) from None
    numbers = list(map(str, range(len(positives))))
    if isinstance(positives, dict) and not isinstance(retrieved, dict) and list(positives) == numbers:
        positives = list(positives.values())  # JSON has no integers as keys
    is_one_list = isinstance(retrieved, list) and not any(isinstance(items, list) for items in retrieved)
    if is_one_list and Path(arguments.retrieved).suffix == ".txt":
        # The names of the items that one query has retrieved, in a file with the name of the query.
        query = Path(arguments.retrieved).stem
        if query not in positives:
            rule = f"must be named like a query of {arguments.positives}"
            raise ValueError(f"{arguments.retrieved}: {rule}; got {query!r}.")
        retrieved = {query: retrieved}
        positives = {query: positives[query]}
    return outputs.write({"": evaluate_lists(retrieved, positives, **options)})


def _compare_with_exact(
    retrieved: Any,
    arguments: SimpleNamespace,
    options: dict[str, Any],
    protocol: Protocol,
    extra_labels: Sequence[str],
) -> int:
    """Evaluate lists of an index and exact search, and write the recall of the lists and the comparison of both."""
    sample_sets = _read_exact(arguments, protocol, extra_labels)
    outputs = Outputs(arguments)

    needs_names = _needs_names(retrieved)
    labels: dict[str, Any] = {}
    for role, sample_set in sample_sets.items():
        path = sample_set.files[0].path
        labels |= _labels_by_row(dict(sample_set.columns), path, role, needs_names=needs_names[role])

    if not labels:
        got = "none in the files of `--exact`"
        raise ValueError(f"labels such as identities must be in these files, or be given by `--labels`; got {got}.")
    options = options_for(labels, options)
    protocol, *_ = take_protocol(protocol_of_lists(options.get("protocol"), labels), options, lists=False)
    sample_sets.check_names(protocol.relevance_options)
    lists = evaluate_lists(retrieved, **labels, **options)
    with naming_bad_rows(sample_sets.files):  # the embeddings stay in mapped files
        exact = evaluate(
            sample_sets.query.with_labels(),
            sample_sets["gallery"].with_labels(),
            protocol=protocol,
            similarity=arguments.similarity,
            packed=bool(arguments.packed),
            ties="stable",  # a list has one order, which does not depend on labels
        )
    exact = replace(exact, query_names=lists.query_names)
    recall = _find_recall(retrieved, sample_sets, protocol, arguments, has_names=needs_names["gallery"])
    name = Path(arguments.retrieved).stem
    comparison = compare({"exact": exact, name if name != "exact" else arguments.retrieved: lists})
    return outputs.write({"": comparison}, reported=lists, comparison=comparison, recall=recall)


def _needs_names(retrieved: Any) -> dict[str, bool]:
    """Return whether lists name the queries, as their keys, and whether they name the gallery items, by role."""
    has_keys = isinstance(retrieved, Mapping)
    lists = list(retrieved.values()) if has_keys else retrieved
    has_names = isinstance(lists, list) and any(isinstance(item, str) for item in chain.from_iterable(lists))
    return {"query": has_keys, "gallery": has_names}


def _read_labels(words: Mapping[str, Sequence[str]], rules: LabelRules, retrieved: Any) -> dict[str, Any]:
    """Read the labels of queries and gallery items, as the arguments of `evaluate_lists`."""
    guesses: list[str] = []
    used_names: set[str] = set()
    label_sources = read_label_files(words, rules, [used_names] * len(words.get(TABLES, ())), guesses)
    columns: dict[str, Columns] = {role: {} for role in SIDES}
    first_paths: dict[str, str] = {}
    for sources in label_sources.values():
        if len(sources) != len(SIDES):
            raise ValueError(f"`--labels` must be a file of the queries and one of the gallery; got {len(sources)}.")
        for role, source in zip(SIDES, sources, strict=True):
            columns[role] |= source.table
            first_paths.setdefault(role, source.word)
    _check_used(rules, used_names)
    add_labels_of_file_names(columns, rules, guesses)
    log_guesses(guesses)

    labels: dict[str, Any] = {}
    for side, needs_names in _needs_names(retrieved).items():
        labels |= _labels_by_row(columns[side], first_paths[side], side, needs_names=needs_names)
    return labels


def _check_used(rules: LabelRules, used_names: Collection[str]) -> None:
    """Raise unless a table uses each name.

    Raises:
        ValueError: something is not used.
    """
    for label, name in rules.names.items():
        if label not in used_names:
            raise ValueError(f"`--names` must name columns in the tables of `--labels`; got {label}={name}.")


def _labels_by_row(table: Columns, path: str, role: str, *, needs_names: bool) -> dict[str, Any]:
    """Return the labels of one role as arguments of `evaluate_lists`; by the names of rows if lists need them."""
    names = table.pop("names", None)
    if "index" in table:
        raise ValueError(f"{path}: `index` must be left out, as lists hold positions of rows, or names; got it.")
    roles = table.pop("roles", None)
    if roles is not None and not roles[:, SIDES.index(role)].all():
        opposite = "gallery" if role == "query" else "queries"
        raise ValueError(f"{path}: `roles` must be those of the {role}; got some of the {opposite}.")
    labels: dict[str, Any] = dict(table)
    if needs_names:
        if names is None:
            raise ValueError(f"{path}: the table must name its rows, as the lists name them; got no such column.")
        row_names = names.astype(str).tolist()
        _check_distinct(row_names, path)
        for label, values in table.items():
            labels[label] = dict(zip(row_names, values.tolist(), strict=True))
    return as_arguments(labels, f"{role}_")


def _check_distinct(row_names: Sequence[str], path: str) -> None:
    """Raise if two rows of a table have one name."""
    earlier: set[str] = set()
    for name in row_names:
        if name in earlier:
            raise ValueError(f"{path}: the table must name each row once; got {name!r} twice.")
        earlier.add(name)


_RECALL_AT = 10


def _read_exact(arguments: SimpleNamespace, protocol: Protocol, extra_labels: Sequence[str]) -> SampleSets:
    """Read the embeddings of `--exact` with their labels, from the same files or from those of `--labels`.

    Raises:
        ValueError: files that are not those of queries and of a gallery.
    """
    query, *gallery = arguments.exact
    words = SimpleNamespace(**vars(arguments) | {"query": query, "gallery": gallery, "captions": None, "stream": None})
    sample_sets = read_sample_sets(words, protocol.missing_identities, extra_labels, needs_identities=True)
    if sample_sets.keys() != set(SIDES):
        raise ValueError(f"`--exact` must name files of the queries and of the gallery; got {query}, a single set.")
    return sample_sets


def _find_recall(
    retrieved: Any, sample_sets: SampleSets, protocol: Protocol, arguments: SimpleNamespace, *, has_names: bool
) -> IndexRecall:
    """Return the recall of the lists; `has_names` says whether items are names of rows."""
    query_set = sample_sets.query
    gallery_set = sample_sets["gallery"]
    has_keys = isinstance(retrieved, dict)
    query, read_gallery = open_embeddings(
        query_set,
        gallery_set,
        ALONE,
        protocol=protocol,
        similarity=arguments.similarity,
        packed=bool(arguments.packed),
    )
    return index_recall(
        retrieved,
        query,
        (read_gallery(file.embeddings[:]) for file in gallery_set.files),
        k=_RECALL_AT if arguments.recall_k is None else arguments.recall_k,
        similarity=protocol.similarity_or(arguments.similarity),
        query_names=query_set.names.tolist() if has_keys and query_set.names is not None else None,
        gallery_names=gallery_set.names.tolist() if has_names and gallery_set.names is not None else None,
    )
