"""The numbers of results by their names: looked up, as tables, in notebooks and as figures."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

from reid_torchmetrics import _checks, _extras, _hints, _names

from .model_tables import Tabled, in_words

Value = TypeVar("Value")


class ByName(dict[str, Value]):
    """Numbers by name; for another name the error lists the names."""

    def __missing__(self, name: object) -> Value:
        raise KeyError(f"`name` must be one of {', '.join(map(repr, self))}; got {name!r}{self.hint(name)}.")

    def hint(self, name: object) -> str:
        """The name that was meant, in words."""
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
        """The numbers, `ByName`."""

    @property
    @abstractmethod
    def conventions(self) -> dict[str, str]:
        """How each number was computed, in words."""

    _ROWS = ""
    """what has a row of `_columns`"""

    @abstractmethod
    def _columns(self) -> dict[str, Any]:
        """The columns of a table, the index first."""

    def __contains__(self, name: object) -> bool:
        return name in self.means

    def __iter__(self) -> Iterator[str]:
        return iter(self.means)

    def __len__(self) -> int:
        return len(self.means)

    def __getitem__(self, name: str) -> float:
        return self.means[name]

    if not TYPE_CHECKING:  # a type checker would take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            # Without fields, as while it is unpickled, there are no numbers yet.
            keys = [*self.means] if vars(self) and not name.startswith("_") else ()
            meant = (key for key in keys if key.replace("_", "") == name.lower().replace("_", ""))  # mAP, rank1
            hint = next((f": write `results[{key!r}]`" for key in meant), "")
            if name in _hints.ATTRIBUTES:
                hint = f": {_hints.ATTRIBUTES[name]}"
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=self)

    def to_frame(self, per: _names.FramePer = "number") -> Any:
        """The numbers as a `pandas.DataFrame`.

        Args:
            per: what has a row: a "number" with its value and its convention; a "query" of a retrieval, indexed by
                `query_index`; a "class" of a detection, indexed by its name.

        Raises:
            ModuleNotFoundError: pandas is not installed.
            ValueError: results without such rows.
        """
        _checks.one_of("per", per, ("number", self._ROWS))
        import pandas as pd  # noqa: PLC0415 - an optional package

        if per == "number":
            return pd.DataFrame({"value": self.means, "convention": self.conventions}).rename_axis(per)
        columns = self._columns()
        first, *_ = columns
        return pd.DataFrame(columns).set_index(first)

    def _repr_html_(self) -> str:
        """A table for notebooks: the numbers between the first and the last line of the text."""
        above, *_, below = map(escape, str(self).splitlines())
        rows = (f"<tr><th>{escape(name)}</th><td>{in_words(mean)}</td></tr>" for name, mean in self.means.items())
        return f"<table><caption>{above}</caption>{''.join(rows)}</table><p>{below}</p>"

    def plot(self, figure: str | None = None, *, ax: Any = None) -> Any:
        """Draw a figure: of a retrieval the CMC, of a detection precision over recall, or another one by its name.

        Args:
            figure: "cmc", "precision_recall" or "first_ranks" of a retrieval; "precision_recall", "confidence",
                "confusion_matrix", "confusion_counts" or "kinds_of_errors" of a detection.
            ax: Matplotlib axes to draw into; None for a new figure.

        Returns:
            The figure and its axes.

        Raises:
            ModuleNotFoundError: Matplotlib is not installed.
            ValueError: an unknown figure, or results without what it shows.
        """
        _extras.require("A figure", "matplotlib")
        rows = _extras.pictures().FIGURES[type(self)]
        first, *_ = rows
        figure = first if figure is None else figure
        _checks.one_of("figure", figure, rows)
        if why_not := rows[figure].why_not(self):
            raise ValueError(f"`figure` must be one that the results have; got {figure!r}: {why_not}")
        return rows[figure].plot(self, ax=ax)


def json_safe(value: float) -> float | None:
    """A number as JSON has it: None for one that is undefined or infinite."""
    return value if math.isfinite(value) else None
