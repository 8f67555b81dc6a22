"""Proves and verifies one inference of a model with EZKL, as its documentation does: input private, weights fixed,
output public, KZG with a locally made (insecure, test only) reference string.

Every step runs in a process of its own, so that its processor time and memory are its own.
Prints `step<TAB>median cpu ms<TAB>median wall ms<TAB>peak MiB<TAB>bytes it wrote`.
usage: compare_ezkl.py MODEL ELEMENTS FOLDER
"""

import json
import os
import random
import statistics
import sys
import time
from pathlib import Path

import ezkl

RUNS = 3


def settings(files):
    """Circuit settings, calibrated for resources, and the compiled circuit."""
    arguments = ezkl.PyRunArgs()
    arguments.input_visibility = "private"
    arguments.param_visibility = "fixed"
    arguments.output_visibility = "public"
    ezkl.gen_settings(files["model"], files["settings"], py_run_args=arguments)
    ezkl.calibrate_settings(files["data"], files["model"], files["settings"], "resources")
    ezkl.compile_circuit(files["model"], files["circuit"], files["settings"])


def reference_string(files):
    """A reference string of the size that calibration chose."""
    with open(files["settings"], encoding="utf-8") as text:
        ezkl.gen_srs(files["srs"], json.load(text)["run_args"]["logrows"])


def setup(files):
    """Proving and verifying key."""
    ezkl.setup(files["circuit"], files["verifying key"], files["proving key"], files["srs"])


def witness(files):
    """The execution."""
    ezkl.gen_witness(files["data"], files["circuit"], files["witness"])


def prove(files):
    """The proof."""
    ezkl.prove(files["witness"], files["circuit"], files["proving key"], files["proof"], files["srs"])


def verify(files):
    """Its check."""
    if ezkl.verify(files["proof"], files["settings"], files["verifying key"], files["srs"]) is not True:
        raise SystemExit("EZKL does not accept its own proof")


STEPS = [
    ("settings", settings, 1, "circuit"),
    ("reference string", reference_string, 1, "srs"),
    ("set-up", setup, 1, "proving key"),
    ("witness", witness, RUNS, "witness"),
    ("prove", prove, RUNS, "proof"),
    ("verify", verify, RUNS, "verifying key"),
]


def measured(step, files):
    """Processor seconds, wall seconds and peak MiB of a step in a child process."""
    start = time.perf_counter()
    child = os.fork()
    if child == 0:
        # What EZKL prints must not stand among the rows.
        os.dup2(2, 1)
        code = 1
        try:
            step(files)
            code = 0
        finally:
            os._exit(code)
    _, status, usage = os.wait4(child, 0)
    if status != 0:
        raise SystemExit(f"the step `{step.__name__}` failed")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - start, usage.ru_maxrss / 1024


def proof_bytes(path):
    """Bytes of the proof itself: its file is JSON, with the proof in hexadecimal or as a list."""
    with open(path, encoding="utf-8") as text:
        proof = json.load(text)["proof"]
    return len(proof) if isinstance(proof, list) else len(proof.removeprefix("0x")) // 2


def main():
    model, elements, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    names = ["settings", "circuit", "srs", "verifying key", "proving key", "witness", "proof", "data"]
    files = {name: str(folder / name.replace(" ", "-")) for name in names}
    files["model"] = model
    numbers = random.Random(1)
    with open(files["data"], "w", encoding="utf-8") as text:
        json.dump({"input_data": [[numbers.random() for _ in range(elements)]]}, text)
    for name, step, runs, output in STEPS:
        print(f"EZKL: {name} ...", file=sys.stderr, flush=True)
        cpu, wall, peak = zip(*(measured(step, files) for _ in range(runs)))
        size = proof_bytes(files[output]) if output == "proof" else os.path.getsize(files[output])
        cpu, wall = statistics.median(cpu) * 1e3, statistics.median(wall) * 1e3
        print(f"{name}\t{cpu:.3f}\t{wall:.3f}\t{max(peak):.1f}\t{size}", flush=True)


if __name__ == "__main__":
    main()
