"""What can go wrong. Every error says what failed and, where there is something to do about it, has a ``hint``."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence


class TensorGridError(Exception):
    """The program failed, or a grid refused.

    Attributes:
        message: What failed, the causes after colons.
        hint: What to do about it, or None.
        causes: What failed, outermost first.
        exit_code: The exit code of the command, or None if none was run.
    """

    def __init__(
        self,
        message: str,
        hint: Optional[str] = None,
        causes: Sequence[str] = (),
        exit_code: Optional[int] = None,
    ) -> None:
        super().__init__(message if not hint else f"{message}\nhint: {hint}")
        self.message = message
        self.hint = hint
        self.causes = tuple(causes) or (message,)
        self.exit_code = exit_code


class FailedError(TensorGridError):
    """The program failed at something that it should be able to do."""


class UsageError(TensorGridError, ValueError):
    """An argument, or a file given, is wrong: a model that has no program, an input of another shape."""


class InvalidInputError(UsageError):
    """An array that no model takes, found before the program was asked."""


class RejectedError(TensorGridError):
    """A proof, receipt or job was rejected.

    Attributes:
        check: The check of a proof that failed, or None.
        code: Its stable code, or None.
    """

    check: Optional[str] = None
    code: Optional[str] = None


class NotFoundError(TensorGridError, LookupError):
    """What was asked for does not exist."""


class GridUnavailableError(TensorGridError, ConnectionError):
    """The grid cannot be reached."""


class JobFailedError(TensorGridError):
    """A job ended without a result.

    Attributes:
        state: How it ended: ``refunded``, ``expired`` or ``cancelled``.
    """

    state: str = ""


class MissingDependencyError(TensorGridError, ImportError):
    """A package, or the program itself, is not installed."""


_BY_EXIT = {
    1: FailedError,
    2: UsageError,
    3: RejectedError,
    4: NotFoundError,
    5: GridUnavailableError,
}


def of_report(report: Mapping[str, Any], exit_code: int) -> TensorGridError:
    """The error of a command's report: its chain, its hint, its exit code."""
    causes = [str(cause) for cause in report.get("error") or ["the program failed"]]
    kind = _BY_EXIT.get(exit_code, TensorGridError)
    return kind(": ".join(causes), report.get("hint"), causes, exit_code)
