"""Results as mappings of names to numbers, with tables for notebooks and pandas, and figures."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from reid_torchmetrics import _checks, _extras, _hints, _names

from .displays import Display
from .model_tables import ModelTable, Number, Tabled

Value = TypeVar("Value")


class ByName(dict[str, Value]):
    """A dict of numbers by name; the error for an unknown name lists the names."""

    def __missing__(self, name: object) -> Value:
        raise KeyError(f"`name` must be one of {_checks.listed(self, near=name)}; got {name!r}{self.hint(name)}.")

    def hint(self, name: object) -> str:
        """Return a hint at the name that was meant, for an error; "" if there is none."""
        return _hints.value_meant(name, self)


class NamedNumbers(Tabled, Mapping[str, float]):
    """Results as a mapping of names to numbers: `results["map"]`, `results.items()`, `pandas.Series(results)`.

    Two results are equal only if they are the same object.
    """

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    @abstractmethod
    def means(self) -> dict[str, float]:
        """Return the numbers as a `ByName`."""

    @property
    @abstractmethod
    def numbers(self) -> Mapping[str, Number]:
        """Return the numbers with their titles, units and conventions."""

    @property
    def conventions(self) -> dict[str, str]:
        """The convention of each number, in words."""
        by_name: Any = type(self.means)  # its errors are about the same names
        conventions: dict[str, str] = by_name({name: number.convention for name, number in self.numbers.items()})
        return conventions

    @property
    @abstractmethod
    def _setting(self) -> str:
        """Return a text about the evaluation for the caption of a table."""

    _ROWS = ""
    """the rows of `_columns`, such as "query" for retrieval"""

    @abstractmethod
    def _columns(self) -> dict[str, Any]:
        """Return the columns of a table by name, the index first."""

    def model_table(self, name: str = "model") -> ModelTable:
        """Return a table, as papers have it, with one row: that of the model, by its name."""
        return ModelTable({name: self.numbers}, self._setting)

    def __contains__(self, name: object) -> bool:
        return name in self.means

    def __iter__(self) -> Iterator[str]:
        return iter(self.means)

    def __len__(self) -> int:
        return len(self.means)

    def __getitem__(self, name: str) -> float:
        return self.means[name]

    def to_frame(self, per: _names.FramePer = "number") -> Any:
        """Return the numbers as a `pandas.DataFrame`.

        Args:
            per: the rows of the table: "number" has the value and the convention of each number; "query", for
                retrieval, the values of each query, indexed by `query_index`; "class", for detection, the values of
                each class, indexed by its name.

        Raises:
            ModuleNotFoundError: pandas is not installed.
            ValueError: results without such rows.
        """
        _checks.one_of("per", per, ("number", self._ROWS))
        _extras.require("A DataFrame", "pandas")
        import pandas as pd  # noqa: PLC0415 - an optional package

        if per == "number":
            return pd.DataFrame({"value": self.means, "convention": self.conventions}).rename_axis(per)
        columns = self._columns()
        index, *_ = columns
        return pd.DataFrame(columns).set_index(index)

    def _display(self) -> Display:
        """Return a table of the numbers between the first and the last line of the text."""
        first_line, *_, last_line = str(self).splitlines()
        rows = [(name, number.text()) for name, number in self.numbers.items()]
        return Display(first_line, rows=rows, notes=[last_line.strip()])

    def plot(self, figure: str | None = None, *, ax: Any = None) -> Any:
        """Draw a figure of the results: by default the CMC for retrieval, and precision over recall for detection.

        Args:
            figure: "cmc", "precision_recall" or "first_ranks" for retrieval; "precision_recall", "confidence",
                "confusion_matrix" or "kinds_of_errors" for detection.
            ax: Matplotlib axes to draw into; None for a new figure.

        Returns:
            The figure and its axes.

        Raises:
            ModuleNotFoundError: Matplotlib is not installed.
            ValueError: an unknown figure, or results without the values that it shows.
        """
        _extras.require("A figure", "matplotlib")
        figures = _extras.pictures().FIGURES[type(self)]
        if figure is None:
            figure, *_ = figures
        _checks.one_of("figure", figure, figures)
        reason = figures[figure].why_not(self)
        if reason:
            raise ValueError(f"`figure` must be one that the results have; got {figure!r}: {reason}")
        return figures[figure].plot(self, ax=ax)
