"""The ``tensorgrid`` program: where it is, and how it is asked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Iterator, List, Optional, Sequence, Union

from .errors import MissingDependencyError, RejectedError, TensorGridError, of_report

Progress = Callable[[str], None]
"""Called with each line that the program says while it works."""

_NAME = "tensorgrid.exe" if sys.platform == "win32" else "tensorgrid"


def binary_path() -> Path:
    """The program: the file named by ``TENSORGRID_BINARY``, the one that the wheel carries, or the one on the search path.

    Raises:
        MissingDependencyError: If there is none.
    """
    named = os.environ.get("TENSORGRID_BINARY")
    if named:
        if not Path(named).is_file():
            raise MissingDependencyError(f"TENSORGRID_BINARY names {named}, and there is no such file")
        return Path(named)
    carried = Path(__file__).parent / "bin" / _NAME
    if carried.is_file():
        return carried
    found = shutil.which(_NAME)
    # The console script of this package would ask for the program in turn.
    if found and not _is_script(Path(found)):
        return Path(found)
    raise MissingDependencyError(
        "the tensorgrid program is not here: this package was installed without it",
        "install the wheel that `cargo xtask wheel` makes, or set TENSORGRID_BINARY",
    )


def _is_script(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


def ask(arguments: Sequence[Union[str, Path]], progress: Optional[Progress] = None) -> Any:
    """Runs a command with ``--json`` and returns the value that it prints.

    Raises:
        TensorGridError: Of the type for its exit code, with its message and hint.
    """
    process = _start(arguments)
    said: List[str] = []
    listener = threading.Thread(target=_listen, args=(process, said, progress), daemon=True)
    listener.start()
    try:
        assert process.stdout is not None
        printed = process.stdout.read()
        code = process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        listener.join(timeout=5)
    value = _value(printed)
    if code == 0:
        return value
    raise _error(said, value, code)


def ask_lines(arguments: Sequence[Union[str, Path]]) -> Iterator[Any]:
    """Runs a command with ``--json`` that prints a value on each line, and gives them as they come. The command is stopped if they are not
    read to the end.

    Raises:
        TensorGridError: Of the type for its exit code, with its message and hint.
    """
    process = _start(arguments)
    said: List[str] = []
    listener = threading.Thread(target=_listen, args=(process, said, None), daemon=True)
    listener.start()
    last = None
    try:
        assert process.stdout is not None
        for line in process.stdout:
            last = _value(line)
            if last is not None:
                yield last
        code = process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        listener.join(timeout=5)
    if code != 0:
        raise _error(said, last, code)


def _start(arguments: Sequence[Union[str, Path]]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [str(binary_path()), *map(str, arguments), "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
    )


def _listen(process: "subprocess.Popen[str]", said: List[str], progress: Optional[Progress]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        line = line.rstrip("\n")
        said.append(line)
        del said[:-200]
        if progress and line and not line.startswith('{"error"'):
            progress(line)


def _value(printed: str) -> Any:
    try:
        return json.loads(printed) if printed.strip() else None
    except ValueError:
        return None


def _error(said: List[str], value: Any, code: int) -> TensorGridError:
    """The last thing a failing command says is a report in JSON; before it there may be talk."""
    for line in reversed(said):
        try:
            report = json.loads(line)
        except ValueError:
            continue
        if isinstance(report, dict) and "error" in report:
            error = of_report(report, code)
            if isinstance(error, RejectedError) and isinstance(value, dict):
                error.check, error.code = value.get("check"), value.get("code")
            return error
    words = "\n".join(said[-8:]) or f"the program ended with exit code {code}"
    return of_report({"error": [words]}, code)
