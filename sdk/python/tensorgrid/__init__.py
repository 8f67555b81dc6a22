"""Run machine learning models as exact integer programs, prove the result, verify it anywhere.

>>> import numpy, tensorgrid                                     # doctest: +SKIP
>>> model = tensorgrid.compile("digits.onnx", calibration)       # doctest: +SKIP
>>> proof = tensorgrid.prove(model, image)                       # doctest: +SKIP
>>> tensorgrid.verify(proof, model.public).answer.array.argmax() # doctest: +SKIP
7

Models come as an ONNX file, as its bytes, or as a ``torch.nn.Module``; inputs and outputs are numpy arrays. The work is done by
the ``tensorgrid`` program, which the wheel carries: proofs are bit for bit those of the command line.
"""

from ._answers import Answer
from ._binary import binary_path
from .client import AsyncClient, AsyncJob, Client, Job, JobResult, Step, WrittenResult
from .endpoint import AsyncEndpoint, Endpoint, EndpointAnswer, TextStream, WrittenText
from .errors import (
    FailedError,
    GridUnavailableError,
    InvalidInputError,
    JobFailedError,
    MissingDependencyError,
    NotFoundError,
    RejectedError,
    TensorGridError,
    UsageError,
)
from .model import Model, Proof, PublicModel, Verified, compile, prove, run, verify

__all__ = [
    "Answer",
    "AsyncClient",
    "AsyncEndpoint",
    "AsyncJob",
    "Client",
    "Endpoint",
    "EndpointAnswer",
    "FailedError",
    "GridUnavailableError",
    "InvalidInputError",
    "Job",
    "JobFailedError",
    "JobResult",
    "MissingDependencyError",
    "Model",
    "NotFoundError",
    "Proof",
    "PublicModel",
    "RejectedError",
    "Step",
    "TensorGridError",
    "TextStream",
    "UsageError",
    "Verified",
    "WrittenResult",
    "WrittenText",
    "binary_path",
    "compile",
    "prove",
    "run",
    "verify",
]

__version__ = "0.0.0"
