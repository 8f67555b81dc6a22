"""Models as ONNX files: a file, its bytes, an ``onnx.ModelProto`` or a ``torch.nn.Module``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Optional, Sequence, Tuple, Union

from ._arrays import Array, Inputs, as_array, first_rows
from .errors import MissingDependencyError, UsageError


def onnx_file(
    source: Any,
    calibration: Inputs,
    example: Optional[Union[Array, Tuple[Array, ...]]],
    folder: Path,
) -> Path:
    """The ONNX file of a model; one that is not a file yet is written into a folder.

    Raises:
        UsageError: If it is none of these, or cannot be exported.
        MissingDependencyError: If a package that the export needs is missing.
    """
    if isinstance(source, (str, os.PathLike)):
        return Path(source)
    path = folder / "model.onnx"
    if isinstance(source, (bytes, bytearray, memoryview)):
        path.write_bytes(bytes(source))
        return path
    if hasattr(source, "SerializeToString") and hasattr(source, "graph"):
        path.write_bytes(source.SerializeToString())
        return path
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(source, torch.nn.Module):
        _export(torch, source, _examples(torch, calibration, example), path)
        return path
    raise UsageError(
        f"a model is an ONNX file, its bytes, an onnx.ModelProto or a torch.nn.Module, and this is a {type(source).__name__}",
        "skl2onnx, tf2onnx or keras.Model.export write ONNX files of other libraries' models",
    )


def _examples(torch: Any, calibration: Inputs, example: Any) -> Tuple[Any, ...]:
    if example is None:
        arrays: Sequence[Any] = first_rows(calibration)
    else:
        arrays = [as_array(one) for one in (example if isinstance(example, tuple) else (example,))]
    return tuple(torch.from_numpy(array.copy()) for array in arrays)


def _export(torch: Any, module: Any, examples: Tuple[Any, ...], path: Path) -> None:
    was_training = module.training
    try:
        torch.onnx.export(module.eval(), examples, str(path), dynamo=False)
    except (ImportError, ModuleNotFoundError) as error:
        name = getattr(error, "name", None) or "onnx"
        raise MissingDependencyError(
            f"torch.onnx.export needs the package {name}: {error}", f"pip install {name}"
        ) from error
    except Exception as error:
        # torch has its own errors for what it cannot export, of many types.
        if type(error).__name__ == "OnnxExporterError" and "onnx" in str(error) and "install" in str(error):
            raise MissingDependencyError(f"torch.onnx.export: {error}", "pip install onnx") from error
        raise UsageError(
            f"torch cannot export this module to ONNX: {error}",
            "export it with torch.onnx.export yourself and give the file",
        ) from error
    finally:
        module.train(was_training)
