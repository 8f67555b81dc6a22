"""A grid's OpenAI routes, used by OpenAI's own client: models, completions, chat, responses, streams, embeddings, files, batches, error
classes, and a retry that is charged once.

    python openai_client.py BINARY

Starts `BINARY up` on a free port in a fresh folder, and ends it. A small proxy on loopback loses the first answer to each
completion once, and says 503 in its place: the client asks again by itself.
"""

import contextlib
import http.client
import http.server
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

import openai

KEY = "tensorgrid-development"


class Losing(http.server.BaseHTTPRequestHandler):
    """Hands calls on; of the first completion the answer is lost."""

    target = ""
    lost = 0

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        host = urllib.parse.urlparse(self.target).netloc
        connection = http.client.HTTPConnection(host, timeout=120)
        keep = ("authorization", "content-type", "x-stainless-retry-count", "idempotency-key")
        headers = {name: value for name, value in self.headers.items() if name.lower() in keep}
        connection.request("POST", self.path, body, headers)
        answer = connection.getresponse()
        status, text = answer.status, answer.read()
        if Losing.lost == 0:
            Losing.lost += 1
            status, text = 503, b'{"error": {"message": "lost", "type": "server_error", "param": null, "code": null}}'
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def fails(kind, code, call):
    try:
        call()
    except kind as error:
        assert error.code == code, (error.code, code)
    else:
        raise AssertionError(f"no {kind.__name__}")


def jobs(grid):
    with urllib.request.urlopen(f"{grid}/v1/jobs", timeout=30) as answer:
        return json.load(answer)["total"]


def check(grid):
    client = openai.OpenAI(base_url=f"{grid}/openai/v1", api_key=KEY, max_retries=0, timeout=120)
    assert "gpt-bytes" in [model.id for model in client.models.list()]
    assert client.models.retrieve("gpt-bytes").id == "gpt-bytes"

    said = dict(model="gpt-bytes", seed=3, temperature=0.5, max_tokens=20)
    text = client.completions.create(prompt="JULIET:\n", **said)
    assert text.usage.completion_tokens == 20 and text.choices[0].finish_reason == "length"
    assert text.tensorgrid["receipt"].endswith("/receipt"), text.tensorgrid

    messages = [{"role": "user", "content": "Speak."}]
    chat = client.chat.completions.create(messages=messages, **said)
    assert chat.choices[0].message.role == "assistant"
    stream = client.chat.completions.create(
        messages=messages, stream=True, stream_options={"include_usage": True}, **said
    )
    parts = list(stream)
    streamed = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    assert streamed == chat.choices[0].message.content, (streamed, chat)
    assert parts[-1].usage == chat.usage

    proved = client.completions.create(prompt="JULIET:\n", extra_body={"tensorgrid": {"verify": "proof"}}, **said)
    assert proved.choices[0].text == text.choices[0].text
    assert proved.tensorgrid["proof_bytes"] > 100_000

    before = jobs(grid)
    asks = lambda **more: client.completions.create(**{"model": "gpt-bytes", "prompt": "a", **more})
    fails(openai.NotFoundError, "model_not_found", lambda: asks(model="gpt-5"))
    fails(openai.BadRequestError, "invalid_value", lambda: asks(n=9))
    fails(openai.BadRequestError, "unsupported_parameter", lambda: asks(logprobs=2))
    fails(openai.BadRequestError, "unsupported_parameter", lambda: asks(best_of=2))
    fails(openai.BadRequestError, "context_length_exceeded", lambda: asks(prompt="x" * 300))
    quota = {"tensorgrid": {"max_price": "1000000"}}
    fails(openai.RateLimitError, "insufficient_quota", lambda: asks(extra_body=quota))
    wrong = client.with_options(api_key="nobody")
    fails(openai.AuthenticationError, "invalid_api_key", lambda: wrong.completions.create(model="gpt-bytes", prompt="a"))
    assert jobs(grid) == before, "nothing was ordered"

    Losing.target = grid
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Losing)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    patient = client.with_options(base_url=f"http://127.0.0.1:{proxy.server_port}/openai/v1", max_retries=2)
    patient.completions.create(model="gpt-bytes", prompt="once", max_tokens=4)
    proxy.shutdown()
    assert Losing.lost == 1 and jobs(grid) == before + 1, "the retry was charged once"


def too_large(grid):
    """Its client has no class of its own for status 413."""
    client = openai.OpenAI(base_url=f"{grid}/openai/v1", api_key=KEY, max_retries=0, timeout=120)
    try:
        client.completions.create(model="gpt-bytes", prompt="x" * (5 << 20))
    except openai.APIStatusError as error:
        assert (error.status_code, error.code) == (413, "TG-API-003"), error
    else:
        raise AssertionError("a body of 5 MiB was taken")


def away():
    """A gateway that does not answer, and one that is not there."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/openai/v1"
        client = openai.OpenAI(base_url=url, api_key=KEY, max_retries=0, timeout=0.5)
        try:
            client.models.list()
        except openai.APITimeoutError:
            pass
        else:
            raise AssertionError("no APITimeoutError")
    try:
        client.models.list()
    except openai.APIConnectionError as error:
        assert not isinstance(error, openai.APITimeoutError), error
    else:
        raise AssertionError("no APIConnectionError")


def unserved(binary, folder):
    """A grid without providers: nobody takes a job, which is an error of the server and not of the request."""
    with started(binary, f"{folder}/unserved", 0) as grid:
        client = openai.OpenAI(base_url=f"{grid}/openai/v1", api_key=KEY, max_retries=0, timeout=120)
        # The models are registered in its first blocks.
        until = time.monotonic() + 60
        while "gpt-bytes" not in [model.id for model in client.models.list()]:
            assert time.monotonic() < until, "no model"
            time.sleep(0.2)
        before = jobs(grid)
        said = dict(model="gpt-bytes", max_tokens=4)
        fails(openai.InternalServerError, "service_unavailable", lambda: client.completions.create(prompt="a", **said))
        messages = [{"role": "user", "content": "Speak."}]
        stream = dict(messages=messages, stream=True)
        # A stream has begun by then: its client raises the class of errors without a status.
        fails(openai.APIError, "service_unavailable", lambda: list(client.chat.completions.create(**stream, **said)))
        try:
            client.completions.create(prompt="a", **said)
        except openai.InternalServerError as error:
            assert error.status_code == 503 and "no provider" in str(error), error
        assert jobs(grid) == before, "nothing was ordered"


def chosen(grid):
    """Several choices, and log probabilities of what is proved, in the types of the client."""
    client = openai.OpenAI(base_url=f"{grid}/openai/v1", api_key=KEY, max_retries=0, timeout=120)
    said = dict(model="gpt-bytes", seed=3, temperature=0.9, max_tokens=10)
    messages = [{"role": "user", "content": "Speak."}]
    before = jobs(grid)
    one = client.chat.completions.create(messages=messages, **said)
    three = client.chat.completions.create(messages=messages, n=3, **said)
    assert jobs(grid) == before + 4
    assert [choice.index for choice in three.choices] == [0, 1, 2]
    texts = [choice.message.content for choice in three.choices]
    assert texts[0] == one.choices[0].message.content and len(set(texts)) == 3, texts
    assert three.usage.completion_tokens == 30 and three.usage.prompt_tokens == 3 * one.usage.prompt_tokens
    streamed = ["", "", ""]
    for part in client.chat.completions.create(messages=messages, n=3, stream=True, **said):
        for choice in part.choices:
            streamed[choice.index] += choice.delta.content or ""
    assert streamed == texts, (streamed, texts)

    proof = {"tensorgrid": {"verify": "proof"}}
    listed = client.chat.completions.create(messages=messages, logprobs=True, top_logprobs=4, extra_body=proof, **said)
    tokens = listed.choices[0].logprobs.content
    assert "".join(it.token for it in tokens) == texts[0] and all(it.logprob <= 0 for it in tokens)
    assert all(len(it.top_logprobs) == 4 and bytes(it.bytes) for it in tokens)
    legacy = client.completions.create(prompt="JULIET:\n", logprobs=2, extra_body=proof, **said)
    told = legacy.choices[0].logprobs
    assert "".join(told.tokens) == legacy.choices[0].text and told.text_offset == list(range(10))
    assert len(told.token_logprobs) == len(told.top_logprobs) == 10
    # Its tokens are bytes.
    assert legacy.tensorgrid["logprobs"]["vocabulary"] == 256


def answered(grid):
    client = openai.OpenAI(base_url=f"{grid}/openai/v1", api_key=KEY, max_retries=0, timeout=120)
    said = dict(model="gpt-bytes", input="Speak.", instructions="Be brief.", temperature=0, max_output_tokens=8)
    whole = client.responses.create(**said)
    assert whole.status == "incomplete" and whole.incomplete_details.reason == "max_output_tokens", whole
    assert whole.usage.output_tokens == 8 and len(whole.output_text) > 0
    assert whole.tensorgrid["receipt"].endswith("/receipt")
    assert client.responses.retrieve(whole.id).output_text == whole.output_text
    next = client.responses.create(**{**said, "input": "Again.", "previous_response_id": whole.id})
    assert next.previous_response_id == whole.id and next.usage.input_tokens > whole.usage.input_tokens
    client.responses.delete(whole.id)
    fails(openai.NotFoundError, "not_found", lambda: client.responses.retrieve(whole.id))
    events = list(client.responses.create(stream=True, **said))
    assert events[0].type == "response.created" and events[-1].type == "response.incomplete", events
    deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert deltas == whole.output_text == events[-1].response.output_text
    tools = [{"type": "web_search"}]
    fails(openai.BadRequestError, "unsupported_parameter", lambda: client.responses.create(tools=tools, **said))
    raw = client.models.with_raw_response.list()
    assert int(raw.headers["x-ratelimit-remaining-requests"]) > 0


def embedded(binary, grid, folder):
    """A BERT of the repository, whose tokenizer makes tokens of words."""
    client = openai.OpenAI(base_url=f"{grid}/openai/v1", api_key=KEY, max_retries=0, timeout=120)
    root = pathlib.Path(__file__).resolve().parents[2]
    model = pathlib.Path(folder) / "bert"
    shutil.copytree(root / "crates/tg-pretrained/tests/data/bert", model)
    config = json.loads((model / "config.json").read_text())
    config["architectures"] = ["BertModel"]
    (model / "config.json").write_text(json.dumps(config))
    words = {"[PAD]": 0, "[UNK]": 1, "hello": 4, "world": 5}
    tokenizer = {"model": {"type": "WordLevel", "vocab": words, "unk_token": "[UNK]"}, "pre_tokenizer": {"type": "Whitespace"}}
    (model / "tokenizer.json").write_text(json.dumps(tokenizer))
    texts = pathlib.Path(folder) / "texts.txt"
    texts.write_text("hello world\nworld\nhello hello\n")
    own, public = f"{folder}/b.tgm", f"{folder}/b.tgv"
    run = lambda *words: subprocess.run([binary, *map(str, words)], check=True, capture_output=True, env={**os.environ, "TENSORGRID_API": grid})
    run("model", "compile", model, "--axis", "sequence=6", "--calibrate", texts, "-o", own, "--public-out", public)
    run("model", "add", own, public, "--name", "words", "--tokenizer", model / "tokenizer.json")
    # The client asks for base64 by itself.
    answer = client.embeddings.create(model="words", input=["hello world", "world", [5]])
    first, second, third = (item.embedding for item in answer.data)
    assert len(first) == 8 and abs(sum(it * it for it in first) - 1) < 1e-5
    assert second == third != first and answer.usage.prompt_tokens == 4
    floats = client.embeddings.create(model="words", input="world", encoding_format="float").data[0].embedding
    assert max(abs(a - b) for a, b in zip(floats, second)) < 1e-6
    asks = lambda **more: client.embeddings.create(**{"model": "words", "input": "hello", **more})
    fails(openai.BadRequestError, "unsupported_parameter", lambda: asks(dimensions=4))
    fails(openai.BadRequestError, "context_length_exceeded", lambda: asks(input="hello " * 9))
    fails(openai.BadRequestError, "invalid_value", lambda: asks(model="gpt-bytes"))


def batched(grid):
    client = openai.OpenAI(base_url=f"{grid}/openai/v1", api_key=KEY, max_retries=0, timeout=120)
    asked = lambda name, seed, model="gpt-bytes": {
        "custom_id": name, "method": "POST", "url": "/v1/chat/completions",
        "body": {"model": model, "messages": [{"role": "user", "content": "Speak."}], "max_tokens": 4, "seed": seed},
    }
    lines = [asked("a", 1), asked("b", 2), asked("c", 3, "gpt-5")]
    content = "\n".join(map(json.dumps, lines)).encode()
    file = client.files.create(file=("in.jsonl", content), purpose="batch")
    assert client.files.retrieve(file.id).bytes == len(content)
    assert file.id in [it.id for it in client.files.list()]
    assert client.files.content(file.id).content == content
    began = dict(endpoint="/v1/chat/completions", completion_window="24h", metadata={"of": "a test"})
    batch = client.batches.create(input_file_id=file.id, **began)
    assert client.files.delete(file.id).deleted, "a batch has its own copy"
    until = time.monotonic() + 120
    while batch.status != "completed":
        assert time.monotonic() < until and batch.status in ("validating", "in_progress", "finalizing"), batch
        time.sleep(0.2)
        batch = client.batches.retrieve(batch.id)
    assert (batch.request_counts.completed, batch.request_counts.failed) == (2, 1), batch
    assert batch.metadata == {"of": "a test"} and batch.id in [it.id for it in client.batches.list(limit=1)]
    read = lambda id: [json.loads(line) for line in client.files.content(id).text.splitlines()]
    output, errors = read(batch.output_file_id), read(batch.error_file_id)
    assert [line["custom_id"] for line in output] == ["a", "b"]
    assert output[0]["response"]["body"]["object"] == "chat.completion"
    assert errors[0]["response"]["body"]["error"]["code"] == "model_not_found"
    fails(openai.NotFoundError, "not_found", lambda: client.batches.create(input_file_id=file.id, **began))
    fails(openai.BadRequestError, "invalid_value", lambda: client.batches.cancel(batch.id))
    fails(openai.BadRequestError, "invalid_value", lambda: client.files.create(file=b"{}", purpose="assistants"))


@contextlib.contextmanager
def started(binary, folder, providers):
    """The address of a grid, which is ended."""
    command = [binary, "up", "--json", "--listen", "127.0.0.1:0", "--data-dir", folder, "--providers", str(providers)]
    grid = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        yield json.loads(grid.stdout.readline())["api"]
    finally:
        grid.terminate()
        grid.wait(60)


def main():
    binary = sys.argv[1]
    away()
    with tempfile.TemporaryDirectory() as folder:
        with started(binary, f"{folder}/data", 1) as grid:
            check(grid)
            too_large(grid)
            chosen(grid)
            answered(grid)
            embedded(binary, grid, folder)
            batched(grid)
        unserved(binary, folder)
    print(f"OpenAI's client {openai.__version__}: all checks passed")


if __name__ == "__main__":
    main()
