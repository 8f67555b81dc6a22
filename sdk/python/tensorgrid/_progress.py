"""A line on the error stream that says how far a job is."""

from __future__ import annotations

import sys
import time
from typing import Optional, TextIO

_STATES = ("submitted", "queued", "leased", "running", "committed", "verifying", "accepted", "paid")
_ENDED = ("paid", "refunded", "expired", "cancelled")
_WIDTH = 24


class Bar:
    """Draws a bar that grows with the states of a job: over itself in a terminal, else a line for each state."""

    def __init__(self, job: str, stream: Optional[TextIO] = None) -> None:
        self._job = job[:10]
        self._stream = sys.stderr if stream is None else stream
        self._began = time.monotonic()

    def __call__(self, state: str) -> None:
        if state in _STATES:
            done = (_STATES.index(state) + 1) * _WIDTH // len(_STATES)
        else:
            # Ended without a result, or one that a later grid has.
            done = _WIDTH if state in _ENDED else 0
        bar = "#" * done + "-" * (_WIDTH - done)
        text = f"job {self._job} [{bar}] {state}, {time.monotonic() - self._began:.0f} s"
        if self._stream.isatty():
            # What a longer line before it left is taken away.
            text = f"\r{text}\x1b[K" + ("\n" if state in _ENDED else "")
        else:
            text += "\n"
        self._stream.write(text)
        self._stream.flush()
