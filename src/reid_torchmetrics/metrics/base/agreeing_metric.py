"""Adapts `torchmetrics.Metric` so that all ranks agree on how `compute` ends: with a value, or with an error."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torchmetrics import Metric

from reid_torchmetrics.metrics.base.process_group import Group


class AgreeingMetric(Metric):
    """A metric whose ranks all raise what one of them raises in `compute`, or wherever it is `_synced`."""

    _group: Group | None = None
    """the processes that share the samples, while they are several and the metric is synced"""
    _concludes = False
    """whether all ranks are to learn of whatever fails while the metric is synced"""

    @contextmanager
    def sync_context(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        """As in the base class, but an exception inside leaves the metric unsynced and usable."""
        try:
            with super().sync_context(*args, **kwargs), self._agreeing():
                yield
        except BaseException:
            if self._is_synced:
                self.unsync()
            raise

    @contextmanager
    def _agreeing(self) -> Iterator[None]:
        """Raise on all ranks what is raised on one, if the metric computes."""
        group = self._group if self._concludes else None
        try:
            yield
        except Exception as error:
            if group is not None:
                group.conclude(error)
            raise
        if group is not None:
            group.conclude(None)

    @contextmanager
    def _concluding(self) -> Iterator[None]:
        self._concludes = True
        try:
            yield
        finally:
            self._concludes = False

    def _wrap_compute(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        """As in the base class, which copies the value: if one rank fails to, none may remember it."""
        wrapped = super()._wrap_compute(compute)

        @functools.wraps(compute)
        def computing(*args: Any, **kwargs: Any) -> Any:
            with self._concluding():
                return wrapped(*args, **kwargs)

        return computing

    @contextmanager
    def _synced(self) -> Iterator[None]:
        """Combine the ranks for a while, under the same conditions as `compute` does."""
        with (
            self._concluding(),
            self.sync_context(
                dist_sync_fn=self.dist_sync_fn,
                should_sync=self._to_sync and not self._is_synced,
                should_unsync=not self._is_synced,
            ),
        ):
            yield
