"""Endpoints: a model that one provider serves for some time, asked and paid directly.

Requests and answers are sealed between this machine and the provider, and signed by both. Nobody else checks an answer: ask with
``prove=True`` where that matters.
"""

from __future__ import annotations

import asyncio
import functools
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable, Dict, Generator, Iterator, List, Optional, Sequence, TypeVar, Union

from ._answers import Answer, answers_of
from ._arrays import Inputs, write
from ._binary import ask, ask_lines
from .errors import UsageError

if TYPE_CHECKING:
    from .client import Client

T = TypeVar("T")
Prompt = Union[str, Sequence[int]]


@dataclass(frozen=True)
class EndpointAnswer:
    """What an endpoint answered.

    Attributes:
        answer: The outputs.
        price: What it cost, in TGRID, as a text.
        provider: Who answered.
        signature: The provider's signature.
        proved: Whether a proof came with it that was verified on this machine.
    """

    answer: Answer
    price: str
    provider: str
    signature: str = field(repr=False)
    proved: bool = False


@dataclass(frozen=True)
class WrittenText:
    """What a language model wrote.

    Attributes:
        text: The text, or None where tokens are no text.
        tokens: The tokens after the prompt.
        prompt: The tokens of the prompt.
        price: What it cost, in TGRID, as a text.
        provider: Who wrote it.
        signature: The provider's signature.
    """

    text: Optional[str]
    tokens: List[int]
    prompt: List[int] = field(repr=False)
    price: str = "0"
    provider: str = ""
    signature: str = field(default="", repr=False)


class Endpoint:
    """An endpoint of this client's account. At the end of a ``with`` block it is closed.

    One request is under way at a time: each says what is owed for those before.

    Attributes:
        id: Its job's id.
    """

    def __init__(self, client: "Client", job_id: str) -> None:
        self._client = client
        self._turn = threading.Lock()
        self._stream: Optional["TextStream"] = None
        self.id = job_id

    def __repr__(self) -> str:
        return f"Endpoint({self.id!r})"

    def __enter__(self) -> "Endpoint":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    @contextmanager
    def _request(self) -> Iterator[None]:
        """One request after the other, from whichever threads. A stream that is not read to its end would be waited for for ever."""
        if self._stream is not None:
            raise UsageError("a stream of this endpoint is not read to its end", "read it to its end, or close() it, before the next request")
        with self._turn:
            yield

    def status(self) -> Dict[str, Any]:
        """Its job, as the API says it: ``state``, ``escrow`` (what is left), ``served`` (what was paid), ``leases`` with their ``meter``."""
        status: Dict[str, Any] = self._client.get(f"/v1/jobs/{self.id}")
        return status

    def ask(self, inputs: Inputs, *, prove: bool = False) -> EndpointAnswer:
        """Asks for the outputs of one inference.

        Args:
            inputs: As for :func:`tensorgrid.run`.
            prove: Have the answer proved, and verify that here: it costs as much as a minute and a run, and nothing if it does not hold.

        Raises:
            RejectedError: If the provider refuses, or what it answers does not hold.
            GridUnavailableError: If nobody serves the endpoint, as while its money is spent.
        """
        with tempfile.TemporaryDirectory(prefix="tensorgrid-") as folder:
            arguments: List[Union[str, Path]] = ["endpoint", "ask", self.id, write(inputs, Path(folder), "input")]
            arguments += [*(["--prove"] if prove else []), *self._client._signing(), *self._client._trust()]
            with self._request():
                report = ask(arguments)
        answer = answers_of(report["values"], report.get("answer"))[0]
        proved = report.get("proof_bytes") is not None
        return EndpointAnswer(answer, report["price"], report["provider"], report["signature"], proved)

    def write(self, prompt: Prompt, **options: Any) -> WrittenText:
        """Has a language model write what follows a prompt.

        Args:
            prompt: A text, or tokens.
            tokens: Most tokens to write; 32 by default.
            temperature: How evenly tokens are drawn; 0 for the likeliest always.
            top_k: Draw among so many likeliest tokens.
            top_p: Of those, among the fewest that have this share of the probability.
            seed: 32 bytes that decide every draw; drawn by default.
            stop: The token after which nothing is written.
            tokenizer: The ``tokenizer.json`` that the model was compiled with.
        """
        with self._request():
            return _written(ask(self._writing(prompt, **options)))

    def stream(self, prompt: Prompt, **options: Any) -> "TextStream":
        """The text that a language model writes, in pieces as they come; arguments as for :meth:`write`.

        One request is under way at a time: read it to the end, or ``close()`` it, before the endpoint is asked again.
        """
        return TextStream(self, [*self._writing(prompt, **options), "--stream"])

    def top_up(self, money: str) -> Dict[str, Any]:
        """Locks more money, in TGRID, as a text, and returns the job. An endpoint whose money is spent is served again."""
        status: Dict[str, Any] = ask(["endpoint", "top-up", self.id, str(money), *self._client._signing(), *self._client._trust()])
        return status

    def close(self) -> Dict[str, Any]:
        """Ends it, waits for the provider's last claim, and returns the job with its ``settlement``. Of one that has ended, the job."""
        if self._stream is not None:
            self._stream.close()
        status = self.status()
        if status.get("settlement"):
            return status
        with self._request():
            ended: Dict[str, Any] = ask(["endpoint", "close", self.id, *self._client._signing()])
        return ended

    def _writing(self, prompt: Prompt, **options: Any) -> List[Union[str, Path]]:
        return ["endpoint", "write", self.id, *_drawing(prompt, **options), *self._client._signing(), *self._client._trust()]


def _drawing(
    prompt: Prompt,
    *,
    tokens: int = 32,
    temperature: float = 1.0,
    top_k: Optional[int] = None,
    top_p: float = 1.0,
    seed: Optional[bytes] = None,
    stop: Optional[int] = None,
    tokenizer: Optional[Union[str, Path]] = None,
) -> List[Union[str, Path]]:
    """What commands that have a language model write take."""
    arguments: List[Union[str, Path]] = []
    if isinstance(prompt, str):
        arguments.append(f"--text={prompt}")
    else:
        arguments += ["--prompt", ",".join(str(int(token)) for token in prompt)]
    arguments += ["--tokens", str(tokens), "--temperature", str(temperature), "--top-p", str(top_p)]
    if top_k is not None:
        arguments += ["--top-k", str(top_k)]
    if seed is not None:
        if len(seed) != 32:
            raise UsageError(f"a seed has 32 bytes, not {len(seed)}")
        arguments += ["--seed", seed.hex()]
    if stop is not None:
        arguments += ["--stop", str(stop)]
    if tokenizer is not None:
        arguments += ["--tokenizer", Path(tokenizer)]
    return arguments


class TextStream(Iterator[str]):
    """The pieces of a text as they come.

    Attributes:
        result: The whole, once they have ended; None before.
    """

    def __init__(self, endpoint: Endpoint, arguments: List[Union[str, Path]]) -> None:
        self.result: Optional[WrittenText] = None
        self._pieces = self._read(endpoint, arguments)

    def __next__(self) -> str:
        return next(self._pieces)

    def close(self) -> None:
        """Stops reading; what was computed is paid."""
        self._pieces.close()

    def _read(self, endpoint: Endpoint, arguments: List[Union[str, Path]]) -> Generator[str, None, None]:
        with endpoint._request():
            endpoint._stream = self
            try:
                for report in ask_lines(arguments):
                    if "piece" in report:
                        yield report["piece"]
                    else:
                        self.result = _written(report)
            finally:
                endpoint._stream = None


def _written(report: Dict[str, Any]) -> WrittenText:
    names = ("text", "tokens", "prompt", "price", "provider", "signature")
    return WrittenText(**{name: report[name] for name in names})


class AsyncEndpoint:
    """An endpoint for asyncio; see :class:`Endpoint`. At the end of an ``async with`` block it is closed."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.id = endpoint.id

    def __repr__(self) -> str:
        return f"AsyncEndpoint({self.id!r})"

    async def __aenter__(self) -> "AsyncEndpoint":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    async def status(self) -> Dict[str, Any]:
        """See :meth:`Endpoint.status`."""
        return await _in_thread(self._endpoint.status)

    async def ask(self, inputs: Inputs, *, prove: bool = False) -> EndpointAnswer:
        """See :meth:`Endpoint.ask`."""
        return await _in_thread(functools.partial(self._endpoint.ask, inputs, prove=prove))

    async def write(self, prompt: Prompt, **options: Any) -> WrittenText:
        """See :meth:`Endpoint.write`."""
        return await _in_thread(functools.partial(self._endpoint.write, prompt, **options))

    async def stream(self, prompt: Prompt, **options: Any) -> AsyncIterator[str]:
        """See :meth:`Endpoint.stream`."""
        pieces = self._endpoint.stream(prompt, **options)
        ended = object()
        try:
            while True:
                piece = await _in_thread(functools.partial(next, pieces, ended))
                if piece is ended:
                    return
                assert isinstance(piece, str)
                yield piece
        finally:
            pieces.close()

    async def top_up(self, money: str) -> Dict[str, Any]:
        """See :meth:`Endpoint.top_up`."""
        return await _in_thread(functools.partial(self._endpoint.top_up, money))

    async def close(self) -> Dict[str, Any]:
        """See :meth:`Endpoint.close`."""
        return await _in_thread(self._endpoint.close)


async def _in_thread(call: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, call)
