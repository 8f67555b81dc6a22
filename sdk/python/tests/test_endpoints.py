"""Endpoints of a grid in a process of its own."""

import asyncio
from decimal import Decimal

import numpy
import pytest

import tensorgrid

DIGIT = numpy.random.default_rng(3).random((1, 1, 8, 8), dtype=numpy.float32)


def test_an_endpoint_answers_what_a_job_does_and_gives_the_rest_back(grid):
    client = tensorgrid.Client(grid)
    ordered = client.infer("mlp-digits", DIGIT)
    with client.open_endpoint("mlp-digits", money="2", hours=0.5) as endpoint:
        assert endpoint.status()["state"] == "running"
        assert endpoint.id in [one["id"] for one in client.endpoints()]
        answers = [endpoint.ask(DIGIT) for _ in range(2)]
        for answer in answers:
            assert numpy.array_equal(answer.answer.raw, ordered.answer.raw)
            assert Decimal(answer.price) > 0 and answer.provider and not answer.proved
        proved = endpoint.ask(DIGIT, prove=True)
        assert proved.proved and numpy.array_equal(proved.answer.raw, ordered.answer.raw)
        assert Decimal(proved.price) > Decimal(answers[0].price)
        before = Decimal(endpoint.status()["max_price"])
        assert Decimal(endpoint.top_up("0.5")["max_price"]) == before + Decimal("0.5")
        again = client.endpoint(endpoint.id).ask(DIGIT)
        assert numpy.array_equal(again.answer.raw, ordered.answer.raw)
    ended = endpoint.close()
    settled = {name: Decimal(ended["settlement"][name]) for name in ("price", "refund")}
    assert settled["price"] > 0 and sum(settled.values()) == before + Decimal("0.5")
    assert endpoint.id not in [one["id"] for one in client.endpoints()]
    with pytest.raises(tensorgrid.TensorGridError):
        endpoint.ask(DIGIT)


def test_text_is_written_whole_and_in_pieces(grid):
    client = tensorgrid.Client(grid)
    options = {"tokens": 24, "temperature": 0.7, "seed": bytes(range(32))}
    with client.open_endpoint("gpt-bytes", money="2") as endpoint:
        whole = endpoint.write("ROMEO:\n", **options)
        assert len(whole.tokens) == 24 and whole.text and bytes(whole.prompt) == b"ROMEO:\n"
        stream = endpoint.stream("ROMEO:\n", **options)
        assert stream.result is None
        pieces = list(stream)
        assert "".join(pieces) == whole.text and len(pieces) > 1
        assert stream.result.tokens == whole.tokens
        # One that is not read to the end leaves the endpoint as it is.
        left = endpoint.stream("ROMEO:\n", **options)
        next(left)
        with pytest.raises(tensorgrid.UsageError, match="not read to its end"):
            endpoint.write("a")
        left.close()
        assert endpoint.write(whole.prompt, **options).tokens == whole.tokens
        with pytest.raises(tensorgrid.UsageError):
            endpoint.write("a", seed=b"short")
        with pytest.raises(tensorgrid.TensorGridError):
            list(endpoint.stream("", tokens=3))


def test_asyncio_endpoints(grid):
    async def all_of_it():
        client = tensorgrid.AsyncClient(grid)
        async with await client.open_endpoint("gpt-bytes", money="2") as endpoint:
            options = {"tokens": 12, "temperature": 0.0}
            first, second = await asyncio.gather(*(endpoint.write("A", **options) for _ in range(2)))
            pieces = [piece async for piece in endpoint.stream("A", **options)]
            async for _ in endpoint.stream("A", **options):
                break
            served = await endpoint.status()
        ended = await endpoint.close()
        return first, second, pieces, served, ended

    first, second, pieces, served, ended = asyncio.run(all_of_it())
    assert first.tokens == second.tokens and "".join(pieces) == first.text
    assert served["state"] == "running" and ended["settlement"]


def test_refusals_of_endpoints_are_typed(grid):
    client = tensorgrid.Client(grid)
    with pytest.raises(tensorgrid.TensorGridError):
        client.open_endpoint("no-such-model", money="1")
    with pytest.raises(tensorgrid.UsageError):
        client.open_endpoint("mlp-digits", money="nothing")
    with pytest.raises(tensorgrid.NotFoundError):
        client.endpoint("0x" + "00" * 32).ask(DIGIT)
