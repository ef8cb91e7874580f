"""`evaluate`: embeddings in files, mapped and never copied, by the metrics."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np

from reid_torchmetrics import _arrays, _names, data
from reid_torchmetrics.functional.retrieval import Protocol, RetrievalResults, evaluate, evaluate_scores
from reid_torchmetrics.functional.retrieval.evaluation import take_protocol
from reid_torchmetrics.functional.retrieval.relevance import EXTRA, LABELS, SIDES, names_in_rules, number_names
from reid_torchmetrics.functional.retrieval.scores import Rows
from reid_torchmetrics.functional.world import DistributedMetricError
from reid_torchmetrics.metrics.reid import ReIDMetrics

from . import matrices, roles
from .inputs import files_of, find_source, split_array
from .kinds import named_values
from .label_tables import FILE_NAMES, TABLE_FILES, check_shards, label_files, read_field, read_table, rows_by_name
from .label_tables import joined as joined_tables
from .outputs import Outputs
from .processes import Share, joined, telling_errors
from .sides import Columns, Side, batches
from .streams import streamed
from .terminal import say

_BY_ONE_CALL = ("max_rank", "multi_query")
"""options of `evaluate` that metrics do not have"""
_CAPTIONS = "--captions"
_RULES_ABOUT_CAMERAS = ("same_camera", "cmc_same_camera", "camera_map")


_Sides: TypeAlias = dict[str, Side]


def run(arguments: SimpleNamespace, options: dict[str, Any]) -> int:
    """Evaluate embeddings, or a matrix; return the exit status."""
    # A protocol with its changes means the same to functions and metrics, to which None is the protocol's own value.
    named: Any = options.get("protocol") or "market1501"
    protocol, beside = take_protocol(named, options, lists=arguments.ground_truth is not None)
    extra = names_in_rules(protocol.relevance_options)
    sides = read_sides(arguments, protocol.missing, extra)
    if arguments.ground_truth is None:
        _check_labels(sides, protocol, typed=options)
    check_names(sides, protocol.relevance_options)
    files = [*chain(*(side.files for side in sides.values()))]
    label_paths = [split_array(word)[0] for word in chain(*label_files(arguments.labels, extra).values())]
    read = [*label_paths, arguments.ground_truth, arguments.captions]
    outputs = Outputs(arguments, [*(file.path for file in files), *read])
    with joined() as share:
        with naming_bad_rows(files), telling_errors(share):
            results = _evaluated(sides, beside | {"protocol": protocol}, arguments, share)
        if results.counts.not_ranked:
            _name_bad_rows(files)
        return outputs.write({"": results}) if share.process == 0 else 0


def read_sides(
    arguments: SimpleNamespace, missing: _names.MissingLabels = "error", extra: Sequence[str] = ()
) -> _Sides:
    """The files of each side, with their labels.

    Args:
        arguments: the options of the command itself.
        missing: as in `read_labels`.
        extra: the labels that users name in rules.
    """
    names, labels = named_values("--names", arguments.names), label_files(arguments.labels, extra)
    tables, pattern, guesses = labels.get(TABLE_FILES, []), arguments.file_names, list[str]()
    # What each side and each table uses; without tables each side must have all names.
    used: list[list[set[str]]] = [[set() for _ in SIDES], [set() for _ in tables]]
    asked: dict[str, Any] = {"names": names, "missing": missing, "labels": extra}
    sides = _open_sides(arguments, used[0] if tables else [None, None], asked)
    for file in (file for side in sides.values() for file in side.files):
        guesses += [line.removeprefix(f"{file.path}: ") for line in file.guesses]
    # Without arrays for each side, both have found the same ones in one file.
    query, gallery = ([file.guesses for file in side.files] for side in sides.values())
    is_one_file = not arguments.gallery and query == gallery
    is_matrix = sides["query"].files[0].kind != "embeddings"
    if is_one_file and not is_matrix:
        del sides["gallery"]
    keeps_names = all(side.names is not None for side in sides.values())
    order = getattr(arguments, "order", None) or "natural"
    read: dict[Any, list[list[Columns]]] = {}
    for word, of_table in zip(tables, used[1], strict=True):
        paths = files_of(word)
        columns = [read_table(path, asked, pattern, of_table, guesses, keeps_names=keeps_names) for path in paths]
        read.setdefault(TABLE_FILES, []).append(columns)
    for field in (field for field in labels if field != TABLE_FILES):
        read[field] = [[read_field(path, field, missing, extra) for path in files_of(word)] for word in labels[field]]
    if is_one_file and is_matrix and matrices.is_one_set(sides, read.values()):
        del sides["gallery"]
    # Roles first: they tell the rows of the other labels apart.
    fields = sorted(read, key=lambda field: not roles.are_in(read[field]))
    for field in fields:
        _add_labels(sides, read[field], labels[field], guesses, order)
    if arguments.captions is not None:
        _add_captions(sides, arguments.captions)
    if guesses:
        say(f"guessed: {', '.join(dict.fromkeys(guesses))}")
    _check_used(names if tables else {}, pattern, used)
    has_roles = any("roles" in side.columns for side in sides.values())
    roles.settle(sides)
    if len(sides) == 1 and not has_roles:
        what = "one set of labels for a square matrix" if is_matrix else "no gallery"
        say(f"{what}: each item is searched among all others")
    return sides


def _open_sides(arguments: SimpleNamespace, used: Sequence[set[str] | None], asked: Mapping[str, Any]) -> _Sides:
    """Open the files of both sides; `used` gets the names that each side has, and `asked` are options of the reader."""
    source = find_source(arguments)
    sides: _Sides = {}
    for role, paths, names_of_side in zip(SIDES, (source.query, source.gallery), used, strict=True):
        files = data.read_samples(
            paths, role=role, used=names_of_side, reopened=bool(arguments.stream), kind=source.kind, **asked
        )
        sides[role] = Side(files)
    _check_kinds(sides)
    return sides


def check_names(sides: _Sides, rules: Mapping[str, Any]) -> None:
    """Raise unless both sides have names or both have integers, as the `rules` that list labels do.

    Raises:
        TypeError: one side has names, and the other integers.
        ValueError: one of the `rules` lists numbers of labels that are names, or the reverse.
    """
    given: dict[str, Any] = {}
    for role, side in sides.items():
        given |= side.labels(slice(None), f"{role}_")
    number_names(given, rules, tuple(sides))


def _check_kinds(sides: _Sides) -> None:
    """Raise unless both sides are embeddings of one width, or distances or scores in one file."""
    first, last = (side.files[-1] for side in sides.values())
    if first.kind != last.kind or (first.kind != "embeddings" and first.path != last.path):
        raise ValueError(f"{first.path}: distances and scores must come in one file with all labels; got two files.")
    if first.kind == "embeddings" and last.embeddings.shape[1] != first.embeddings.shape[1]:
        widths = f"{last.embeddings.shape[1]} and {first.embeddings.shape[1]}"
        raise ValueError(f"{last.path}: embeddings must be as wide as those of {first.path}; got {widths}.")


def _add_captions(sides: _Sides, captions_of: str) -> None:
    """Number the images of both sides, the captions by a file or by how many of them in a row are of an image."""
    images, captions = sorted([*sides.values(), *sides.values()][:2], key=len)
    if captions_of.isdecimal():
        index = np.repeat(np.arange(len(images)), int(captions_of))
    else:
        index = data.read_labels(captions_of, field="identities")["identities"]
        images, captions = (captions, images) if len(index) == len(images) else (images, captions)
    is_told = len(sides) > 1 and (captions_of.isdecimal() or len(images) != len(captions))
    if not is_told or len(index) != len(captions) or index.ndim > 1 or not np.isin(index, np.arange(len(images))).all():
        came = f"{captions_of} for {len(captions)} captions of {len(images)} images"
        raise ValueError(f"`--captions` must be how many each image has, or a file of each one's image; got {came}.")
    tables = [{"identities": index if side is captions else np.arange(len(side))} for side in sides.values()]
    _add_labels(sides, [[table] for table in tables], [_CAPTIONS] * len(tables), [], "given")


def _check_used(names: Mapping[str, str], pattern: str | None, used: Sequence[Sequence[Collection[str]]]) -> None:
    """Raise unless each name is used by all sides or by all tables, and the pattern of file names by a table.

    Raises:
        ValueError: something is not used.
    """
    for key, name in names.items():
        shares = {sum(key in each for each in of_kind) / len(of_kind) for of_kind in used}
        if shares != {0, 1}:  # labels that both have are refused before
            raise ValueError(f"`--names` must name arrays or columns in the files, not files; got {key}={name}.")
    if pattern is not None and not any(FILE_NAMES in of_table for of_table in used[1]):
        raise ValueError(f"`--file-names` must come with a table of file names without identities; got {pattern!r}.")


def _add_labels(
    sides: _Sides, read: Sequence[Sequence[Columns]], words: Sequence[str], guesses: list[str], order: str
) -> None:
    """Give the sides the labels and roles of tables, each from one file or from the files of shards."""
    tables = [joined_tables(of_word, files_of(word)) for of_word, word in zip(read, words, strict=True)]
    said = " and ".join(words) if words[0] != _CAPTIONS else _CAPTIONS
    row_names = [side.names for side in sides.values() if side.names is not None]
    has_names = len(row_names) == len(sides) and all("names" in table for table in tables)
    is_by_name = has_names and len(tables) in (1, len(sides))
    tables = roles.number_rows(sides, tables)
    if is_by_name:
        guesses.append("rows joined by `name`")
        times = len(sides) // len(tables)  # one table may hold the rows of both sides
        triples = zip([*tables] * times, row_names, [*words] * times, strict=True)
        tables = [rows_by_name(table, names, word) for table, names, word in triples]
    for table in tables:
        table.pop("names", None)
    if len(tables) == 1 and len(sides) == 2:
        # Rows of queries come first, unless a column says it.
        num_queries = len(sides["query"])
        split = roles.rows_of_sides(sides, tables[0])
        if split is not None:
            is_query, is_gallery = split
        else:
            if sides["query"].files[0].kind != "embeddings":
                matrices.check_num_rows(sides, tables[0], said)
            is_query = np.arange(min(map(len, tables[0].values()))) < num_queries
            is_gallery = ~is_query
            guesses.append(f"the first {num_queries} rows of {said} as those of the queries")
        tables = [{name: each[side] for name, each in tables[0].items()} for side in (is_query, is_gallery)]
    if len(tables) != len(sides):
        remedy = matrices.hint_of_matrix(sides["query"], [matrices.num_rows_of([table]) for table in tables])
        raise ValueError(f"`--labels` must be one table, or one of each side; got {len(tables)}.{remedy}")
    roles.note_own_places(sides, tables)
    if len(sides) == 2 and sides["query"].files[0].kind != "embeddings":
        matrices.check_shape(sides, tables, said)
    for place, (role, table) in enumerate(zip(sides, tables, strict=True)):
        if not is_by_name and words[0] != _CAPTIONS:
            is_own = len(words) == len(sides)
            of_side, paths = (read[place], files_of(words[place])) if is_own else (read[0], files_of(words[0]))
            check_shards(sides[role], role, of_side, paths, order)
        _check_table(sides[role], table, said, role)
        sides[role].columns |= table


def _check_table(side: Side, table: Columns, said: str, role: str) -> None:
    """Raise unless a table has a row for each embedding of a side, and labels that its files lack."""
    for name, values in table.items():
        if len(values) != len(side):
            rule = f"`{name}` must have a row for each of {len(side)} {role} embeddings"
            raise ValueError(f"{said}: {rule}; got {len(values)}.")
        if name in side.columns:
            raise ValueError(f"{said}: `{name}` must come once; got it from {side.files[0].path}, too.")


def _check_labels(sides: _Sides, protocol: Protocol, typed: Mapping[str, Any]) -> None:
    """Raise unless there are the labels of a protocol, and cameras if a rule about them was asked for."""
    names = {name for side in sides.values() for name in side.columns}
    needed = dict(protocol.needed_labels)
    reason = needed.pop(EXTRA, "")
    needed |= dict.fromkeys(names_in_rules(protocol.relevance_options), reason)
    for name, why in needed.items():
        if name not in names:
            how = f"as an array or a column of that name, by `--labels {name}=FILE` or `--names {name}=NAME`"
            raise ValueError(f"`{name}` must be given {why}, {how}; got none in the files.")
    for name in names_in_rules(protocol.relevance_options):
        lacking = [role for role, side in sides.items() if name not in side.columns]
        if lacking:
            raise ValueError(
                f"`{name}` must be given for queries and gallery; got none in the files of the {lacking[0]}."
            )
    rules = {name: getattr(protocol, name) for name in _RULES_ABOUT_CAMERAS if "cameras" not in names}
    for name, rule in ((name, rule) for name, rule in rules.items() if rule not in (None, "keep", ())):
        if {name, "protocol"} & typed.keys():
            remedy = f"be given for `{name}` {rule!r}, as by `--labels cameras=FILE`, or `--same-camera keep`"
            raise ValueError(f"`cameras` must {remedy}; got none in the files.")
        drops = f"`{name}` {rule!r} of {protocol.name} drops nothing"
        how = "`--labels cameras=FILE` gives them, `--protocol` another benchmark"
        say(f"{', '.join(sorted(names - {'roles'})) or 'no labels'} without cameras: {drops}; {how}")


def _evaluated(sides: _Sides, options: dict[str, Any], arguments: SimpleNamespace, share: Share) -> RetrievalResults:
    """All processes get the same results, with what a report shows if there is one."""
    if arguments.stream:
        return streamed(sides, options, share)
    truth = None
    if arguments.ground_truth is not None:
        truth = data.read_ground_truth(
            arguments.ground_truth, by_name=False, form=arguments.truth_form, from_one=bool(arguments.from_one)
        )
    mixed = [side for side in sides.values() if "roles" in side.columns and roles.are_mixed(side.columns["roles"])]
    if reason := _reason_for_one_call(sides, options, has_lists_of_both=bool(mixed) and truth is not None):
        return _by_one_call(sides, options, truth, share, reason)
    for side in sides.values() if truth is not None else ():  # its lists number the rows of each role in their order
        if "index" in side.columns:
            path = side.files[0].path
            raise ValueError(f"{path}: `index` must come without `--ground-truth`, whose lists number rows; got both.")
        flags = side.columns.get("roles", np.ones((len(side), 2), dtype=bool))
        side.columns["index"] = np.where(flags[:, 0], flags[:, 0].cumsum(), flags[:, 1].cumsum()) - 1
    for side in mixed:  # samples come by their roles, but count in the order of the rows
        side.columns.setdefault("index", np.arange(len(side)))
        if "groups" in side.columns:
            raise ValueError("`groups` must come without rows that are queries and gallery items; got both.")
    metric = ReIDMetrics(ground_truth=truth, **options)
    with warnings.catch_warnings():
        # Samples without `is_query` are those of both roles here.
        warnings.filterwarnings("ignore", "Some batches were given with `is_query` and some without")
        for embeddings, is_query, labels in batches(sides, share):
            metric.update(embeddings, is_query=is_query, **labels)
    if arguments.report is None:
        return metric.results()
    return metric.results(nearest=10, camera_pairs=all("cameras" in side.columns for side in sides.values()))


def _reason_for_one_call(sides: _Sides, options: Mapping[str, Any], *, has_lists_of_both: bool) -> str:
    """What metrics do not have, by its name; empty if nothing."""
    reasons = [f"--{name.replace('_', '-')}" for name in _BY_ONE_CALL if name in options]
    kind = sides["query"].files[0].kind
    reasons += [kind] * (kind != "embeddings")
    # A query of a file of its own is no gallery item to a metric; and lists number queries and gallery apart.
    reasons += ["roles"] * (sides["query"].self_index is not None or has_lists_of_both)
    return reasons[0] if reasons else ""


def _by_one_call(sides: _Sides, options: dict[str, Any], truth: Any, share: Share, reason: str) -> RetrievalResults:
    """By `evaluate`, for what metrics do not have, or by `evaluate_scores`; `reason` is what that is."""
    kind = sides["query"].files[0].kind
    if share.size > 1 or any(len(side.files) > 1 or "index" in side.columns for side in sides.values()):
        raise ValueError(f"`{reason}` must come with one file of each side, without `index`, in one process.")
    rows, self_index = roles.rows_by_role(sides)
    arrays: dict[str, Any] = {}
    for role, (side, of_role) in rows.items():
        if kind == "embeddings":
            arrays[role] = side.files[0].embeddings[of_role]
        labels = side.labels(of_role)
        arrays |= {f"{role}_{name}": values for name, values in labels.items() if role in LABELS[name].sides}
    if kind == "embeddings":
        return evaluate(**arrays, ground_truth=truth, self_index=self_index, **options)
    options |= {"ground_truth": truth, "self_index": self_index}
    return _by_matrix(sides["query"].files[0], rows, arrays, options)


def _by_matrix(
    file: data.SampleFile, rows: Mapping[str, tuple[Side, Any]], labels: Mapping[str, Any], options: Mapping[str, Any]
) -> RetrievalResults:
    """The results of distances or scores, with the labels of the rows of each side."""
    options = matrices.without_embeddings(file.kind, options)
    matrix: Any = file.embeddings
    if len(rows) == 1:  # each item among the others
        ((_, kept_rows),) = rows.values()
        matrix = matrices.rows_and_columns(matrix, kept_rows, kept_rows)
        options["self_index"] = np.arange(len(matrix))
        labels = {**labels, **{name.replace("query_", "gallery_"): values for name, values in labels.items()}}
    else:
        (_, query_rows), (_, gallery_rows) = rows.values()
        matrix = matrices.rows_and_columns(matrix, query_rows, gallery_rows)
        if options["self_index"] is None:
            options["self_index"] = matrices.own_places(file, matrix.shape, options["protocol"])
    return evaluate_scores(**{file.kind: matrix}, **labels, **options)


@contextmanager
def naming_bad_rows(files: Sequence[data.SampleFile]) -> Iterator[None]:
    """Where something fails for embeddings that are not finite, raise an error with their file and rows instead."""
    try:
        yield
    except (ValueError, DistributedMetricError):
        _name_bad_rows(files)
        raise


def _name_bad_rows(files: Sequence[data.SampleFile]) -> None:
    """Raise if some embeddings are not finite, or some distances or scores NaN: their file and rows."""
    for file in files[:1]:
        if file.kind != "embeddings" and (bad := matrices.bad_rows(file.embeddings)):
            raise ValueError(f"{file.path}: {file.kind} must not be NaN; got {len(bad)} rows with NaN, first {bad[0]}.")
    for file in (file for file in files if file.kind == "embeddings"):
        (embeddings,) = _arrays.as_tensors(file.embeddings[:])
        if bad := Rows([embeddings]).non_finite().tolist():
            came = f"{len(bad)} rows that are not, first {bad[0]}"
            raise ValueError(f"{file.path}: embeddings must be finite; got {came}.")
