"""A grid in a process of its own, asked as a program would ask it."""

import asyncio

import numpy
import pytest

import tensorgrid


def test_a_job_from_order_to_verified_result(grid):
    client = tensorgrid.Client(grid)
    assert client.status()["development"]
    assert "mlp-digits" in [model["name"] for model in client.models()]
    image = numpy.random.default_rng(0).random((1, 1, 8, 8), dtype=numpy.float32)
    job = client.submit("mlp-digits", image)
    states = []
    job.wait(progress=lambda step: states.append(step.state), timeout_s=120)
    assert states[-1] == "paid" and "running" in states
    result = client.job(job.id).fetch()
    assert result.verified and result.proof and result.receipt["job"]["id"] == job.id
    assert result.answer.array.size == 10
    # What was signed is compared with what the API shows; the order of another input is none of this job.
    assert job.order is not None and result.receipt["job"]["input"] in job.order
    model, _, mode = job.order.split(":")
    with pytest.raises(tensorgrid.RejectedError, match="input"):
        client.job(job.id, f"{model}:0x{'00' * 32}:{mode}").fetch()
    verified = job.verify()
    assert verified.job == job.id
    assert numpy.array_equal(verified.answer.array, result.answer.array)


def test_an_own_model_is_added_and_asked(grid, classifier, classifier_file, rows):
    client = tensorgrid.Client(grid)
    added = client.add_model(classifier, name="classifier")
    assert added["state"] == "active"
    result = client.infer("classifier", rows[:1], verify="recompute")
    assert result.proof is None and not result.verified
    assert numpy.abs(result.answer["scores"] - classifier_file[1](rows[:1])).max() < 0.05
    assert result.answer.label in ("cat", "dog", "eel")


def test_asyncio_jobs_run_beside_each_other(grid):
    async def both():
        client = tensorgrid.AsyncClient(grid)
        images = numpy.random.default_rng(1).random((2, 1, 8, 8), dtype=numpy.float32)
        results = await asyncio.gather(*(client.infer("mlp-digits", image) for image in images))
        job = await client.submit("mlp-digits", images[0])
        states = [step.state async for step in job.steps(timeout_s=120)]
        return results, states

    results, states = asyncio.run(both())
    assert all(result.verified for result in results) and states[-1] == "paid"


def test_a_sealed_job_is_opened_by_the_key_that_ordered_it(grid):
    client = tensorgrid.Client(grid)
    image = numpy.random.default_rng(2).random((1, 1, 8, 8), dtype=numpy.float32)
    job = client.submit("mlp-digits", image, seal=True)
    assert job.wait(timeout_s=120).status()["mode"] == "sealed"
    sealed = job.fetch()
    assert sealed.proof is None and not sealed.verified
    plain = client.infer("mlp-digits", image, verify="recompute")
    assert numpy.array_equal(sealed.answer.array, plain.answer.array)
    other = tensorgrid.Client(grid, account="bob").job(job.id)
    with pytest.raises(tensorgrid.TensorGridError):
        other.fetch()
    with pytest.raises(tensorgrid.UsageError, match="whoever checks"):
        client.submit("mlp-digits", image, seal=True, verify="proof")


def test_a_bar_says_how_far_a_job_is(grid, capsys):
    client = tensorgrid.Client(grid)
    image = numpy.zeros((1, 1, 8, 8), numpy.float32)
    client.submit("mlp-digits", image, verify="recompute").wait(progress=True, timeout_s=120)
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("job 0x") and "[########################] paid, " in lines[-1]
    assert any("] running, " in line for line in lines)


def test_a_text_is_written_as_a_job_of_its_own(grid):
    client = tensorgrid.Client(grid)
    drawn = dict(tokens=12, temperature=0.8, seed=bytes([7] * 32))
    written = client.write("gpt-bytes", "ROMEO:\n", verify="proof", **drawn)
    assert len(written.tokens) == 12 and bytes(written.prompt) == b"ROMEO:\n"
    assert written.verified and written.proof and written.receipt["job"]["id"] == written.job
    assert written.seed == drawn["seed"]
    # The seed decides every draw, whoever writes and however it is checked.
    again = asyncio.run(tensorgrid.AsyncClient(grid).write("gpt-bytes", list(b"ROMEO:\n"), **drawn))
    assert again.tokens == written.tokens and again.proof is None and not again.verified
    with pytest.raises(tensorgrid.UsageError):
        client.write("gpt-bytes", "x" * 250)
    with pytest.raises(tensorgrid.UsageError, match="32 bytes"):
        client.write("gpt-bytes", "a", seed=b"short")


def test_refusals_are_typed(grid):
    client = tensorgrid.Client(grid)
    with pytest.raises(tensorgrid.NotFoundError):
        client.get("/v1/jobs/" + "00" * 32)
    with pytest.raises(tensorgrid.TensorGridError):
        client.submit("no-such-model", numpy.zeros(3, numpy.float32))
    with pytest.raises(tensorgrid.RejectedError, match="too low"):
        client.submit("mlp-digits", numpy.zeros((1, 1, 8, 8), numpy.float32), max_price="0.000000001")
    nobody = tensorgrid.Client("http://127.0.0.1:9")
    with pytest.raises(tensorgrid.GridUnavailableError) as caught:
        nobody.status()
    assert isinstance(caught.value, ConnectionError) and caught.value.hint
    with pytest.raises(tensorgrid.UsageError):
        tensorgrid.Client("ftp://127.0.0.1")
