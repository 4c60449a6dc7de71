"""``python -m encoders.export``: write a checkpoint as sentence-transformers, Pyserini or OpenSearch read it."""

from __future__ import annotations

from pathlib import Path

from learned_sparse.core.encoder import default_checkpoint
from learned_sparse.core.errors import LearnedSparseError, run_main
from learned_sparse.core.settings import CommandParser, add_set_option, parse_changes

EPILOG = """\
Targets: sentence-transformers (a SparseEncoder), pyserini (SpladeQueryEncoder or UniCoilQueryEncoder), opensearch
(doc-only: idf.json), and learned-sparse (a checkpoint of this package, also from a folder of another tool).

examples:
  python -m encoders.export --model splade --to sentence-transformers --output exported
  python -m encoders.export --checkpoint DOC --query-checkpoint QUERY --to learned-sparse --output efficient-splade
  python -m encoders.export --model splade --to sentence-transformers --output exported --license apache-2.0
"""


def main(argv: list[str] | None = None) -> int:
    """Export a model."""
    parser = CommandParser(prog="python -m encoders.export", description=__doc__, epilog=EPILOG)
    add = parser.add_argument
    add("--model", help="name of a model in the home folder, or of a published one")
    add("--checkpoint", metavar="DIR|ID", help="checkpoint folder or Hub id, also of another tool")
    add("--revision", help="revision of a Hub repository")
    add("--query-checkpoint", metavar="DIR|ID", help="another SPLADE for queries, such as efficient-splade-*-query")
    add_set_option(parser, "correct a setting that the checkpoint does not say, such as pooling=sum; may be repeated")
    add("--to", required=True, choices=["sentence-transformers", "pyserini", "opensearch", "learned-sparse"])
    add("--output", type=Path, required=True, metavar="DIR", help="folder of the exported model")
    add("--overwrite", action="store_true", help="replace an earlier export")
    add("--license", metavar="ID", help="licence for the model card, such as apache-2.0")
    options = parser.parse_args(argv)
    if not (options.model or options.checkpoint):
        raise LearnedSparseError("which model? give --model NAME or --checkpoint DIR")
    from encoders.encoding.model import join_sides, load_checkpoint
    from encoders.export.exporting import export_model

    settings = parse_changes(options.set)
    checkpoint = options.checkpoint or default_checkpoint(options.model)
    model = load_checkpoint(checkpoint, revision=options.revision, settings=settings)
    if options.query_checkpoint:
        model = join_sides(model, load_checkpoint(options.query_checkpoint, settings=settings))
    notes = export_model(model, options.output, options.to, licence=options.license, overwrite=options.overwrite)
    print(f"{options.output}: {model.architecture} for {options.to}")
    for note in notes:
        print(f"  note: {note}")
    return 0


if __name__ == "__main__":
    run_main(main)
