"""Prefetching: an iterator that runs on its own thread, a few items ahead of its consumer."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, Self, TypeVar

T = TypeVar("T")


class Prefetch(Generic[T]):
    """The items of an iterable in their order, made on another thread, at most `depth` of them waiting.

    What `make` raises is raised by `next`, after the items before it. The thread ends with the items, with an error, or
    when `close` is called, which also closes the iterable; `make` is given a function that returns whether it
    was called.

    >>> with Prefetch(lambda closed: range(3), depth=2) as items:
    ...     list(items)
    [0, 1, 2]
    """

    def __init__(self, make: Callable[[Callable[[], bool]], Iterable[T]], depth: int) -> None:
        self._make, self._depth = make, depth
        self._items: deque[T] = deque()
        self._error: BaseException | None = None
        self._done = self._closed = False
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="proxstream-read-ahead", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            items = iter(self._make(lambda: self._closed))
            try:
                while not self._closed:
                    try:
                        item = next(items)
                    except StopIteration:
                        break
                    self._put(item)
            finally:
                if hasattr(items, "close"):
                    items.close()
        except BaseException as raised:
            error = raised
        with self._change:
            self._done, self._error = True, error
            self._change.notify_all()

    def _put(self, item: T) -> None:
        with self._change:
            self._change.wait_for(lambda: len(self._items) < self._depth or self._closed)
            self._items.append(item)
            self._change.notify_all()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        with self._change:
            self._change.wait_for(lambda: bool(self._items) or self._done or self._closed)
            if self._items and not self._closed:
                item = self._items.popleft()
                self._change.notify_all()
                return item
            error, self._error = self._error, None
        self.close()
        if error is not None:
            raise error
        raise StopIteration

    def close(self) -> None:
        """End the thread and wait until it has ended."""
        with self._change:
            self._closed = True
            self._items.clear()
            self._change.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
