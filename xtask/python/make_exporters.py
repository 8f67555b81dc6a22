"""Draws the corpus of exporters (see exporters_common.py for the layout).

usage: make_exporters.py DIR [--seed S] [--only NAME ...]

NAME is the start of a graph's name. Graphs that are there already stay.
"""

import argparse
import logging
import os
import pathlib
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

FAMILIES = ["exporters_torch", "exporters_transformers", "exporters_tables", "exporters_datasets", "exporters_keras"]


def main():
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    parser = argparse.ArgumentParser()
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()

    def chosen(name):
        return not arguments.only or any(name.startswith(start) for start in arguments.only)

    arguments.dir.mkdir(parents=True, exist_ok=True)
    for family in FAMILIES:
        __import__(family).graphs(arguments.dir, arguments.seed, chosen)


if __name__ == "__main__":
    main()
