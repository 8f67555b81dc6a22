"""``tensorgrid`` and ``python -m tensorgrid``: the program itself."""

from __future__ import annotations

import os
import subprocess
import sys

from ._binary import binary_path
from .errors import MissingDependencyError


def main() -> None:
    """Becomes the program, with the arguments of this process."""
    try:
        command = [str(binary_path()), *sys.argv[1:]]
    except MissingDependencyError as error:
        sys.exit(f"error: {error}")
    if sys.platform == "win32":
        sys.exit(subprocess.call(command))
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
