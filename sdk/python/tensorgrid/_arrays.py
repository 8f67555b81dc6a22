"""Arrays as the files that the program reads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence, Tuple, Union

import numpy

from .errors import InvalidInputError

Array = Any
"""A numpy array, or whatever ``numpy.asarray`` makes one of; a torch tensor."""
Inputs = Union[Array, Mapping[str, Array], Tuple[Array, ...], str, "os.PathLike[str]"]
"""Of a model with one input an array; of one with several a mapping from their names, or a tuple in their order; or a file."""


def as_array(value: Array) -> "numpy.ndarray[Any, Any]":
    """A numpy array in C order of a type that the program reads.

    Raises:
        InvalidInputError: If it is not one of numbers.
    """
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    try:
        array = numpy.asarray(value)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"this is no array of numbers: {error}") from error
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise InvalidInputError(
            f"arrays of {array.dtype} are not read", "give numbers: float32, int64, uint8 or bool"
        )
    # Little-endian, as every reader of numpy files here expects it.
    return numpy.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)


def named(inputs: Union[Mapping[str, Array], Tuple[Array, ...]]) -> Dict[str, "numpy.ndarray[Any, Any]"]:
    """The arrays of several inputs, by name or as ``arr_0``, ``arr_1``, ..."""
    if isinstance(inputs, Mapping):
        for name in inputs:
            if not isinstance(name, str):
                raise InvalidInputError(f"the inputs' names are texts, and {name!r} is none")
        return {name: as_array(value) for name, value in inputs.items()}
    return {f"arr_{index}": as_array(value) for index, value in enumerate(inputs)}


def write(inputs: Inputs, folder: Path, name: str) -> Path:
    """The file of some inputs: the one that is named, or one that is written into a folder now."""
    if isinstance(inputs, (str, os.PathLike)):
        return Path(inputs)
    if isinstance(inputs, (Mapping, tuple)):
        path = folder / f"{name}.npz"
        arrays: Any = named(inputs)
        numpy.savez(path, **arrays)
        return path
    path = folder / f"{name}.npy"
    numpy.save(path, as_array(inputs))
    return path


def first_rows(inputs: Inputs) -> Sequence["numpy.ndarray[Any, Any]"]:
    """The first row of each input of calibration arrays, with an axis that counts one."""
    if isinstance(inputs, (str, os.PathLike)):
        path = Path(inputs)
        if path.suffix not in (".npy", ".npz") or not path.is_file():
            raise InvalidInputError(
                "the shapes of the model's inputs are not known",
                "give example=..., arrays as the module takes them",
            )
        loaded = numpy.load(path)
        values: List[Any] = [loaded] if path.suffix == ".npy" else [loaded[key] for key in loaded]
    elif isinstance(inputs, Mapping):
        values = list(inputs.values())
    elif isinstance(inputs, tuple):
        values = list(inputs)
    else:
        values = [inputs]
    arrays = [as_array(value) for value in values]
    if any(array.ndim == 0 or array.shape[0] == 0 for array in arrays):
        raise InvalidInputError("calibration inputs have an axis that counts them, first, and at least one of them")
    return [array[:1] for array in arrays]
