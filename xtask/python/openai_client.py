"""A grid's OpenAI routes, used by OpenAI's own client: models, completions, chat, streams, error classes, and a retry that is
charged once.

    python openai_client.py BINARY

Starts `BINARY up` on a free port in a fresh folder, and ends it. A small proxy on loopback loses the first answer to each
completion once, and says 503 in its place: the client asks again by itself.
"""

import http.client
import http.server
import json
import subprocess
import sys
import tempfile
import threading
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
    fails(openai.BadRequestError, "unsupported_parameter", lambda: asks(n=2))
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


def main():
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.argv[1], "up", "--json", "--listen", "127.0.0.1:0", "--data-dir", f"{folder}/data", "--providers", "1"]
        grid = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            check(json.loads(grid.stdout.readline())["api"])
        finally:
            grid.terminate()
            grid.wait(60)
    print(f"OpenAI's client {openai.__version__}: all checks passed")


if __name__ == "__main__":
    main()
