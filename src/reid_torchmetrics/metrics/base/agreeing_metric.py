"""Adapts `torchmetrics.Metric` so that all processes agree on how `compute` ends: with a value, or with an error."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torchmetrics import Metric

from reid_torchmetrics.functional.world import ALONE, Alone

from .process_group import DistributedWorld


class AgreeingMetric(Metric):
    """A metric whose processes all raise what one of them raises in `compute`, or wherever it is `_synced`."""

    _world: DistributedWorld | Alone = ALONE
    """the processes that share the samples, while they are several and the metric is synced"""
    _concludes = False
    """whether all processes are to learn of whatever fails while the metric is synced"""

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
        """Raise on all processes what is raised on one, if the metric computes."""
        world = self._world if self._concludes else ALONE
        try:
            yield
        except Exception as error:
            world.conclude(error)
            raise
        world.conclude(None)

    @contextmanager
    def _concluding(self) -> Iterator[None]:
        self._concludes = True
        try:
            yield
        finally:
            self._concludes = False

    def _wrap_compute(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        """As in the base class, which copies the value: if one process fails to, none may remember it."""
        wrapped = super()._wrap_compute(compute)

        @functools.wraps(compute)
        def computing(*args: Any, **kwargs: Any) -> Any:
            with self._concluding():
                return wrapped(*args, **kwargs)

        return computing

    @contextmanager
    def _synced(self) -> Iterator[None]:
        """Combine the processes for a while, under the same conditions as `compute` does."""
        with (
            self._concluding(),
            self.sync_context(
                dist_sync_fn=self.dist_sync_fn,
                should_sync=self._to_sync and not self._is_synced,
                should_unsync=not self._is_synced,
            ),
        ):
            yield
