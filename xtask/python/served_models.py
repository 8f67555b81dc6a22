"""A served model, by OpenAI's own client, from a real llama.cpp server: chat, streams, completions, usage, prices, errors.

    python served_models.py BINARY

Writes a Llama of two layers with random weights and a vocabulary of bytes, serves it by llama.cpp's server (package `xllamacpp`) in a
process of its own, starts `BINARY up` and a provider of the server, and ends all of them. What the model says is noise; that it is
counted, paid and passed on is what is looked at.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from decimal import Decimal

KEY = "tensorgrid-development"
PROMPT_PRICE, COMPLETION_PRICE = Decimal(2), Decimal(6)


def write_model(path):
    """A Llama of two layers: a vocabulary of bytes, a space and small letters, random weights."""
    import gguf
    import numpy

    random = numpy.random.default_rng(7)
    width, inner, layers, heads = 64, 128, 2, 4
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("tiny")
    writer.add_context_length(512)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // heads)
    writer.add_file_type(0)
    letters = [chr(code).encode() for code in range(97, 123)]
    tokens = [b"<unk>", b"<s>", b"</s>", *(b"<0x%02X>" % byte for byte in range(256)), "\u2581".encode(), *letters]
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * 259 + [-float(index) for index in range(27)])
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * 27)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template("{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:")
    tensor = lambda name, *shape: writer.add_tensor(
        name, (random.standard_normal(shape) * 0.2).astype(numpy.float32)
    )
    ones = lambda name: writer.add_tensor(name, numpy.ones(width, dtype=numpy.float32))
    tensor("token_embd.weight", len(tokens), width)
    tensor("output.weight", len(tokens), width)
    ones("output_norm.weight")
    for layer in range(layers):
        block = f"blk.{layer}."
        ones(block + "attn_norm.weight")
        ones(block + "ffn_norm.weight")
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            tensor(block + name + ".weight", width, width)
        tensor(block + "ffn_gate.weight", inner, width)
        tensor(block + "ffn_up.weight", inner, width)
        tensor(block + "ffn_down.weight", width, inner)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def serve(path):
    """llama.cpp's server, until it is killed; its first line says where."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = path
    parameters.model_alias = {"tiny"}
    parameters.n_ctx = 512
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = 1
    parameters.use_jinja = True
    parameters.warmup = False
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.endpoint_metrics = False
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)
    while True:
        time.sleep(3600)


def until(what, found, seconds=60):
    began = time.time()
    while time.time() - began < seconds:
        value = found()
        if value:
            return value
        time.sleep(0.3)
    raise AssertionError(f"not in time: {what}")


def due(usage):
    million = Decimal(1_000_000)
    return (usage.prompt_tokens * PROMPT_PRICE + usage.completion_tokens * COMPLETION_PRICE) / million


def check(client, openai):
    listed = {model.id: model for model in client.models.list()}
    assert listed["tiny-llama"].tensorgrid["checked"] is False, listed
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello there"}]
    said = dict(model="tiny-llama", messages=messages, max_tokens=12, temperature=0, seed=5)
    paid = Decimal(0)

    chat = client.chat.completions.create(**said)
    ours = chat.tensorgrid
    assert chat.usage.completion_tokens == 12 and chat.choices[0].finish_reason == "length", chat
    assert chat.usage.prompt_tokens > 10 and ours["verify"] == "none" and ours["receipt"] is None, chat
    assert Decimal(ours["price"]) == due(chat.usage), (ours, chat.usage)
    paid += Decimal(ours["price"])

    stream = client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **said)
    parts = list(stream)
    pieces = [part.choices[0].delta.content for part in parts if part.choices and part.choices[0].delta.content]
    assert len(pieces) > 1, "it came in pieces"
    assert parts[-1].usage.completion_tokens == 12, parts[-1]
    paid += due(parts[-1].usage)

    text = client.completions.create(model="tiny-llama", prompt="abc", max_tokens=7, temperature=0)
    assert text.usage.completion_tokens == 7, text
    paid += Decimal(text.tensorgrid["price"])

    # Fields that other models of the grid refuse go through.
    scored = client.chat.completions.create(logprobs=True, top_logprobs=2, **said)
    assert len(scored.choices[0].logprobs.content) > 5, scored
    paid += Decimal(scored.tensorgrid["price"])

    answer = client.responses.create(model="tiny-llama", input="hello", max_output_tokens=5)
    assert answer.usage.output_tokens == 5 and answer.tensorgrid["verify"] == "none", answer
    paid += Decimal(answer.tensorgrid["price"])

    try:
        client.chat.completions.create(model="tiny-llama", messages=[{"role": "user", "content": "x" * 4000}])
    except openai.BadRequestError as error:
        assert error.code == "refused_by_model" and "context" in str(error), error
    else:
        raise AssertionError("a prompt beyond the context was taken")
    try:
        client.chat.completions.create(extra_body={"tensorgrid": {"verify": "proof"}}, **said)
    except openai.BadRequestError as error:
        assert error.param == "tensorgrid.verify", error
    else:
        raise AssertionError("what cannot be proved was said to be")
    return ours["job"], paid


def run(binary, folder):
    import openai

    model = folder / "tiny.gguf"
    write_model(model)
    started = []

    def start(*command, **more):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **more)
        started.append(process)
        return process

    try:
        server = start(sys.executable, __file__, "--serve", str(model))
        url = server.stdout.readline().strip()
        assert url.startswith("http://"), url
        grid = start(binary, "up", "--json", "--listen", "127.0.0.1:0", "--data-dir", str(folder / "grid"), "--providers", "0")
        api = json.loads(grid.stdout.readline())["api"]
        served = f"tiny-llama={url}/v1#tiny"
        prices = ["--prompt-price", str(PROMPT_PRICE), "--completion-price", str(COMPLETION_PRICE)]
        key = str(folder / "key")
        start(binary, "provider", "--api", api, "--key", key, "--serve-openai", served, "--context", "512", *prices)
        client = openai.OpenAI(base_url=f"{api}/openai/v1", api_key=KEY, max_retries=0, timeout=120)
        until("the model is served", lambda: any(model.id == "tiny-llama" for model in client.models.list()))
        job, paid = check(client, openai)
        time.sleep(3)
        closed = subprocess.run([binary, "--json", "endpoint", "close", job, "--api", api], capture_output=True, text=True)
        assert closed.returncode == 0, closed.stderr
        price = Decimal(json.loads(closed.stdout)["settlement"]["price"])
        assert price == paid, (price, paid)
        return price
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


def main():
    if sys.argv[1] == "--serve":
        serve(sys.argv[2])
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        paid = run(sys.argv[1], folder)
        print(f"a llama.cpp server was asked by OpenAI's client and paid {paid} TGRID for its tokens")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
