"""Reading of the queries and the gallery of a command line: files of samples, with labels in tables and arrays.

`--distances` and `--scores` are a matrix of queries and gallery items in the place of embeddings:

labels                                     queries       gallery items
two files                                  rows          columns
one table with a column such as `split`    its queries   its gallery items, of a square matrix also chosen from it
one file for a square matrix               rows          the same items, each searched among all others
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from reid_torchmetrics import _names, data
from reid_torchmetrics._warnings import warn
from reid_torchmetrics.functional.retrieval.relevance import RULES_BY_LABEL, SIDES

from .inputs import find_files, find_source
from .label_tables import (
    TABLES,
    LabelRules,
    LabelSource,
    add_labels_of_file_names,
    check_shards,
    label_files,
    num_rows_of,
    read_field,
    read_table,
    rows_by_name,
)
from .sample_sets import ROW, Columns, SampleSet, SampleSets, has_one_role
from .terminal import log
from .values import name_of, named_values

_CAPTIONS = "--captions"
_TRACK_LABELS = {"cameras", "sequences", "identities"}
"""labels that show whether numbers of tracks count those of each camera"""


def read_sample_sets(
    arguments: SimpleNamespace,
    missing_identities: _names.MissingLabels = "error",
    extra_labels: Sequence[str] = (),
    *,
    needs_identities: bool,
) -> SampleSets:
    """Read the files of queries and gallery, with their labels.

    Args:
        arguments: the options of the command itself.
        missing_identities: as in `read_labels`.
        extra_labels: the labels that users name in rules.
        needs_identities: whether names of files are read as in Market-1501 where no label tells samples apart.
    """
    names = named_values("--names", arguments.names)
    rules = LabelRules(names, missing_identities, extra_labels, file_names=arguments.file_names)
    words = label_files(arguments.labels, extra_labels)
    num_tables = len(words.get(TABLES, ()))
    # The names that each set and each table uses; without tables each set must have all names.
    names_in_sets: list[set[str]] = [set() for _ in SIDES]
    names_in_tables: list[set[str]] = [set() for _ in range(num_tables)]

    # Files of samples.
    sample_sets = _open_sample_sets(arguments, rules, names_in_sets if num_tables else [None, None])
    guesses: list[str] = []
    for file in sample_sets.files:
        guesses.extend(line.removeprefix(f"{file.path}: ") for line in file.guesses)
    is_matrix = sample_sets.query.kind != "embeddings"
    # Without arrays for each role, both sets have the same arrays of one file.
    query_guesses, gallery_guesses = ([file.guesses for file in part.files] for part in sample_sets.values())
    is_one_file = not arguments.gallery and query_guesses == gallery_guesses
    if is_one_file and not is_matrix:
        del sample_sets["gallery"]

    # Files of labels.
    labels = read_label_files(words, rules, names_in_tables, guesses)
    if is_one_file and is_matrix and _is_one_set(sample_sets, labels.values()):
        del sample_sets["gallery"]

    # Roles first: they tell the rows of the other labels apart.
    order = getattr(arguments, "order", None) or "natural"
    for sources in sorted(labels.values(), key=_has_roles, reverse=True):
        _add_labels(sample_sets, sources, guesses, order)
    if arguments.captions is not None:
        _add_captions(sample_sets, arguments.captions)
    if needs_identities or rules.file_names is not None:
        add_labels_of_file_names({role: sample_set.columns for role, sample_set in sample_sets.items()}, rules, guesses)
    _drop_tracks_of_cameras(sample_sets, names, guesses)
    for sample_set in sample_sets.values():
        _warn_of_repeated_names(sample_set)
    log_guesses(guesses)
    _check_used(rules, names_in_sets, names_in_tables)

    has_roles = any(sample_set.roles is not None for sample_set in sample_sets.values())
    sample_sets.check_roles()
    if len(sample_sets) == 1 and not has_roles:
        reason = "one set of labels for a square matrix" if is_matrix else "no gallery"
        log(f"{reason}: each item is searched among all others")
    return sample_sets


def _drop_tracks_of_cameras(sample_sets: SampleSets, names: Mapping[str, str], guesses: list[str]) -> None:
    """Leave out sequences that were found by their name and are numbers of tracks, counted anew in each camera.

    Such a number is that of one identity within a camera, and of several identities in several cameras, or on both
    sides. Sessions and scenes, which are sequences, have several identities in one camera.
    """
    has_labels = all(sample_set.columns.keys() >= _TRACK_LABELS for sample_set in sample_sets.values())
    if not has_labels or "sequences" in names:
        return
    sides = list(sample_sets.values())
    num_tracks = [_count_rows([side], "cameras", "sequences") for side in sides]
    are_tracks = num_tracks == [_count_rows([side], "cameras", "sequences", "identities") for side in sides]
    are_unique = _count_rows(sides, "sequences") == _count_rows(sides, "sequences", "identities")
    if are_tracks and not are_unique:
        for sample_set in sample_sets.values():
            del sample_set.columns["sequences"]
        guesses.append("no sequences, as their numbers count the tracks of each camera")


def _warn_of_repeated_names(sample_set: SampleSet) -> None:
    """Warn if some samples have the name and the identity of another one; most captions and frames have."""
    if sample_set.names is None or "identities" not in sample_set.columns:
        return
    samples = Counter(zip(sample_set.names.tolist(), map(str, sample_set.columns["identities"]), strict=True))
    num_repeated = len(sample_set) - len(samples)
    if 0 < num_repeated <= len(samples):
        text = f"{num_repeated:,} of {len(sample_set):,} samples have the name and the identity of another one"
        (name, _), _ = samples.most_common(1)[0]
        warn(f"{sample_set.files[0].path}: {text}, such as {name!r}, and count again. Leave them out.")


def _count_rows(sample_sets: Sequence[SampleSet], *labels: str) -> int:
    """Count the different combinations of some labels."""
    columns = []
    for label in labels:
        values = np.concatenate([sample_set.columns[label] for sample_set in sample_sets])
        _, places = np.unique(values, axis=0, return_inverse=True)  # a sample may have several
        columns.append(places.ravel())
    return len(np.unique(np.stack(columns, axis=1), axis=0))


def log_guesses(guesses: Iterable[str]) -> None:
    """Log guesses about files on one line, each once."""
    distinct_guesses = ", ".join(dict.fromkeys(guesses))
    if distinct_guesses:
        log(f"guessed: {distinct_guesses}")


def options_for(labels: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options in which rules list names where `labels`, arguments by name, hold names of digits: "01", not 1."""
    as_names = dict(options)
    for rule, label in RULES_BY_LABEL.items():
        names: set[Any] = set()
        for role in SIDES:
            values = labels.get(f"{role}_{label}", ())
            names.update(values.values() if isinstance(values, Mapping) else np.ravel(values).tolist())
        if not any(isinstance(name, str) and name.isdecimal() for name in names):
            continue
        value = options.get(rule)
        if isinstance(value, dict):
            as_names[rule] = {name_of(key): name_of(counted_as) for key, counted_as in value.items()}
        elif value is not None:
            as_names[rule] = [name_of(element) for element in value]
    return as_names


def _open_sample_sets(
    arguments: SimpleNamespace, rules: LabelRules, names_in_sets: Sequence[set[str] | None]
) -> SampleSets:
    """Open the files of queries and gallery; `names_in_sets` receives the labels in `rules.names` that each set has."""
    query, gallery, kind = find_source(arguments)
    opened = []
    for role, paths, used in zip(SIDES, (query, gallery), names_in_sets, strict=True):
        files = data.read_samples(
            paths,
            role=role,
            names=rules.names,
            used_names=used,
            reopen=bool(arguments.stream),
            missing_identities=rules.missing_identities,
            labels=rules.extra_labels,
            kind=kind,
        )
        opened.append(SampleSet(role, files))
    sample_sets = SampleSets(*opened)
    _check_kinds(sample_sets)
    return sample_sets


def read_label_files(
    words: Mapping[str, Sequence[str]],
    rules: LabelRules,
    names_in_tables: Sequence[set[str]],
    guesses: list[str],
) -> dict[str, list[LabelSource]]:
    """Read the files of `--labels`, tables first."""
    labels: dict[str, list[LabelSource]] = {}
    for field in sorted(words, key=TABLES.__ne__):
        labels[field] = []
        for position, word in enumerate(words[field]):
            paths = find_files(word)
            if field == TABLES:
                tables = [read_table(path, rules, names_in_tables[position], guesses) for path in paths]
            else:
                tables = [read_field(path, field, rules) for path in paths]
            labels[field].append(LabelSource.of_files(word, paths, tables))
    return labels


def _check_kinds(sample_sets: SampleSets) -> None:
    """Raise unless both sets are embeddings of one width, or distances or scores in one file."""
    query, gallery = (sample_set.files[-1] for sample_set in sample_sets.values())
    if query.kind == "embeddings" and gallery.kind == "embeddings":
        query_width = query.embeddings.shape[1]
        gallery_width = gallery.embeddings.shape[1]
        if gallery_width != query_width:
            widths = f"{gallery_width} and {query_width}"
            raise ValueError(f"{gallery.path}: embeddings must be as wide as those of {query.path}; got {widths}.")
    elif query.kind != gallery.kind or query.path != gallery.path:
        raise ValueError(f"{query.path}: distances and scores must come in one file with all labels; got two files.")


def _add_labels(sample_sets: SampleSets, sources: Sequence[LabelSource], guesses: list[str], order: str) -> None:
    """Add the labels and roles of tables to the sample sets: of one table about both, or of one table for each."""
    source_text = " and ".join(source.word for source in sources)
    tables = [source.table for source in sources]
    if len(tables) == 1 and len(sample_sets) == 2:
        tables = _split_table(sample_sets, tables[0], source_text, guesses)
    if len(tables) != len(sample_sets):
        remedy = _hint_of_matrix(sample_sets.query, tables)
        raise ValueError(
            f"`--labels` must be one table, or one for queries and one for the gallery; got {len(tables)}.{remedy}"
        )
    if len(sources) < len(sample_sets):  # one table about both sides
        sources = [*sources, *sources]
    named_roles = _join_by_name(sample_sets, tables, sources, guesses)
    sample_sets.set_self_index(tables)
    if len(sample_sets) == 2 and sample_sets.query.kind != "embeddings":
        _check_shape(sample_sets, tables, source_text)

    for sample_set, table, source in zip(sample_sets.values(), tables, sources, strict=True):
        if sample_set.role not in named_roles:
            check_shards(sample_set, source, order)
        sample_set.add(table, source_text)


def _join_by_name(
    sample_sets: SampleSets, tables: list[Columns], sources: Sequence[LabelSource], guesses: list[str]
) -> list[_names.Role]:
    """Put the rows of the table of each side in the order of its samples, where both have names; return these roles.

    Raises:
        ValueError: a file of samples has names that cannot be read.
    """
    roles: list[_names.Role] = []
    for position, sample_set in enumerate(sample_sets.values()):
        for file in sample_set.files:
            if "names" in tables[position] and file.unread_names:
                rule = "names must be one array of texts, as the rows of the labels are joined by `name`"
                remedy = (
                    "Save `names.astype(str)`, pass `--names names=NAME`, or leave names out where the order is one."
                )
                raise ValueError(f"{file.path}: {rule}; got {file.unread_names}. {remedy}")
        if "names" in tables[position] and sample_set.names is not None:
            tables[position] = rows_by_name(tables[position], sample_set.names, sources[position].word)
            roles.append(sample_set.role)
    if len(roles) == len(sample_sets):
        guesses.append("rows joined by `name`")
    else:
        guesses.extend(f"rows of the {role} joined by `name`" for role in roles)
    return roles


def _split_table(sample_sets: SampleSets, table: Columns, source_text: str, guesses: list[str]) -> list[Columns]:
    """Split one table into rows of queries and rows of the gallery: by names, by roles, or with the queries first.

    Where some rows are both, all keep their number in the column `ROW`.
    """
    query_set = sample_sets.query
    roles = table.get("roles")
    if roles is not None and has_one_role(roles) and len(roles) == sum(map(len, sample_sets.values())):
        log("one role in every row of the labels: it does not tell queries and gallery apart")
        roles = None
        del table["roles"]
    elif roles is not None and roles.all(axis=1).any():
        table[ROW] = np.arange(len(roles))
    are_named = all(sample_set.names is not None for sample_set in sample_sets.values())
    if "names" in table and are_named:
        return [table, table]  # each side takes the rows with its names

    if roles is None:
        roles = sample_sets.table_roles  # of an earlier table with as many rows
    else:
        sample_sets.table_roles = roles
    num_rows = num_rows_of(table)
    if roles is not None and len(roles) == num_rows:
        is_query, is_gallery = roles.T
    else:
        if query_set.kind != "embeddings":
            _check_num_rows(sample_sets, table, source_text)
        is_query = np.arange(num_rows) < len(query_set)
        is_gallery = ~is_query
        guesses.append(f"the first {len(query_set)} rows of {source_text} as those of the queries")
    return [{name: values[rows] for name, values in table.items()} for rows in (is_query, is_gallery)]


def _is_one_set(sample_sets: SampleSets, labels: Iterable[Sequence[LabelSource]]) -> bool:
    """Return whether rows and columns of a matrix are the same items: there is one set of labels for both.

    Args:
        sample_sets: Queries and gallery of a matrix, with the labels in its file.
        labels: The files of each kind of label.
    """
    num_rows, num_columns = (len(sample_set) for sample_set in sample_sets.values())
    if num_rows != num_columns:
        return False
    if any(sample_set.columns.keys() - {"names"} for sample_set in sample_sets.values()):
        return True
    return any(len(sources) == 1 and num_rows_of(sources[0].table) == num_rows for sources in labels)


def _check_shape(sample_sets: SampleSets, tables: Sequence[Columns], source: str) -> None:
    """Raise unless a matrix has a row for each query of the labels, and a column for each gallery item.

    Raises:
        ValueError: It has not; the message says if it is transposed.
    """
    file = sample_sets.query.files[0]
    shape = [len(sample_set) for sample_set in sample_sets.values()]
    label_shape = [num_rows_of(table) for table in tables]
    if shape == label_shape:
        return
    rule = (
        f"`{file.kind}` must have shape {label_shape}, a row for each query and a column for each gallery item of"
        f" {source}"
    )
    hint = ", which is transposed" if shape == label_shape[::-1] else ""
    raise ValueError(f"{file.path}: {rule}; got {shape}{hint}.")


def _check_num_rows(sample_sets: SampleSets, table: Columns, source: str) -> None:
    """Raise unless one table about a matrix has a row for each query and each gallery item.

    Raises:
        ValueError: It has another number of rows.
    """
    num_queries, num_items = (len(sample_set) for sample_set in sample_sets.values())
    num_rows = num_rows_of(table)
    if num_rows == num_queries + num_items:
        return
    samples = f"{num_queries} queries and {num_items} gallery items"
    raise ValueError(f"{source}: there must be a row for each of {samples} of the matrix; got {num_rows}.")


def _hint_of_matrix(sample_set: SampleSet, tables: Sequence[Columns]) -> str:
    """Return a remedy if embeddings in one file have the shape of a matrix of the labels; else an empty text."""
    file = sample_set.files[0]
    if file.kind != "embeddings" or len(sample_set.files) > 1:
        return ""
    if list(file.embeddings.shape) != [num_rows_of(table) for table in tables]:
        return ""
    return f" A matrix of distances is given by `--distances {file.path}`, of scores by `--scores`."


def _add_captions(sample_sets: SampleSets, captions_option: str) -> None:
    """Number the images, and give each caption the number of its image, as identities.

    Args:
        sample_sets: images and their captions, one as queries and the other as gallery.
        captions_option: the number of captions of each image, which are in a row, or a file with the image of each.
    """
    images, captions = sorted([sample_sets.query, sample_sets.get("gallery", sample_sets.query)], key=len)
    is_number = captions_option.isdecimal()
    if is_number:
        image_of_caption = np.repeat(np.arange(len(images)), int(captions_option))
    else:
        image_of_caption = data.read_labels(captions_option, field="identities")["identities"]
        if len(image_of_caption) == len(images):  # there are fewer captions than images
            images, captions = captions, images
    can_tell_apart = len(sample_sets) > 1 and (is_number or len(images) != len(captions))
    is_numbering = len(image_of_caption) == len(captions) and image_of_caption.ndim == 1
    if not can_tell_apart or not is_numbering or not np.isin(image_of_caption, np.arange(len(images))).all():
        got = f"{captions_option} for {len(captions)} captions of {len(images)} images"
        raise ValueError(f"`--captions` must be how many each image has, or a file of each one's image; got {got}.")
    for sample_set in sample_sets.values():
        identities = image_of_caption if sample_set is captions else np.arange(len(sample_set))
        sample_set.add({"identities": identities}, _CAPTIONS)


def _has_roles(sources: Sequence[LabelSource]) -> bool:
    """Return whether some table has roles."""
    return any("roles" in source.table for source in sources)


def _check_used(
    rules: LabelRules, names_in_sets: Sequence[Collection[str]], names_in_tables: Sequence[Collection[str]]
) -> None:
    """Raise unless all sample sets or all tables use each name."""
    # Without tables, sample sets that lack a name were refused when they were read.
    names = rules.names if names_in_tables else {}
    for label, name in names.items():
        in_sets = [label in used for used in names_in_sets]
        in_tables = [label in used for used in names_in_tables]
        is_in_sets_alone = all(in_sets) and not any(in_tables)
        is_in_tables_alone = all(in_tables) and not any(in_sets)
        if not (is_in_sets_alone or is_in_tables_alone):  # labels that both have are refused before
            raise ValueError(f"`--names` must name arrays or columns in the files, not files; got {label}={name}.")
