"""`evaluate`: embeddings in files, mapped and never copied.

One call evaluates them; metrics do so for samples with numbers (`index`), for lists as truth and on several processes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from reid_torchmetrics import _arrays, data
from reid_torchmetrics.functional.retrieval import Protocol, RetrievalResults, evaluate, evaluate_scores
from reid_torchmetrics.functional.retrieval.evaluation import take_protocol
from reid_torchmetrics.functional.retrieval.relevance import EXTRA, LABELS, names_in_rules
from reid_torchmetrics.functional.retrieval.scores import Rows
from reid_torchmetrics.functional.world import DistributedMetricError

from .inputs import NEED_EMBEDDINGS, check_matrix_options
from .label_tables import log_positions
from .options import in_options
from .outputs import Outputs, ReportImages
from .processes import Share, join_processes, share_errors
from .sample_reading import options_for, read_sample_sets
from .sample_sets import SampleSets, are_mixed
from .terminal import log

_OPTIONS_WITHOUT_METRIC = ("max_rank", "multi_query")
"""options of `evaluate` that metrics do not have"""
_RULES_ABOUT_CAMERAS = ("same_camera", "cmc_same_camera", "camera_map")


def run(arguments: SimpleNamespace, options: dict[str, Any]) -> int:
    """Evaluate embeddings, or a matrix; return the exit status."""
    has_ground_truth = arguments.ground_truth is not None
    # A protocol with its changes means the same to functions and metrics, to which None is the protocol's own value.
    protocol, other_options, _ = take_protocol(options.get("protocol") or "market1501", options, lists=has_ground_truth)
    extra_labels = names_in_rules(protocol.relevance_options)
    needs_identities = not has_ground_truth and "identities" in protocol.needed_labels
    sample_sets = read_sample_sets(
        arguments, protocol.missing_identities, extra_labels, needs_identities=needs_identities
    )
    if not has_ground_truth:
        _check_labels(sample_sets, protocol, options)
    options = options_for(sample_sets.labels(), options)
    protocol, other_options, _ = take_protocol(options.get("protocol") or "market1501", options, lists=has_ground_truth)
    if arguments.images is not None:
        from .images import check_sample_images  # noqa: PLC0415 - most evaluations show no images

        check_sample_images(arguments.images, sample_sets)

    outputs = Outputs(arguments)

    files = sample_sets.files
    with join_processes() as share:
        with naming_bad_rows(files), share_errors(share):
            results = _evaluate_samples(sample_sets, other_options | {"protocol": protocol}, arguments, share)
        if results.counts.not_ranked:
            _raise_for_bad_rows(files)
        if share.process != 0:
            return 0
        images = ReportImages()
        if arguments.report is not None:
            from .images import sample_images  # noqa: PLC0415 - most evaluations show no images

            if not arguments.labels:  # with labels, their files were logged
                log_positions(sample_sets)
            if not options.get("multi_query"):  # a pooled query has the numbers of several images
                images = sample_images(arguments.images, sample_sets)
        return outputs.write({"": results}, images=images)


def _check_labels(sample_sets: SampleSets, protocol: Protocol, options: Mapping[str, Any]) -> None:
    """Raise unless the labels of a protocol are there.

    Cameras may be missing, unless `options`, those in the command line, have a protocol or a rule about cameras.
    """
    labels: set[str] = set()
    for sample_set in sample_sets.values():
        labels.update(sample_set.columns)
    extra_labels = names_in_rules(protocol.relevance_options)
    needed = dict(protocol.needed_labels)
    extra_reason = needed.pop(EXTRA, "")
    needed |= dict.fromkeys(extra_labels, extra_reason)
    for label, reason in needed.items():
        if label not in labels:
            remedy = f"as an array or a column of that name, by `--labels {label}=FILE` or `--names {label}=NAME`"
            raise ValueError(f"{label} must be given {reason}, {remedy}; got none in the files.")
    for label in extra_labels:
        for role, sample_set in sample_sets.items():
            if label not in sample_set.columns:
                raise ValueError(f"{label} must be given for queries and gallery; got none in the files of the {role}.")
    if "cameras" not in labels:
        _check_camera_rules(protocol, options, labels)


def _check_camera_rules(protocol: Protocol, options: Mapping[str, Any], labels: set[str]) -> None:
    """Log that a rule about cameras has no effect without them; raise if it comes from the command line."""
    for name in _RULES_ABOUT_CAMERAS:
        rule = getattr(protocol, name)
        if rule in (None, "keep", ()):
            continue
        if name in options or "protocol" in options:
            remedy = f"be given for `{name}` {rule!r}, as by `--labels cameras=FILE`, or `--same-camera keep`"
            raise ValueError(f"cameras must {remedy}; got none in the files.")
        label_text = ", ".join(sorted(labels - {"roles", "names"})) or "no labels"
        effect = f"`{name}={rule!r}` of {protocol.name} drops nothing"
        remedy = "`--labels cameras=FILE` gives them, `--protocol` another benchmark"
        log(in_options("evaluate", f"{label_text} without cameras: {effect}; {remedy}"))


def _evaluate_samples(
    sample_sets: SampleSets, options: dict[str, Any], arguments: SimpleNamespace, share: Share
) -> RetrievalResults:
    """Return the results, which are the same on all processes, with the parts that a report shows if one is written."""
    if arguments.stream:
        from .streams import evaluate_streamed_gallery  # noqa: PLC0415 - most galleries are in memory

        return evaluate_streamed_gallery(sample_sets, options, share)
    ground_truth = None
    if arguments.ground_truth is not None:
        ground_truth = data.read_ground_truth(
            arguments.ground_truth, by_name=False, form=arguments.ground_truth_form, one_based=bool(arguments.one_based)
        )
    reason = _reason_against_metric(sample_sets, options, has_lists=ground_truth is not None)
    if not reason:
        _number_samples(sample_sets, has_lists=ground_truth is not None)
    is_numbered = any("index" in sample_set.columns for sample_set in sample_sets.values())
    if share.size > 1 or is_numbered:
        if reason:
            raise ValueError(f"`{reason}` must come without `index`, in one process.")
    elif sample_sets.query.kind != "embeddings":
        return _evaluate_matrix(sample_sets, options | {"ground_truth": ground_truth})
    else:
        gallery = sample_sets["gallery"].with_labels() if "gallery" in sample_sets else None
        results = evaluate(
            sample_sets.query.with_labels(),
            gallery,
            self_index=sample_sets.self_index,
            ground_truth=ground_truth,
            **options,
        )
        # A results file would hold lists of candidates, which cost another pass over the gallery.
        return results if reason or arguments.report is not None else replace(results, problem=None)

    sample_sets.check_names(options["protocol"].relevance_options)

    from reid_torchmetrics.metrics.reid import ReIDMetrics  # noqa: PLC0415 - TorchMetrics takes a second

    metric = ReIDMetrics(ground_truth=ground_truth, **options)
    with warnings.catch_warnings():
        # Samples without `is_query` are those of both roles here.
        warnings.filterwarnings("ignore", "Some batches were given with `is_query` and some without")
        for embeddings, is_query, labels in sample_sets.batches(share):
            metric.update(embeddings, is_query=is_query, **labels)
        if arguments.report is None:
            return metric.results()
        has_cameras = all("cameras" in sample_set.columns for sample_set in sample_sets.values())
        return metric.results(nearest=10, camera_pairs=has_cameras)


def _number_samples(sample_sets: SampleSets, *, has_lists: bool) -> None:
    """Number samples as lists in a file of ground truth do, by the rows of each role, and those of mixed roles by rows.

    To a metric, samples of mixed roles come role by role.
    """
    for sample_set in sample_sets.values():
        if not has_lists:
            if are_mixed(sample_set.roles):
                sample_set.columns.setdefault("index", np.arange(len(sample_set)))
                if "groups" in sample_set.columns:
                    raise ValueError("`groups` must come without rows that are queries and gallery items; got both.")
            continue
        if "index" in sample_set.columns:
            path = sample_set.files[0].path
            raise ValueError(f"{path}: `index` must come without `--ground-truth`, whose lists number rows; got both.")
        flags = sample_set.columns.get("roles", np.ones((len(sample_set), 2), dtype=bool))
        is_query, is_gallery = flags.T
        sample_set.columns["index"] = np.where(is_query, is_query.cumsum(), is_gallery.cumsum()) - 1


def _reason_against_metric(sample_sets: SampleSets, options: Mapping[str, Any], *, has_lists: bool) -> str:
    """Return the name of an option, or of a property of the files, that metrics do not have; empty if there is none."""
    for name in _OPTIONS_WITHOUT_METRIC:
        if name in options:
            return name
    query_set = sample_sets.query
    if query_set.kind != "embeddings":
        return query_set.kind
    # To a metric, a query in a file of its own is no gallery item; and lists number queries and gallery apart.
    if sample_sets.self_index is not None or (has_lists and are_mixed(query_set.roles)):
        return "roles"
    return ""


def _evaluate_matrix(sample_sets: SampleSets, options: Mapping[str, Any]) -> RetrievalResults:
    """Return the results of distances or scores."""
    file = sample_sets.query.files[0]
    check_matrix_options(file.kind, options)
    matrix_options = {name: value for name, value in options.items() if name not in NEED_EMBEDDINGS}
    rows, self_index = sample_sets.rows_by_role()
    labels: dict[str, Any] = {}
    for role, (sample_set, rows_of_role) in rows.items():
        for name, values in sample_set.labels(rows_of_role).items():
            if role in LABELS[name].sides:
                labels[f"{role}_{name}"] = values
    _, query_rows = rows["query"]
    if "gallery" in rows:
        _, gallery_rows = rows["gallery"]
        matrix: Any = file.embeddings[query_rows][:, gallery_rows]  # slices copy nothing
        protocol = matrix_options["protocol"]
        if self_index is None and protocol.leave_one_out:
            num_rows, num_columns = matrix.shape
            if num_rows != num_columns:
                reason = f"under protocol {protocol.name!r}, which searches each item among the others"
                raise ValueError(f"{file.path}: `{file.kind}` must be square {reason}; got {list(matrix.shape)}.")
            self_index = np.arange(num_rows)
    else:  # each item among the others
        matrix = file.embeddings[query_rows][:, query_rows]
        self_index = np.arange(len(matrix))
        labels = labels | {name.replace("query_", "gallery_"): values for name, values in labels.items()}
    return evaluate_scores(**{file.kind: matrix}, **labels, self_index=self_index, **matrix_options)


@contextmanager
def naming_bad_rows(files: Sequence[data.SampleFile]) -> Iterator[None]:
    """Replace an error within by one with the file and the rows, if some embeddings or scores are not finite."""
    try:
        yield
    except (ValueError, DistributedMetricError):
        _raise_for_bad_rows(files)
        raise


def _raise_for_bad_rows(files: Sequence[data.SampleFile]) -> None:
    """Raise if some embeddings are not finite, or some distances or scores NaN, with their file and rows."""
    for file in files:
        (values,) = _arrays.as_tensors(file.embeddings[:])
        if file.kind != "embeddings":
            rows = values.isnan().any(dim=1).nonzero()[:, 0].tolist()
            if rows:
                got = f"{len(rows)} rows with NaN, first {rows[0]}"
                raise ValueError(f"{file.path}: {file.kind} must not be NaN; got {got}.")
            return  # the gallery has the same matrix
        rows = Rows([values]).non_finite().tolist()
        if rows:
            got = f"{len(rows)} rows that are not, first {rows[0]}"
            raise ValueError(f"{file.path}: embeddings must be finite; got {got}.")
