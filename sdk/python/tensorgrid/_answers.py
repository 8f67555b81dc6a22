"""What a model answers: arrays by the names, shapes and order of the model's file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

import numpy

Values = "numpy.ndarray[Any, Any]"


@dataclass(frozen=True)
class Answer(Mapping[str, "numpy.ndarray[Any, Any]"]):
    """The outputs of one inference: a mapping from their names to arrays, in the order of the file.

    Arrays have the shape of the file. They are of float32, or of int64 where an output is a whole number such as the index of
    a class.

    Attributes:
        arrays: The outputs by name.
        labels: The class that an output chooses, by its name; outputs without class names are not there.
        raw: The integers of all outputs as the program stores them.
    """

    arrays: Dict[str, "numpy.ndarray[Any, Any]"]
    labels: Dict[str, str] = field(default_factory=dict)
    raw: "numpy.ndarray[Any, Any]" = field(default_factory=lambda: numpy.zeros(0, numpy.int32))

    @property
    def array(self) -> "numpy.ndarray[Any, Any]":
        """The first output."""
        return next(iter(self.arrays.values()))

    @property
    def label(self) -> Optional[str]:
        """The class that the first output with class names chooses, or None."""
        return next(iter(self.labels.values()), None)

    def __getitem__(self, name: str) -> "numpy.ndarray[Any, Any]":
        return self.arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)


def answers_of(values: Sequence[int], answer: Optional[Sequence[Mapping[str, Any]]]) -> List[Answer]:
    """The answers in a command's report: the integers, and the outputs of each inference in turn."""
    raw = numpy.asarray(values, dtype=numpy.int32)
    if not answer:
        # A program that does not say what its integers mean.
        return [Answer({"output": raw}, {}, raw)]
    found: List[Answer] = []
    arrays: Dict[str, Any] = {}
    labels: Dict[str, str] = {}
    for output in answer:
        if output["name"] in arrays:
            found.append(Answer(arrays, labels))
            arrays, labels = {}, {}
        arrays[output["name"]] = _array(output)
        if output.get("label") is not None:
            labels[output["name"]] = output["label"]
    found.append(Answer(arrays, labels))
    each = len(raw) // len(found)
    return [
        Answer(one.arrays, one.labels, raw[index * each : (index + 1) * each])
        for index, one in enumerate(found)
    ]


def _array(output: Mapping[str, Any]) -> "numpy.ndarray[Any, Any]":
    values = numpy.asarray(output["values"], dtype=numpy.float64)
    whole = values.size == 1 and output["scale"] == 1.0 and output["zero"] == 0
    return values.astype(numpy.int64 if whole else numpy.float32).reshape(output["shape"])
