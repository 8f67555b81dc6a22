#!/usr/bin/env python3
"""Sends a handwritten digit to a TensorGrid grid and prints the answer and its receipt.

Python's standard library only. Start a grid first:

    cargo run --release -- up
    python3 examples/infer.py                       # the digit beside this file
    python3 examples/infer.py --model mlp-digits my-digit.json

A real client signs its own orders. A grid labelled `development` has funded accounts with public keys, and
`POST /v1/dev/infer` signs with one of them on behalf of clients without a signing library. The proof that the receipt
names is checked by every validator before anyone is paid; to check it on this machine as well:

    cargo run --release -- job receipt JOB --proof-out proof.bin
    cargo run --release -- model show mlp-digits --public-out mlp.tgv
    cargo run --release -- verify proof.bin --model mlp.tgv
"""

import argparse
import json
import os
import pathlib
import sys
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent


def call(method, url, body=None):
    """One call of the API; a refusal ends the program with its message and hint."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=150) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        try:
            refusal = json.load(error)
        except ValueError:
            refusal = {"code": f"HTTP-{error.code}", "message": error.reason, "hint": ""}
        sys.exit(f"error: {refusal['code']}: {refusal['message']}\nhint: {refusal['hint'] or 'none'}")
    except urllib.error.URLError as error:
        sys.exit(f"error: {url} cannot be reached: {error.reason}\nhint: start a grid with `tensorgrid up`")


def draw(pixels):
    """The digit in block characters, two columns a pixel."""
    side = round(len(pixels) ** 0.5)
    shades = " ░▒▓█"
    for row in range(side):
        line = pixels[row * side : (row + 1) * side]
        print("  " + "".join(shades[min(4, int(value * 5))] * 2 for value in line).rstrip())


def main():
    parser = argparse.ArgumentParser(description="Sends a handwritten digit to a TensorGrid grid.")
    parser.add_argument("input", nargs="?", default=HERE / "digit.json", help='{"input_data": [[...]]}')
    parser.add_argument("--model", default="mlp-digits", help="a model's name or id")
    parser.add_argument("--verify", choices=["proof", "none"], default="proof", help="how the result is checked")
    parser.add_argument("--api", default=os.environ.get("TENSORGRID_API", "http://127.0.0.1:7070"))
    arguments = parser.parse_args()

    status = call("GET", f"{arguments.api}/v1/status")
    if not status["development"]:
        sys.exit("error: this grid is not labelled development: sign an order with your own key instead")
    pixels = json.loads(pathlib.Path(arguments.input).read_text())["input_data"][0]
    draw(pixels)
    print(f"asking {arguments.model} on {arguments.api}, height {status['height']} ...")
    request = {"model": arguments.model, "input": pixels, "mode": arguments.verify}
    result = call("POST", f"{arguments.api}/v1/dev/infer", request)

    receipt = result["receipt"]
    money = receipt["settlement"]
    answer = result["answer"] or {"values": result["output"], "label": None}
    values = ", ".join(f"{value:.4g}" for value in answer["values"])
    print(f"answer     {answer['label'] or result['top']}   (outputs {values})")
    print(f"job        {result['job']}")
    print(f"provider   {receipt['lease']['provider']}")
    print(f"program    {receipt['receipt']['program']}")
    print(f"input      {receipt['receipt']['input']}")
    print(f"output     {receipt['receipt']['output']}")
    print(f"proof      {receipt['evidence'] or 'none: nobody checked this result'}")
    print(f"paid       {money['price']} TGRID to the provider, {money['verification_fee']} to the validators")


if __name__ == "__main__":
    main()
