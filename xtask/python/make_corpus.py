"""Makes the corpus of exporter output (see corpus_common.py for the layout).

usage: make_corpus.py DIR [--data FOLDER] [--only NAME ...]

FOLDER holds mnist/ and text/; without it weights are seeded and random, and inputs too. NAME is the start of an
entry's name.
"""

import argparse
import pathlib
import warnings

import corpus_quantized
import corpus_torch
import corpus_trees
from corpus_common import Data


def main():
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()

    def chosen(name):
        return not arguments.only or any(name.startswith(start) for start in arguments.only)

    arguments.dir.mkdir(parents=True, exist_ok=True)
    corpus_torch.entries(arguments.dir, Data(arguments.data), chosen)
    corpus_trees.entries(arguments.dir, chosen)
    corpus_quantized.entries(arguments.dir, chosen)


if __name__ == "__main__":
    main()
