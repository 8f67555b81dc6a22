"""Models, proofs and their verification, without a grid."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy

from ._answers import Answer, answers_of
from ._arrays import Array, Inputs, write
from ._binary import Progress, ask
from ._sources import onnx_file
from .errors import InvalidInputError, NotFoundError, UsageError

PathLike = Union[str, "os.PathLike[str]"]


class _Files:
    """A folder that goes when nothing refers to it any more."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tensorgrid-")
        self.path = Path(self._folder.name)


@dataclass(frozen=True)
class PublicModel:
    """The public part of a model (``.tgv``): what a verifier needs, without the weights.

    Attributes:
        path: Its file.
    """

    path: Path
    _files: Optional[_Files] = field(default=None, repr=False, compare=False)

    @classmethod
    def load(cls, path: PathLike) -> "PublicModel":
        """Of a file that was saved.

        Raises:
            NotFoundError: If there is none.
        """
        return cls(_existing(path))

    @classmethod
    def from_bytes(cls, data: bytes) -> "PublicModel":
        """Of the bytes of its file."""
        files = _Files()
        path = files.path / "model.tgv"
        path.write_bytes(data)
        return cls(path, files)

    def to_bytes(self) -> bytes:
        """The bytes of its file."""
        return self.path.read_bytes()

    def save(self, path: PathLike) -> None:
        """Copies its file."""
        shutil.copyfile(self.path, path)

    def verify(self, proof: Union["Proof", bytes, PathLike]) -> "Verified":
        """See :func:`tensorgrid.verify`."""
        return verify(proof, self)


@dataclass(frozen=True)
class Model:
    """A compiled model: an exact integer program with its weights.

    Attributes:
        path: The program with its weights (``.tgm``), for whoever runs or proves.
        public: The public part, for whoever verifies; None if it was compiled without.
        secret: The file of the secret of private weights (``.tgs``), which proofs need and which counts them, or None.
        report: What the compiler said: signal to noise by layer, what was left out, the precision.
    """

    path: Path
    public: Optional[PublicModel] = None
    secret: Optional[Path] = None
    report: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    _files: Optional[_Files] = field(default=None, repr=False, compare=False)

    @classmethod
    def load(cls, path: PathLike, public: Optional[PathLike] = None, secret: Optional[PathLike] = None) -> "Model":
        """Of files that were saved.

        Raises:
            NotFoundError: If there is none.
        """
        return cls(
            _existing(path),
            None if public is None else PublicModel.load(public),
            None if secret is None else _existing(secret),
        )

    def save(self, path: PathLike, public: Optional[PathLike] = None) -> None:
        """Copies the program with its weights, and the public part if a path for it is given.

        Raises:
            UsageError: If the model was compiled without a public part.
        """
        shutil.copyfile(self.path, path)
        if public is not None:
            _public_of(self).save(public)

    def run(self, inputs: Inputs = ()) -> Answer:
        """See :func:`tensorgrid.run`."""
        return run(self, inputs)

    def prove(self, inputs: Inputs = (), **options: Any) -> "Proof":
        """See :func:`tensorgrid.prove`."""
        return prove(self, inputs, **options)

    def verify(self, proof: Union["Proof", bytes, PathLike]) -> "Verified":
        """See :func:`tensorgrid.verify`."""
        return verify(proof, _public_of(self))


@dataclass(frozen=True)
class Proof:
    """A proof with what it shows of input and output.

    Attributes:
        data: The bytes of the proof file; whoever has the public model needs nothing else.
        answer: What the model answered; whether the proof shows it depends on its modes.
        model_id: The model it is about.
        input: The digest by which the proof names the input: of its bytes, or of its commitment; zeros if it is hidden.
        output: The same of the output.
        zk: Whether it hides what the model computes.
        prove_ms: How long it took.
        proofs_left: How many proofs the secret of private weights has left, or None.
    """

    data: bytes = field(repr=False)
    answer: Answer
    model_id: str
    input: str
    output: str
    zk: bool
    prove_ms: float
    proofs_left: Optional[int] = None

    def save(self, path: PathLike) -> None:
        """Writes the proof file."""
        Path(path).write_bytes(self.data)


@dataclass(frozen=True)
class Verified:
    """What a proof shows, once it was verified.

    Attributes:
        answers: The outputs of each inference that it is about, of which those are there that are public; empty if none is.
        input_modes: What it says of each input: ``public``, ``committed`` or ``hidden``.
        output_modes: The same of each output.
        inputs: The values of inputs that it shows beside others that it does not.
        model_id: The model.
        job: The job on a grid, or zeros.
        provider: Who did the work, or zeros.
        zk: Whether it hides what the model computes.
        security_bits: Minus the base-2 logarithm of the chance that a false statement is proved.
        verify_ms: How long verifying took.
        report: All that the command said.
    """

    answers: List[Answer]
    model_id: str
    job: str
    provider: str
    zk: bool
    security_bits: Optional[float]
    verify_ms: float
    input_modes: Mapping[str, str] = field(default_factory=dict)
    output_modes: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, "numpy.ndarray[Any, Any]"] = field(default_factory=dict, compare=False)
    report: Mapping[str, Any] = field(repr=False, compare=False, default_factory=dict)

    @property
    def answer(self) -> Answer:
        """The answer of the first inference.

        Raises:
            NotFoundError: If the proof does not show its output.
        """
        if not self.answers:
            raise NotFoundError("the proof does not show its output", "prove with output_mode='public'")
        return self.answers[0]


def compile(  # noqa: A001
    model: Any,
    calibration: Inputs,
    *,
    output: Optional[PathLike] = None,
    public_output: Optional[PathLike] = None,
    public: bool = True,
    precision: str = "auto",
    name: Optional[str] = None,
    labels: Optional[Sequence[str]] = None,
    keep: Sequence[str] = (),
    axes: Optional[Mapping[str, int]] = None,
    bind: Optional[Mapping[str, Union[int, float]]] = None,
    mean: Sequence[float] = (),
    scale: Sequence[float] = (),
    top_k: Optional[int] = None,
    private_weights: Optional[PathLike] = None,
    openings: int = 64,
    example: Optional[Union[Array, Tuple[Array, ...]]] = None,
    progress: Optional[Progress] = None,
) -> Model:
    """Compiles a model to an exact integer program, and its public part.

    Args:
        model: An ONNX file, its bytes, an ``onnx.ModelProto`` or a ``torch.nn.Module``, which is exported as in inference.
        calibration: Typical inputs, along a first axis: an array, or for several inputs a mapping from their names or a
            tuple; or a file or folder of such. A few hundred rows, none of which proofs are judged by later.
        output: Where to write the program with its weights; by default into a folder that goes with the result.
        public_output: Where to write the public part.
        public: Whether to make the public part, without which nothing is proved.
        precision: Bits of activations: ``auto``, ``8``, ``mixed`` or ``16``.
        name: The model's name; by default that of the file.
        labels: The names of the classes, in the order of the output.
        keep: The outputs to keep; by default all that have a program.
        axes: Sizes of named axes, or of ``INPUT.NUMBER``.
        bind: Inputs that have one value in every request.
        mean: Mean per channel of 8-bit images: ``x = (v / 255 - mean) / scale``.
        scale: Divisor per channel of 8-bit images.
        top_k: End in so many greatest scores and their tokens, for language models.
        private_weights: Show nothing of the weights: where to make the secret that proofs need.
        openings: How many proofs private weights are for.
        example: What a torch module is exported with; by default the first row of the calibration inputs.
        progress: Called with what the compiler says while it works.

    Returns:
        The compiled model.

    Raises:
        UsageError: If the model has no program or no proof; the message names the first operator that has none.
        MissingDependencyError: If a package that the export of a torch module needs is missing.
    """
    files = _Files()
    source = onnx_file(model, calibration, example, files.path)
    path = Path(output) if output is not None else files.path / "model.tgm"
    arguments: List[Union[str, Path]] = ["model", "compile", source]
    arguments += ["--calibrate", write(calibration, files.path, "calibration"), "--output", path]
    public_path = Path(public_output) if public_output is not None else files.path / "model.tgv"
    if public:
        arguments += ["--public-out", public_path]
    if labels is not None:
        arguments += ["--labels", _labels(labels, files.path)]
    for flag, value in (("--precision", precision), ("--name", name), ("--top-k", top_k)):
        if value is not None:
            arguments += [flag, str(value)]
    for output_name in keep:
        arguments += ["--keep", output_name]
    for flag, pairs in (("--axis", axes), ("--bind", bind)):
        for key, number in (pairs or {}).items():
            arguments += [flag, f"{key}={number}"]
    for flag, numbers in (("--mean", mean), ("--scale", scale)):
        if len(numbers):
            arguments += [f"{flag}={','.join(str(float(number)) for number in numbers)}"]
    secret = None if private_weights is None else Path(private_weights)
    if secret is not None:
        arguments += ["--private-weights", secret, "--openings", str(openings)]
    report = ask(arguments, progress)
    return Model(path, PublicModel(public_path, files) if public else None, secret, report or {}, files)


def run(model: Union[Model, PathLike], inputs: Inputs = ()) -> Answer:
    """Runs a compiled model in exact integers, without a proof.

    Args:
        model: The model, or its ``.tgm`` file.
        inputs: One inference's: an array, or for several inputs a mapping from their names or a tuple; or a file.

    Raises:
        UsageError: If the inputs are not the model's.
    """
    files = _Files()
    report = ask(["run", _path_of(model), *_input_file(inputs, files)])
    return answers_of(report["values"], report.get("answer"))[0]


def prove(
    model: Union[Model, PathLike],
    inputs: Inputs = (),
    *,
    zk: bool = False,
    input_mode: str = "hidden",
    output_mode: str = "public",
    show: Sequence[str] = (),
    commit: Sequence[str] = (),
    hide: Sequence[str] = (),
    input_salt: Optional[PathLike] = None,
    output_salt: Optional[PathLike] = None,
    secret: Optional[PathLike] = None,
    memory_mib: Optional[int] = None,
    progress: Optional[Progress] = None,
) -> Proof:
    """Runs a compiled model and proves the result.

    Args:
        model: The model, or its ``.tgm`` file.
        inputs: One inference's, as for :func:`run`.
        zk: Hide all that the model computes between input and output, and what the modes say of these.
        input_mode: What a proof in zero knowledge shows of the input: ``public``, ``committed`` or ``hidden``.
        output_mode: The same of the output.
        show: Inputs and outputs that it shows, by their names; what is not named has the modes above.
        commit: Inputs and outputs of which it shows a commitment.
        hide: Inputs and outputs of which it shows nothing.
        input_salt: The file of the salt of the input's commitment; it is made if it is missing.
        output_salt: The same of the output.
        secret: The secret of private weights; by default that of the model.
        memory_mib: Refuse a proof that is estimated to need more, before it is begun.
        progress: Called with what the prover says: where it is, and about how long the rest takes.

    Raises:
        UsageError: If the inputs are not the model's, or it cannot be proved.
    """
    files = _Files()
    path = files.path / "proof.bin"
    arguments: List[Union[str, Path]] = ["prove", _path_of(model), *_input_file(inputs, files), "--output", path]
    if secret is None and isinstance(model, Model):
        secret = model.secret
    if zk:
        arguments += ["--zk", "--input-mode", input_mode, "--output-mode", output_mode]
        for flag, names in (("--show", show), ("--commit", commit), ("--hide", hide)):
            for name in names:
                arguments += [flag, name]
        for flag, salt in (("--input-salt", input_salt), ("--output-salt", output_salt)):
            if salt is not None:
                arguments += [flag, Path(salt)]
    elif show or commit or hide:
        raise UsageError("a proof in the clear shows everything", "prove with zk=True")
    elif secret is not None:
        raise UsageError("the weights are private, and a proof in the clear would show them", "prove with zk=True")
    if secret is not None:
        arguments += ["--secret", Path(secret)]
    if memory_mib is not None:
        arguments += ["--memory", str(memory_mib)]
    report = ask(arguments, progress)
    return Proof(
        data=path.read_bytes(),
        answer=answers_of(report["values"], report.get("answer"))[0],
        model_id=report["model"],
        input=report["input"],
        output=report["output"],
        zk=report["zk"],
        prove_ms=report["prove_ms"],
        proofs_left=report.get("proofs_left"),
    )


def verify(
    proof: Union[Proof, bytes, PathLike],
    model: Union[PublicModel, Model, PathLike],
) -> Verified:
    """Verifies a proof against a public model, whose registration proof is checked first.

    Args:
        proof: The proof, the bytes of its file, or the file.
        model: The public model, or its ``.tgv`` file.

    Raises:
        RejectedError: If the proof does not hold; ``check`` names the check that failed.
    """
    files = _Files()
    if isinstance(model, Model):
        model = _public_of(model)
    public = model.path if isinstance(model, PublicModel) else _existing(model)
    if isinstance(proof, Proof):
        proof = proof.data
    if isinstance(proof, (bytes, bytearray)):
        path = files.path / "proof.bin"
        path.write_bytes(proof)
    else:
        path = _existing(proof)
    report: Dict[str, Any] = ask(["verify", path, "--model", public])
    values = report.get("values") or []
    return Verified(
        answers=answers_of(values, report.get("answer")) if values else [],
        model_id=report["model"],
        job=report.get("job", ""),
        provider=report.get("provider", ""),
        zk=bool(report.get("zk")),
        security_bits=report.get("security_bits"),
        verify_ms=report.get("verify_ms", 0.0),
        input_modes={one["name"]: one["mode"] for one in report.get("inputs", ())},
        output_modes={one["name"]: one["mode"] for one in report.get("outputs", ())},
        inputs={
            one["name"]: numpy.asarray(one["values"], dtype=numpy.float64)
            for one in report.get("inputs", ())
            if one["values"] is not None
        },
        report=report,
    )


def _existing(path: PathLike) -> Path:
    found = Path(path)
    if not found.is_file():
        raise NotFoundError(f"there is no file {found}")
    return found


def _path_of(model: Union[Model, PathLike]) -> Path:
    return model.path if isinstance(model, Model) else _existing(model)


def _public_of(model: Model) -> PublicModel:
    if model.public is None:
        raise UsageError("the model has no public part", "compile it with public=True")
    return model.public


def _input_file(inputs: Inputs, files: _Files) -> List[Path]:
    if isinstance(inputs, (tuple, Mapping)) and not inputs:
        return []
    return [write(inputs, files.path, "input")]


def _labels(labels: Sequence[str], folder: Path) -> Path:
    for label in labels:
        if label != label.strip() or "\n" in label or "\r" in label:
            raise InvalidInputError(f"the class name {label!r} has line ends, or spaces around it")
    path = folder / "labels.txt"
    path.write_text("".join(f"{label}\n" for label in labels), encoding="utf-8")
    return path
