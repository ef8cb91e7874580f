"""What a subcommand prints and writes: text or JSON, a results file, a report, pictures; and a status of failure.

All paths are checked before anything is computed. Files are written beside their places and renamed, when all
numbers are there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from itertools import combinations, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from reid_torchmetrics import _checks
from reid_torchmetrics._files import write_whole
from reid_torchmetrics.functional.model_tables import ModelTable
from reid_torchmetrics.plot import FIGURES, one_warning_of_glyphs, plot_comparison
from reid_torchmetrics.report import write_report

from .kinds import named_values
from .terminal import PROGRAM, say

_STANDARD = "-"
_TABLES = {"markdown": ModelTable.markdown, "latex": ModelTable.latex, "csv": ModelTable.csv}


class Outputs:
    """Where results go."""

    def __init__(self, arguments: SimpleNamespace, inputs: Iterable[object], kinds: Sequence[str] = ("",)) -> None:
        """Read the options, and check the paths; results of several `kinds` are files of their own.

        Raises:
            OSError: a path that cannot be written to.
            ValueError: `--fail-under` of another form, a form of text that is not printed, or a path that is one of the
                `inputs` or another output.
        """
        self._to, self._least = arguments, named_values("--fail-under", arguments.fail_under, float)
        if arguments.json == _STANDARD and (arguments.format, arguments.decimals) != (None, None):
            raise ValueError("`--json -` must come without `--format` and `--decimals`, as it prints JSON; got both.")
        if arguments.decimals is not None:
            _checks.positive_int("--decimals", arguments.decimals, 0)
        written = [] if arguments.json in {None, _STANDARD} else [Path(arguments.json)]
        of_kinds = [path for path in (arguments.save, arguments.report) if path is not None]
        written += [_named(path, kind) for path in of_kinds for kind in kinds]
        for path in written:
            _check_writable(path, is_folder=False)
        if arguments.pictures is not None:
            _check_writable(Path(arguments.pictures), is_folder=True)
        # No file is written over one that is read, or twice; also through links.
        paths = [Path(str(each)) for each in (*inputs, *(arguments.config or ())) if each is not None]
        read = [file for path in paths for file in (path.iterdir() if path.is_dir() else [path])]
        for other, path in (*product(read, written), *combinations(written, 2)):
            if path.resolve() == other.resolve() or (path.exists() and other.exists() and path.samefile(other)):
                raise ValueError(f"{path}: must be another file than {other} to write to; got the same.")

    @one_warning_of_glyphs()
    def write(self, results: Mapping[str, Any], *, shown: Any = None, **of_report: Any) -> int:
        """Write results, each kind by the prefix of its names, and return the exit status.

        The report is about `shown` if given, as a page is about one model.

        Raises:
            OSError: a file that cannot be written.
            ValueError: `--fail-under` names a number that the results do not have.
        """
        # Of a comparison those of the second model.
        of_models = {kind: [*each.model_table().rows.values()][:2][-1] for kind, each in results.items()}
        numbers = {f"{kind}{name}": value for kind, of in of_models.items() for name, value in of.items()}
        for name in self._least:
            if name not in numbers:
                raise ValueError(f"`--fail-under` must name one of {', '.join(numbers)}; got {name!r}.")
        # The text is last: it says that all files are there.
        for kind, each in results.items():
            if self._to.report is not None:
                write_report(each if shown is None else shown, _named(self._to.report, kind), **of_report)
            if self._to.save is not None:
                each.save(_named(self._to.save, kind))
            if self._to.pictures is not None:
                _draw(each, Path(self._to.pictures), kind)
        parts = {kind.rstrip("_"): each.to_dict() for kind, each in results.items()}
        text = json.dumps(parts.get("", parts), indent=1, allow_nan=False)
        if self._to.json not in {None, _STANDARD}:
            write_whole(Path(self._to.json), f"{text}\n".encode())
        print(text if self._to.json == _STANDARD else self._text(results))  # noqa: T201
        low = [name for name, least in self._least.items() if not numbers[name] >= least]  # NaN, too
        for name in low:
            say(f"{PROGRAM}: {name} is {numbers[name]:.6g}, below {self._least[name]:.6g}")
        return 1 if low else 0

    def _text(self, results: Mapping[str, Any]) -> str:
        """The numbers in percent: text, or tables with the models as rows."""
        written, decimals = _TABLES.get(self._to.format), self._to.decimals
        if written is None:
            return "\n\n".join(f"{each:.{2 if decimals is None else decimals}%}" for each in results.values())
        # Of several kinds each has a row of its name.
        tables = (each.model_table(*filter(None, [kind.rstrip("_")])) for kind, each in results.items())
        return "\n\n".join(written(each, 1 if decimals is None else decimals) for each in tables)


def _draw(results: Any, folder: Path, kind: str) -> None:
    rows = FIGURES.get(type(results), {})
    plots: dict[str, Any] = {name: row.plot for name, row in rows.items() if not row.why_not(results)}
    for name, plot in (plots or {"comparison": plot_comparison}).items():
        contents = BytesIO()
        plot(results)[0].savefig(contents, format="png", dpi=150)
        write_whole(folder / f"{kind}{name}.png", contents.getvalue())


def _named(path: str, kind: str) -> Path:
    """The path of one of several kinds of results: report.html, report_segm.html."""
    whole = Path(path)
    return whole.with_stem(f"{whole.stem}_{kind.rstrip('_')}") if kind else whole


def _check_writable(path: Path, *, is_folder: bool) -> None:
    if path.exists() and path.is_dir() != is_folder:
        raise OSError(f"{path}: must be a {'folder' if is_folder else 'file'} to write to; got another.")
    # Folders that do not exist are made, in the first one that does.
    above = next((each for each in (path, *path.absolute().parents) if each.exists()), path)
    if (above != path and not above.is_dir()) or not os.access(above, os.W_OK):
        raise OSError(f"{path}: must be a path to write to; got one in {above}, which is not writable.")
