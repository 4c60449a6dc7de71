"""``python -m eval.reproduce.step_word_pieces``: a checkpoint that only counts word pieces, to be scored by BM25."""

from __future__ import annotations

import argparse
from pathlib import Path

from encoders.checkpoints import FORMAT, BagNotes, CheckpointNotes, write_notes
from encoders.encoding import TOKENIZER, read_tokenizer
from eval.measures import tokenizer_folder
from learned_sparse.core import atomic_write

ARCHITECTURE = "word-pieces"
WHOLE_TEXTS = 2**20
"""Tokens: no text is cut."""


def main(argv: list[str] | None = None) -> int:
    """Write a checkpoint for learned_sparse.encode out of a tokenizer alone; [CLS] and the like are not counted."""
    parser = argparse.ArgumentParser(prog="python -m eval.reproduce.step_word_pieces", description=main.__doc__)
    parser.add_argument(
        "--tokenizer",
        default="minilm",
        metavar="DIR|HUB_ID",
        help="a folder or a name on the Hub with a tokenizer.json; default: MiniLM's, which is bert-base-uncased's",
    )
    parser.add_argument("--output", required=True, type=Path, metavar="DIR", help="the checkpoint")
    options = parser.parse_args(argv)
    write_checkpoint(tokenizer_folder(options.tokenizer), options.output)
    print(f"{options.output}: counts the word pieces of {options.tokenizer}")
    return 0


def write_checkpoint(tokenizer: Path, output: Path) -> None:
    """Both sides of it are bags of the word pieces of ``tokenizer``, a folder, with how often each occurs."""
    content = (tokenizer / TOKENIZER).read_bytes()
    with atomic_write(output / TOKENIZER) as file:
        file.write(content)
    read = read_tokenizer(tokenizer)
    added = read.get_added_tokens_decoder()
    special = tuple(sorted(number for number, token in added.items() if token.special))
    bag = BagNotes(weighting="tf", excluded=special, scoring="bm25", scale=1.0)
    notes = CheckpointNotes(
        format=FORMAT,
        architecture=ARCHITECTURE,
        settings={},
        vocabulary_size=max(read.get_vocab().values()) + 1,
        max_length={"query": WHOLE_TEXTS, "document": WHOLE_TEXTS},
        quantizers={"query": None, "document": None},
        bags={"query": bag, "document": bag},
    )
    write_notes(output, notes)


if __name__ == "__main__":
    from learned_sparse.core import run_main

    run_main(main)
