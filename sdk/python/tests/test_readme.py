"""The examples of README.md as they stand."""

import pathlib
import re

import pytest

README = pathlib.Path(__file__).resolve().parents[1] / "README.md"


def test_the_examples_run(grid, capsys):
    pytest.importorskip("skl2onnx")
    pytest.importorskip("sklearn")
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    assert len(blocks) == 3
    names = {}
    exec(blocks[0], names)
    said = capsys.readouterr().out
    assert "[2] [2]" in said and "bits" in said
    exec(blocks[1].replace("http://127.0.0.1:7070", grid), names)
    assert "paid" in capsys.readouterr().out
    exec(blocks[2], names)
    said = capsys.readouterr().out
    assert said.startswith("[2]\nTrue\n") and len(said) > 80, said
