"""Outputs of a subcommand: text or JSON, a results file, a report, pictures, and an exit status for low numbers.

All paths are checked before anything is computed. Files are written under temporary names and renamed, when all
numbers are there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from io import BytesIO
from itertools import combinations, product
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.files import write_whole
from reid_torchmetrics.functional.model_tables import TABLE_FORMATS, Number

from .terminal import PROGRAM, log, show
from .values import named_values

if TYPE_CHECKING:  # few evaluations are of an index
    from reid_torchmetrics.tasks import IndexRecall

_STANDARD_OUTPUT = "-"


class ReportImages(NamedTuple):
    """Pictures for a report, and names of their files; None where there are none."""

    pictures: Any = None
    """pictures of queries, or of the images of a data set, by their numbers or names"""
    gallery_pictures: Any = None
    names: Mapping[Any, str] | None = None
    gallery_names: Mapping[int, str] | None = None
    box_format: _names.BoxFormat | None = None
    """the format of boxes, for detections"""


_NO_IMAGES = ReportImages()


class Outputs:
    """The paths, forms and thresholds for the results of a command line; all paths can be written to."""

    def __init__(self, arguments: SimpleNamespace, prefixes: Sequence[str] = ("",)) -> None:
        """Read the options, and check the paths; results of each prefix are files of their own.

        Raises:
            OSError: a path that cannot be written to.
            ValueError: `--fail-under` of another form, a form of text that is not printed, or a path that is one of the
                inputs or another output.
        """
        self._arguments = arguments
        self._thresholds = named_values("--fail-under", arguments.fail_under, float)
        prints_json = arguments.json == _STANDARD_OUTPUT
        if prints_json and (arguments.format is not None or arguments.decimals is not None):
            raise ValueError("`--json -` must come without `--format` and `--decimals`, as it prints JSON; got both.")
        if arguments.decimals is not None:
            _checks.positive_int("--decimals", arguments.decimals, 0)

        output_files = self._find_output_files(prefixes)
        for file in output_files:
            _check_writable(file, is_folder=False)
        self._written = [*output_files]
        if arguments.pictures is not None:
            _check_writable(Path(arguments.pictures), is_folder=True)
            self._written.append(Path(arguments.pictures))

        # No file is written over an input, or twice; also through links.
        input_files: list[Path] = []
        for path in map(Path, (*arguments.inputs, *(arguments.config or ()))):
            input_files.extend(path.iterdir() if path.is_dir() else [path])
        for other, file in (*product(input_files, output_files), *combinations(output_files, 2)):
            is_same = file.resolve() == other.resolve() or (file.exists() and other.exists() and file.samefile(other))
            if is_same:
                raise ValueError(f"{file}: must be another file than {other} to write to; got the same.")

    def write(
        self,
        results: Mapping[str, Any],
        *,
        reported: Any = None,
        comparison: Any = None,
        images: ReportImages = _NO_IMAGES,
        recall: IndexRecall | None = None,
    ) -> int:
        """Write results, by the prefix of their names, and return the exit status.

        Args:
            results: of each prefix.
            reported: the results on the page of the report, which is about one model; None: each of `results`.
            comparison: of models, for the page.
            images: the images on the page.
            recall: of a vector index, which is printed before the results.

        Raises:
            OSError: a file that cannot be written.
            ValueError: `--fail-under` names a number that the results do not have.
        """
        numbers: dict[str, Number] = {}
        for prefix, part in results.items():
            # A comparison has the numbers of its second model.
            *_, numbers_of_model = list(part.model_table().rows.values())[:2]
            numbers |= {f"{prefix}{name}": number for name, number in numbers_of_model.items()}
        if recall is not None:
            name = f"index_recall_{recall.k}"
            numbers[name] = Number(name, name, recall.mean, convention="")
        self._check_thresholds(numbers)
        if any(path is not None for path in (self._arguments.save, self._arguments.report, self._arguments.pictures)):
            self._write_files(results, reported, comparison, images)

        # The text is last: it says that all files are there.
        contents = {prefix.rstrip("_"): part.to_dict() for prefix, part in results.items()}
        contents = contents.get("", contents)
        if recall is not None:
            contents["index_recall"] = recall.to_dict()
        text = json.dumps(contents, indent=1, allow_nan=False)
        if self._arguments.json == _STANDARD_OUTPUT:
            print(text)  # noqa: T201
        else:
            if self._arguments.json is not None:
                write_whole(Path(self._arguments.json), f"{text}\n".encode())
            printed = print if self._arguments.format in TABLE_FORMATS else show
            printed(self._text(results, recall))
        log(*(f"wrote {path}" for path in self._written))
        status = 0
        for name, threshold in self._thresholds.items():
            if not numbers[name].value >= threshold:  # NaN fails, too
                log(f"{PROGRAM}: {name} is {numbers[name].value:.6g}, below {threshold:.6g}")
                status = 1
        return status

    def _check_thresholds(self, numbers: Mapping[str, Number]) -> None:
        """Raise if `--fail-under` names a number that is not there, or has a bound for a share that none reaches."""
        for name in self._thresholds:
            if name not in numbers:
                names = _checks.listed(numbers, str, near=name)
                raise ValueError(f"`--fail-under` must name one of {names}; got {name!r}.")
        for name, threshold in self._thresholds.items():
            if threshold > 1 and numbers[name].is_share:
                rule = f"must be a share of 1 for {name}, such as {threshold / 100:g} for {threshold:g} %"
                raise ValueError(f"`--fail-under` {rule}; got {name}={threshold:g}.")

    def _find_output_files(self, prefixes: Sequence[str]) -> list[Path]:
        """Return the paths of all files, without those of pictures."""
        files = []
        if self._arguments.json not in (None, _STANDARD_OUTPUT):
            files.append(Path(self._arguments.json))
        for path in (self._arguments.save, self._arguments.report):
            if path is not None:
                files.extend(_add_prefix(path, prefix) for prefix in prefixes)
        return files

    def _write_files(self, results: Mapping[str, Any], reported: Any, comparison: Any, images: ReportImages) -> None:
        """Write the report, the results file and the figures of each prefix, as far as there are paths."""
        from reid_torchmetrics.plot import one_warning_of_glyphs  # noqa: PLC0415 - most commands print numbers alone

        with one_warning_of_glyphs():
            for prefix, part in results.items():
                if self._arguments.report is not None:
                    from reid_torchmetrics.report import write_report  # noqa: PLC0415

                    write_report(
                        part if reported is None else reported,
                        _add_prefix(self._arguments.report, prefix),
                        comparison=comparison,
                        pictures=images.pictures,
                        gallery_pictures=images.gallery_pictures,
                        image_names=images.names,
                        gallery_image_names=images.gallery_names,
                        box_format=images.box_format,
                    )
                if self._arguments.save is not None:
                    part.save(_add_prefix(self._arguments.save, prefix))
                if self._arguments.pictures is not None:
                    _draw(part, Path(self._arguments.pictures), prefix)

    def _text(self, results: Mapping[str, Any], recall: IndexRecall | None) -> str:
        """Return the numbers in percent: as text, or as tables with a row per model, which are about results alone."""
        write_table = TABLE_FORMATS.get(self._arguments.format)
        decimals = self._arguments.decimals
        if write_table is None:
            places = 2 if decimals is None else decimals
            parts = list(results.values()) if recall is None else [recall, *results.values()]
            return "\n\n".join(f"{part:.{places}%}" for part in parts)
        tables = []
        for prefix, part in results.items():
            name = prefix.rstrip("_")
            table = part.model_table(name) if name else part.model_table()
            tables.append(write_table(table, 1 if decimals is None else decimals))
        return "\n\n".join(tables)


def _draw(results: Any, folder: Path, prefix: str) -> None:
    """Write all figures of results as pictures in a folder."""
    from reid_torchmetrics.plot import FIGURES, plot_comparison  # noqa: PLC0415

    plots: dict[str, Any] = {}
    for name, row in FIGURES.get(type(results), {}).items():
        if not row.why_not(results):
            plots[name] = row.plot
    for name, plot in (plots or {"comparison": plot_comparison}).items():
        contents = BytesIO()
        figure, _ = plot(results)
        figure.savefig(contents, format="png", dpi=150)
        write_whole(folder / f"{prefix}{name}.png", contents.getvalue())


def _add_prefix(path: str, prefix: str) -> Path:
    """Return the path for results of one prefix: report.html, report_segm.html."""
    file = Path(path)
    return file.with_stem(f"{file.stem}_{prefix.rstrip('_')}") if prefix else file


def _check_writable(path: Path, *, is_folder: bool) -> None:
    """Raise unless a file or folder can be written at a path, in folders that exist or can be made."""
    if path.exists() and path.is_dir() != is_folder:
        raise OSError(f"{path}: must be a {'folder' if is_folder else 'file'} to write to; got another.")
    # Folders that do not exist are made, in the first one that does.
    existing = path
    for candidate in (path, *path.absolute().parents):
        if candidate.exists():
            existing = candidate
            break
    is_writable = os.access(existing, os.W_OK) and (existing == path or existing.is_dir())
    if not is_writable:
        raise OSError(f"{path}: must be a path to write to; got one in {existing}, which is not writable.")
