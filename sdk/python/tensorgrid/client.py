"""A running grid: jobs are ordered, followed, fetched and verified.

What changes something is done by the ``tensorgrid`` program, so that keys and signing stay there; what only reads asks the
grid's API.
"""

from __future__ import annotations

import asyncio
import functools
import json
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, AsyncIterator, Callable, Dict, Iterator, List, Mapping, Optional, TypeVar, Union

from ._answers import Answer, answers_of
from ._arrays import Inputs, write
from ._binary import Progress, ask
from ._progress import Bar
from .endpoint import AsyncEndpoint, Endpoint, Prompt, _drawing
from .errors import GridUnavailableError, JobFailedError, NotFoundError, TensorGridError, UsageError
from .model import Model, PathLike, PublicModel, Verified, _public_of, verify

_ENDED = {"paid", "refunded", "expired", "cancelled"}
_BEFORE_KEY = {"submitted", "queued", "leased"}
_POLL_S = 0.15
_FINAL_S = 30.0
_READ_TIMEOUT_S = 30.0
_READ_BYTES_MAX = 64 << 20

T = TypeVar("T")

WaitProgress = Union[bool, Callable[["Step"], None], None]
"""How waiting for a job is shown: True draws a bar on the error stream, a function is called with each state."""


@dataclass(frozen=True)
class Step:
    """A state that a job entered.

    Attributes:
        state: ``queued``, ``leased``, ``running``, ``committed``, ``verifying``, ``accepted``, ``paid``, ...
        height: In which block.
        at_ms: At which block time, in milliseconds since 1970.
    """

    state: str
    height: int
    at_ms: int


@dataclass(frozen=True)
class JobResult:
    """What came of a job.

    Attributes:
        answer: The outputs.
        receipt: The receipt: who did it, what it cost, digests of input and output.
        proof: The bytes of the proof file, or None for a job without one.
        verified: Whether the proof was verified on this machine.
    """

    answer: Answer
    receipt: Mapping[str, Any] = field(repr=False)
    proof: Optional[bytes] = field(repr=False)
    verified: bool


@dataclass(frozen=True)
class WrittenResult:
    """What a language model wrote as a job.

    Attributes:
        job: The job's id.
        text: The text, or None where tokens are no text.
        tokens: The tokens after the prompt.
        prompt: The tokens of the prompt.
        seed: The 32 bytes that decided every draw.
        receipt: The receipt: who did it, what it cost, digests of request and text.
        proof: The bytes of the sequence and its proof, or None for a job without one.
        verified: Whether the proof was verified on this machine.
    """

    job: str
    text: Optional[str]
    tokens: List[int]
    prompt: List[int] = field(repr=False)
    seed: bytes = field(repr=False)
    receipt: Mapping[str, Any] = field(repr=False)
    proof: Optional[bytes] = field(repr=False)
    verified: bool


class Job:
    """A job on a grid.

    Attributes:
        id: Its id.
        order: What was ordered, as it was signed (``model:input:mode``): what its result is checked against. Without it, of a job that
            was ordered elsewhere, that is what the API says.
    """

    def __init__(self, client: "Client", job_id: str, order: Optional[str] = None) -> None:
        self._client = client
        self.id = job_id
        self.order = order

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    def status(self) -> Dict[str, Any]:
        """Where it stands, as the API says it: ``state``, ``history``, ``leases``, ``max_price``, ..."""
        status: Dict[str, Any] = self._client.get(f"/v1/jobs/{self.id}")
        return status

    def _known(self) -> None:
        """Waits until the block that has the order is final."""
        ends = time.monotonic() + _FINAL_S
        while True:
            try:
                self.status()
                return
            except NotFoundError:
                if time.monotonic() >= ends:
                    raise
                time.sleep(_POLL_S)

    def why(self) -> Dict[str, Any]:
        """Why it is where it is: what offers lack, what would change it."""
        why: Dict[str, Any] = self._client.get(f"/v1/jobs/{self.id}/why")
        return why

    def grant(self) -> None:
        """Gives the key of a sealed job to each provider that gets it, until one runs it. :meth:`wait`, :meth:`steps` and :meth:`fetch` do so
        by themselves: a lease waits half a minute for the key from a program that runs."""
        ask(["job", "grant", self.id, *self._client._trust(), *self._client._signing()])

    def steps(self, timeout_s: Optional[float] = None) -> Iterator[Step]:
        """The states that it enters, as it enters them, until it has ended. Of a sealed job its key is granted meanwhile.

        Raises:
            TimeoutError: If it has not ended after this time, which is looked at between two states.
        """
        ends = None if timeout_s is None else time.monotonic() + timeout_s
        seen = 0
        self._known()
        while True:
            status = self.status()
            for step in _steps(status)[seen:]:
                seen += 1
                yield step
            if status["state"] in _ENDED:
                return
            if ends is not None and time.monotonic() >= ends:
                raise TimeoutError(f"job {self.id} is {status['state']} after {timeout_s} s")
            if _waits_for_key(status):
                self.grant()
            time.sleep(_POLL_S)

    def wait(self, progress: WaitProgress = None, timeout_s: Optional[float] = None) -> "Job":
        """Waits until it is paid.

        Args:
            progress: Called with each state that it enters; True draws a bar on the error stream.
            timeout_s: Seconds to wait at most; by default until its deadline.

        Raises:
            JobFailedError: If it ended without a result.
            TimeoutError: If it has not ended after this time.
        """
        show = _shown(progress, self.id)
        for step in self.steps(timeout_s):
            show(step)
        _check_paid(self.status())
        return self

    def fetch(self) -> JobResult:
        """The result of a job, waiting for it if need be; its proof is verified on this machine first. The answer of a sealed job is opened by
        the key that ordered it, which is granted to its provider if that has not been done.

        Raises:
            RejectedError: If the job ended without a result, or its proof does not hold.
        """
        self._known()
        with tempfile.TemporaryDirectory(prefix="tensorgrid-") as folder:
            path = Path(folder) / "proof.bin"
            arguments: List[Union[str, Path]] = ["job", "fetch", self.id, "--proof-out", path, *self._client._signing()]
            if self.order is not None:
                arguments += ["--order", self.order]
            arguments += self._client._trust()
            report = ask(arguments)
            proof = path.read_bytes() if path.is_file() else None
        return JobResult(
            answers_of(report["values"], report.get("answer"))[0],
            report["receipt"],
            proof,
            bool(report.get("proof") and report["proof"]["verified"]),
        )

    def verify(self, public: Optional[Union[PublicModel, PathLike]] = None) -> Verified:
        """Verifies its proof against a public model, by default the one that the grid has under the job's model.

        Raises:
            NotFoundError: If the job has no proof.
            RejectedError: If it does not hold.
        """
        result = self.fetch()
        if result.proof is None:
            raise NotFoundError(f"job {self.id} has no proof", "order it with verify='proof'")
        if public is None:
            model = self.status()["model"] if self.order is None else self.order.split(":")[0]
            public = self._client.public_model(model)
        return verify(result.proof, public)

    def cancel(self) -> None:
        """Takes it back, if it has no result yet; whoever works on it is paid for its time."""
        ask(["job", "cancel", self.id, *self._client._signing()])


class Client:
    """A client of a grid.

    Args:
        url: Address of its API.
        key: File of the key that signs.
        account: Funded account of a development network that signs if there is no key file.
        passphrase_file: File whose first line is the passphrase of the key file.
        genesis: File with the genesis of the network, by which results and who serves an endpoint are proved. With the key of a file endpoints
            are asked and topped up, and keys of sealed jobs granted, only with it.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:7070",
        *,
        key: Optional[PathLike] = None,
        account: Optional[str] = None,
        passphrase_file: Optional[PathLike] = None,
        genesis: Optional[PathLike] = None,
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise UsageError(f"the address {url!r} is not of the form http://host:port")
        self.url = url.rstrip("/")
        self._key = key
        self._account = account
        self._passphrase_file = passphrase_file
        self._genesis = genesis

    def status(self) -> Dict[str, Any]:
        """What the grid says of itself."""
        status: Dict[str, Any] = self.get("/v1/status")
        return status

    def models(self) -> List[Dict[str, Any]]:
        """The registered models."""
        models: List[Dict[str, Any]] = ask(["model", "list", "--api", self.url])
        return models

    def public_model(self, model: str) -> PublicModel:
        """The public part of a registered model, by its name or id."""
        with tempfile.TemporaryDirectory(prefix="tensorgrid-") as folder:
            path = Path(folder) / "model.tgv"
            ask(["model", "show", model, "--public-out", path, "--api", self.url])
            return PublicModel.from_bytes(path.read_bytes())

    def add_model(self, model: Model, name: Optional[str] = None) -> Dict[str, Any]:
        """Registers a compiled model and waits for the validators' verdict."""
        arguments: List[Union[str, Path]] = ["model", "add", model.path, _public_of(model).path, *self._signing()]
        if name is not None:
            arguments += ["--name", name]
        added: Dict[str, Any] = ask(arguments)
        return added

    def submit(
        self,
        model: str,
        inputs: Inputs,
        *,
        verify: Optional[str] = None,
        seal: bool = False,
        max_price: Optional[str] = None,
        deadline_s: int = 300,
        attempts: Optional[int] = None,
        progress: Optional[Progress] = None,
    ) -> Job:
        """Orders a job and does not wait for it. It spends the account's money, up to the maximum price.

        Args:
            model: A registered model's name or id.
            inputs: One inference's, as for :func:`tensorgrid.run`.
            verify: How the result is checked: ``proof`` (if absent), ``sync``, ``recompute``, ``optimistic``, ``replicate``, or ``none`` on development
                networks.
            seal: Seal the input to the provider that is found, and the answer back: nobody else reads them, and nobody checks the answer.
            max_price: Most that is paid to the provider, in TGRID, as a text; by default what the command takes.
            deadline_s: Seconds the job may take.
            attempts: Providers to try at most.
            progress: Called with what the program says.

        Raises:
            RejectedError: If nobody takes it at this price.
            GridUnavailableError: If the grid cannot be reached.
            UsageError: If it is to be sealed and checked: whoever checks it would read it.
        """
        if seal and verify is not None:
            raise UsageError(f"a sealed job has no verify={verify!r}: whoever checks a result reads its input")
        checked: List[Union[str, Path]] = ["--seal", *self._trust()] if seal else ["--verify", verify or "proof"]
        with tempfile.TemporaryDirectory(prefix="tensorgrid-") as folder:
            arguments: List[Union[str, Path]] = ["infer", model, write(inputs, Path(folder), "input")]
            arguments += ["--yes", "--detach", *checked, "--deadline-s", str(deadline_s), *self._signing()]
            if max_price is not None:
                arguments += ["--max-price", str(max_price)]
            if attempts is not None:
                arguments += ["--attempts", str(attempts)]
            ordered = ask(arguments, progress)
            return Job(self, ordered["job"], ordered["order"])

    def infer(self, model: str, inputs: Inputs, **options: Any) -> JobResult:
        """Orders a job, waits for it, verifies its proof and returns the result; options are those of :meth:`submit`."""
        return self.submit(model, inputs, **options).wait().fetch()

    def write(
        self,
        model: str,
        prompt: Prompt,
        *,
        verify: Optional[str] = None,
        max_price: Optional[str] = None,
        deadline_s: int = 300,
        attempts: Optional[int] = None,
        progress: Optional[Progress] = None,
        **drawing: Any,
    ) -> WrittenResult:
        """Orders what a language model writes after a prompt, waits for it, verifies its proof if it has one, and returns it.

        Args:
            model: A registered model's name or id.
            prompt: A text, or tokens.
            verify: How it is checked: ``proof``, ``recompute``, ``optimistic``, ``replicate``, or ``none`` (if absent), which networks for
                development take.
            max_price: Most that is paid to the provider, in TGRID, as a text; by default what the command takes.
            deadline_s: Seconds the job may take.
            attempts: Providers to try at most.
            progress: Called with what the program says.
            drawing: ``tokens``, ``temperature``, ``top_k``, ``top_p``, ``seed``, ``stop`` and ``tokenizer`` as for :meth:`Endpoint.write`.

        Raises:
            RejectedError: If nobody takes it at this price, it ended without a text, or its proof does not hold.
            UsageError: If the model cannot write, or not after this prompt.
            GridUnavailableError: If the grid cannot be reached.
        """
        with tempfile.TemporaryDirectory(prefix="tensorgrid-") as folder:
            path = Path(folder) / "sequence.bin"
            arguments: List[Union[str, Path]] = ["write", model, *_drawing(prompt, **drawing), "--yes", "--proof-out", path]
            arguments += ["--deadline-s", str(deadline_s), *self._signing(), *self._trust()]
            for flag, value in (("--verify", verify), ("--max-price", max_price), ("--attempts", attempts)):
                if value is not None:
                    arguments += [flag, str(value)]
            report = ask(arguments, progress)
            proof = path.read_bytes() if path.is_file() else None
        return WrittenResult(
            report["job"],
            report["text"],
            report["tokens"],
            report["prompt"],
            bytes.fromhex(report["seed"]),
            report["receipt"],
            proof,
            bool(report.get("proof") and report["proof"]["verified"]),
        )

    def job(self, job_id: str, order: Optional[str] = None) -> Job:
        """A job that was ordered before; ``order`` is what its :attr:`Job.order` was."""
        return Job(self, job_id, order)

    def open_endpoint(
        self,
        model: str,
        money: str,
        *,
        hours: float = 1.0,
        progress: Optional[Progress] = None,
    ) -> Endpoint:
        """Has a provider serve a model for some time, and waits until it does.

        Args:
            model: A registered model's name or id.
            money: What is locked for it, in TGRID, as a text; what is not used comes back.
            hours: How long it may last.
            progress: Called with what the program says.

        Raises:
            RejectedError: If nobody serves it at this price.
            GridUnavailableError: If the grid cannot be reached.
        """
        arguments: List[Union[str, Path]] = ["endpoint", "open", model, "--money", str(money)]
        arguments += ["--hours", str(hours), "--yes", *self._signing()]
        return Endpoint(self, ask(arguments, progress)["id"])

    def endpoint(self, job_id: str) -> Endpoint:
        """An endpoint that was opened before."""
        return Endpoint(self, job_id)

    def endpoints(self) -> List[Dict[str, Any]]:
        """The open endpoints of the account, as the API says their jobs."""
        endpoints: List[Dict[str, Any]] = ask(["endpoint", "list", *self._signing()])
        return endpoints

    def get(self, path: str) -> Any:
        """What the API answers to a GET request.

        Raises:
            NotFoundError: If there is nothing there.
            GridUnavailableError: If the grid cannot be reached.
        """
        try:
            with urllib.request.urlopen(self.url + path, timeout=_READ_TIMEOUT_S) as response:
                return json.loads(response.read(_READ_BYTES_MAX))
        except urllib.error.HTTPError as error:
            raise _refusal(error) from None
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            reason = getattr(error, "reason", error)
            raise GridUnavailableError(
                f"reach the grid at {self.url}: {reason}", "start one with `tensorgrid up`"
            ) from error

    def _trust(self) -> List[Union[str, Path]]:
        return [] if self._genesis is None else ["--genesis", Path(self._genesis)]

    def _signing(self) -> List[Union[str, Path]]:
        arguments: List[Union[str, Path]] = ["--api", self.url]
        if self._key is not None:
            arguments += ["--key", Path(self._key)]
        if self._account is not None:
            arguments += ["--account", self._account]
        if self._passphrase_file is not None:
            arguments += ["--passphrase-file", Path(self._passphrase_file)]
        return arguments


class AsyncJob:
    """A job on a grid, for asyncio; see :class:`Job`."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.id = job.id

    def __repr__(self) -> str:
        return f"AsyncJob({self.id!r})"

    async def status(self) -> Dict[str, Any]:
        """See :meth:`Job.status`."""
        return await _in_thread(self._job.status)

    async def why(self) -> Dict[str, Any]:
        """See :meth:`Job.why`."""
        return await _in_thread(self._job.why)

    async def steps(self, timeout_s: Optional[float] = None) -> AsyncIterator[Step]:
        """See :meth:`Job.steps`."""
        ends = None if timeout_s is None else time.monotonic() + timeout_s
        seen = 0
        await _in_thread(self._job._known)
        while True:
            status = await self.status()
            for step in _steps(status)[seen:]:
                seen += 1
                yield step
            if status["state"] in _ENDED:
                return
            if ends is not None and time.monotonic() >= ends:
                raise TimeoutError(f"job {self.id} is {status['state']} after {timeout_s} s")
            if _waits_for_key(status):
                await self.grant()
            await asyncio.sleep(_POLL_S)

    async def grant(self) -> None:
        """See :meth:`Job.grant`."""
        await _in_thread(self._job.grant)

    async def wait(self, progress: WaitProgress = None, timeout_s: Optional[float] = None) -> "AsyncJob":
        """See :meth:`Job.wait`."""
        show = _shown(progress, self.id)
        async for step in self.steps(timeout_s):
            show(step)
        _check_paid(await self.status())
        return self

    async def fetch(self) -> JobResult:
        """See :meth:`Job.fetch`."""
        return await _in_thread(self._job.fetch)

    async def verify(self, public: Optional[Union[PublicModel, PathLike]] = None) -> Verified:
        """See :meth:`Job.verify`."""
        return await _in_thread(self._job.verify, public)

    async def cancel(self) -> None:
        """See :meth:`Job.cancel`."""
        await _in_thread(self._job.cancel)


class AsyncClient:
    """A client of a grid for asyncio; arguments as for :class:`Client`."""

    def __init__(self, url: str = "http://127.0.0.1:7070", **options: Any) -> None:
        self._client = Client(url, **options)
        self.url = self._client.url

    async def status(self) -> Dict[str, Any]:
        """See :meth:`Client.status`."""
        return await _in_thread(self._client.status)

    async def models(self) -> List[Dict[str, Any]]:
        """See :meth:`Client.models`."""
        return await _in_thread(self._client.models)

    async def public_model(self, model: str) -> PublicModel:
        """See :meth:`Client.public_model`."""
        return await _in_thread(self._client.public_model, model)

    async def add_model(self, model: Model, name: Optional[str] = None) -> Dict[str, Any]:
        """See :meth:`Client.add_model`."""
        return await _in_thread(self._client.add_model, model, name)

    async def submit(self, model: str, inputs: Inputs, **options: Any) -> AsyncJob:
        """See :meth:`Client.submit`."""
        return AsyncJob(await _in_thread(functools.partial(self._client.submit, model, inputs, **options)))

    async def infer(self, model: str, inputs: Inputs, **options: Any) -> JobResult:
        """See :meth:`Client.infer`."""
        job = await self.submit(model, inputs, **options)
        return await (await job.wait()).fetch()

    async def write(self, model: str, prompt: Prompt, **options: Any) -> WrittenResult:
        """See :meth:`Client.write`."""
        return await _in_thread(functools.partial(self._client.write, model, prompt, **options))

    def job(self, job_id: str, order: Optional[str] = None) -> AsyncJob:
        """A job that was ordered before."""
        return AsyncJob(self._client.job(job_id, order))

    async def open_endpoint(self, model: str, money: str, **options: Any) -> AsyncEndpoint:
        """See :meth:`Client.open_endpoint`."""
        opened = functools.partial(self._client.open_endpoint, model, money, **options)
        return AsyncEndpoint(await _in_thread(opened))

    def endpoint(self, job_id: str) -> AsyncEndpoint:
        """An endpoint that was opened before."""
        return AsyncEndpoint(self._client.endpoint(job_id))

    async def endpoints(self) -> List[Dict[str, Any]]:
        """See :meth:`Client.endpoints`."""
        return await _in_thread(self._client.endpoints)


async def _in_thread(call: Callable[..., T], *arguments: Any) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, functools.partial(call, *arguments))


def _steps(status: Mapping[str, Any]) -> List[Step]:
    return [Step(step["state"], step["height"], step["at_ms"]) for step in status["history"]]


def _waits_for_key(status: Mapping[str, Any]) -> bool:
    return status["mode"] == "sealed" and status["state"] in _BEFORE_KEY


def _shown(progress: WaitProgress, job: str) -> Callable[[Step], None]:
    if progress is True:
        bar = Bar(job)
        return lambda step: bar(step.state)
    if callable(progress):
        return progress
    return lambda step: None


def _check_paid(status: Mapping[str, Any]) -> None:
    state = status["state"]
    if state == "paid":
        return
    reason = status.get("reason") or "it has no result"
    error = JobFailedError(f"job {status['id']} is {state}: {reason}", f"tensorgrid job why {status['id']}")
    error.state = state
    raise error


def _refusal(error: urllib.error.HTTPError) -> TensorGridError:
    try:
        body = json.loads(error.read(1 << 20))
        message, hint = f"{body['code']}: {body['message']}", body.get("hint") or None
    except (ValueError, KeyError, TypeError):
        message, hint = f"the grid answered with status {error.code}", None
    kind = NotFoundError if error.code == 404 else TensorGridError
    return kind(message, hint)
