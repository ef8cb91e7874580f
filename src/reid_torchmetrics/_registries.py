"""Registries: rows by name, to which tasks and users add rows.

The engine neither imports nor lists the tasks. `reid_torchmetrics/__init__.py` fills `TASKS`, and the first look-up of
a row that a task adds imports this task:

    EVALUATORS["lvis"] -- TASKS["EVALUATORS"]["lvis"]() --> the task is imported, and sets EVALUATORS["lvis"]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, TypeVar

Row = TypeVar("Row")

TASKS: dict[str, dict[str, Callable[[], Any]]] = {}
"""functions that import a task, by the title of a registry and the name of a row that the task adds to it"""


class Registry(MutableMapping[str, Row]):
    """Rows by name: the rows of the engine and of users first, then the rows of tasks, which are imported when needed.

    Looking up a row of a task that is not installed raises a ModuleNotFoundError, which names the missing module.
    """

    def __init__(self, title: str, rows: Mapping[str, Row]) -> None:
        self._title = title
        self._rows = dict(rows)

    def __getitem__(self, name: str) -> Row:
        if name not in self._rows and name in self._tasks():
            self._tasks()[name]()
        return self._rows[name]

    def __setitem__(self, name: str, row: Row) -> None:
        self._rows[name] = row

    def __delitem__(self, name: str) -> None:
        del self._rows[name]

    def __contains__(self, name: object) -> bool:
        return name in self._rows or name in self._tasks()

    def __iter__(self) -> Iterator[str]:
        # The order does not depend on the tasks that are imported already.
        tasks = self._tasks()
        yield from [name for name in self._rows if name not in tasks]
        yield from tasks

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _tasks(self) -> dict[str, Callable[[], Any]]:
        return TASKS.get(self._title, {})
