"""A grid's API under two outside judges: the OpenAPI document under openapi-spec-validator, and the calls that it describes under schemathesis:
no answer with 5xx, none that the document does not describe, and none without a key where it says that a key is needed.

    python api_document.py BINARY

Starts `BINARY up` on a free port in a fresh folder, and ends it. The document is the one that the grid serves.
"""

import importlib.metadata
import json
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

import openapi_spec_validator

KEY = "tensorgrid-development"

# Streams of events, and calls that wait for a provider's requests or for blocks: they do not end while there are none.
WAITS = ["events", "serve", "blocks"]

CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "ignored_auth",
]

# Calls of each operation. The judge draws the same with the same seed.
EXAMPLES = 25
SEED = 1


def validated(api):
    """The document, which the validator accepts."""
    with urllib.request.urlopen(f"{api}/openapi.json", timeout=30) as answer:
        document = json.load(answer)
    kind = openapi_spec_validator.OpenAPIV31SpecValidator
    problems = [f"{type(it).__name__}: {it}" for it in kind(document).iter_errors()]
    assert not problems, "\n".join(problems)
    return document


def called(api, folder):
    """Calls that are drawn from the document."""
    tool = pathlib.Path(sys.executable).with_name("schemathesis")
    command = [tool, "run", f"{api}/openapi.json", "--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing"]
    command += ["--header", f"Authorization: Bearer {KEY}", "--max-examples", EXAMPLES, "--seed", SEED]
    command += ["--request-timeout", 30, "--continue-on-failure"]
    for name in WAITS:
        command += ["--exclude-operation-id", name]
    # It leaves files of its own where it runs.
    return subprocess.run([str(it) for it in command], cwd=folder).returncode


def main():
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.argv[1], "up", "--json", "--listen", "127.0.0.1:0", "--data-dir", f"{folder}/data", "--providers", "1"]
        grid = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            api = json.loads(grid.stdout.readline())["api"]
            document = validated(api)
            code = called(api, folder)
            assert grid.poll() is None, "the grid is gone"
        finally:
            grid.terminate()
            grid.wait(60)
    if code != 0:
        sys.exit(code)
    paths = len(document["paths"])
    print(f"schemathesis {importlib.metadata.version('schemathesis')}: the document is valid, and {paths} paths answer as it says")


if __name__ == "__main__":
    main()
