"""Options of ``learned_sparse.encode`` as one checked value, and the defaults that depend on the environment."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from learned_sparse.collections import Segmentation, Which
from learned_sparse.core import LearnedSparseError, Quantizer, Side, add_set_option, parse_changes
from learned_sparse.encode.documents import PART_SIZE
from learned_sparse.encode.quantizers import Calibration, choose_quantizer

DEMO_COLLECTION = "pydoc"
DEMO_MODELS = frozenset({"sparterm", "sparterm-literal", "splade", "spade", "uhd"})
"""Names of the checkpoints of ``make demo``. Without ``--collection`` and ``--input``, these are encoded on pydoc."""
_NOT_RECORDED = frozenset(
    {"model", "checkpoint", "collection", "queries", "split", "output", "resume", "overwrite", "data"}
)
"""Options without effect on vectors or files, and options that are fields of the manifest."""
_TASK_VARIABLES = (("WORLD_SIZE", "RANK"), ("SLURM_NTASKS", "SLURM_PROCID"))
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class EncodeOptions:
    """Options of one encoding; None leaves the choice to the checkpoint or the collection."""

    model: str
    checkpoint: str | None = None
    revision: str | None = None
    collection: str | None = None
    data: Path | None = None
    input: Path | None = None
    queries: bool = False
    split: str | None = None
    output: Path | None = None
    max_length: int | None = None
    batch_size: str | None = None
    part_size: int = PART_SIZE
    device: str | None = None
    dtype: str | None = None
    compile: bool = False
    top_k: int | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Changes to the settings of the checkpoint (``--set``)."""
    segment_length: int | None = None
    segments: Which | None = None
    segment_overlap: int | None = None
    segment_delimiter: str | None = None
    quantization_factor: float | None = None
    bits: int | None = None
    calibration: float = 100.0
    num_shards: int = 1
    shard_id: int = 0
    resume: bool = False
    overwrite: bool = False
    gzip: bool = False
    on_bad_line: Literal["error", "skip"] = "error"

    def __post_init__(self) -> None:
        for name in ("max_length", "part_size", "top_k", "num_shards"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise LearnedSparseError(f"--{name.replace('_', '-')} {value}: give at least 1")
        if not 0 <= self.shard_id < self.num_shards:
            raise LearnedSparseError(
                f"--shard-id {self.shard_id}: with --num-shards {self.num_shards} give 0 to {self.num_shards - 1}"
            )
        if self.resume and self.overwrite:
            raise LearnedSparseError("--resume keeps earlier output and --overwrite removes it: give one of them")
        if self.input is not None and self.output is None:
            raise LearnedSparseError("--input needs --output DIR; only a collection has a default output folder")
        if self.queries and self.num_shards > 1:
            raise LearnedSparseError("--num-shards is for documents; queries are written as one file")
        if self.split is not None and not self.queries:
            raise LearnedSparseError("--split is for --queries; all splits share the same documents")
        if self.split is not None and self.input is not None:
            raise LearnedSparseError("--split belongs to a collection; --input names the file of queries itself")
        if self.queries and self.segment_length is not None:
            raise LearnedSparseError("--segment-length is for documents; a query is never cut into segments")
        self.segmentation()

    @property
    def side(self) -> Side:
        """Side of the model that is needed."""
        return "query" if self.queries else "document"

    def segmentation(self) -> Segmentation | None:
        """How documents are cut into segments; None leaves them whole."""
        options = {"which": self.segments, "overlap": self.segment_overlap, "delimiter": self.segment_delimiter}
        given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        if self.segment_length is None:
            if given:
                raise LearnedSparseError("--segments, --segment-overlap and --segment-delimiter need --segment-length")
            return None
        return Segmentation(length=self.segment_length, **given)

    def choose_quantizer(self, side: Side, scoring: str, stored: Quantizer | None) -> Quantizer | Calibration:
        """Quantiser of one side; the options are about the side that is encoded."""
        if side != self.side:
            return choose_quantizer(side, scoring, stored)
        return choose_quantizer(
            side, scoring, stored, factor=self.quantization_factor, bits=self.bits, percentile=self.calibration
        )

    def recorded(self) -> dict[str, Any]:
        """Options that affect vectors or files, for the manifest; a resumed run must have the same ones."""
        recorded = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name not in _NOT_RECORDED}
        recorded |= {"input": None if self.input is None else str(self.input), "changes": dict(self.changes)}
        if segments := self.segmentation():
            recorded |= {
                "segments": segments.which,
                "segment_overlap": segments.overlap,
                "segment_delimiter": segments.delimiter,
            }
        return recorded

    def encoder_options(self, side: Side) -> dict[str, Any]:
        """Keyword arguments of ``load_encoder``; lengths, batches and ``top_k`` are about the side that is encoded."""
        options: dict[str, Any] = {
            "revision": self.revision,
            "device": self.device,
            "dtype": self.dtype,
            "settings": dict(self.changes) or None,
        }
        if side == self.side:
            options |= {"max_length": self.max_length, "batch_size": self.batch_size, "top_k": self.top_k}
            if self.compile:
                options["compile"] = True
        return options


def parse_arguments(argv: list[str] | None) -> EncodeOptions:
    """Options given on the command line (``sys.argv`` for None), with defaults from the environment."""
    given = vars(_parser().parse_args(argv))
    if devices := given.pop("devices"):
        raise LearnedSparseError(_instead_of_devices(devices))
    if given["collection"] is None and given["input"] is None:
        given["collection"] = _default_collection(given["model"], given["checkpoint"])
    shards = given.pop("num_shards"), given.pop("shard_id")
    given["num_shards"], given["shard_id"] = (shards[0] or 1, shards[1] or 0) if given["queries"] else _shards(*shards)
    return EncodeOptions(changes=parse_changes(given.pop("set")), **given)


def _default_collection(model: str, checkpoint: str | None) -> str:
    """``DEMO_COLLECTION`` for the demo's checkpoints; any other model needs an explicit input."""
    name = Path(checkpoint or model).name
    if name not in DEMO_MODELS:
        raise LearnedSparseError(
            f"--model {model}: give --input FILE or --collection NAME to say what to encode; only the models of "
            f"`make demo` ({', '.join(sorted(DEMO_MODELS))}) have a default, the embedded collection {DEMO_COLLECTION}"
        )
    _log.info("neither --input nor --collection given: encoding the embedded collection %s", DEMO_COLLECTION)
    return DEMO_COLLECTION


def _shards(num_shards: int | None, shard_id: int | None) -> tuple[int, int]:
    """``--num-shards`` and ``--shard-id``, with defaults from the variables of torchrun, accelerate or Slurm."""
    for count_variable, number_variable in _TASK_VARIABLES:
        count, number = os.environ.get(count_variable, ""), os.environ.get(number_variable, "")
        if not (count.isdecimal() and number.isdecimal() and int(count) > 1):
            continue
        if num_shards in {None, int(count)} and shard_id is None:
            _log.info(
                "encoding shard %s of %s, from %s and %s (--num-shards 1 --shard-id 0 encodes everything)",
                number, count, number_variable, count_variable,
            )  # fmt: skip
            return int(count), int(number)
        break
    return (1 if num_shards is None else num_shards), shard_id or 0


def _instead_of_devices(devices: Sequence[str]) -> str:
    commands = "".join(
        f"\n  python -m learned_sparse.encode ... --device {device} --num-shards {len(devices)} --shard-id {number}"
        for number, device in enumerate(devices)
    )
    return f"--devices: one process encodes on one device; run one process for each device instead:{commands}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m learned_sparse.encode",
        description="Encode a collection, or queries, into impact vectors that Pyserini and Anserini read.",
    )
    what = parser.add_argument_group("what")
    what.add_argument("--model", required=True, help="name of the model, for instance sparterm or splade")
    what.add_argument("--checkpoint", metavar="DIR|HUB_ID", help="default: the checkpoint that `make demo` trains")
    what.add_argument("--revision", help="revision of a checkpoint on the Hub")
    source = what.add_mutually_exclusive_group()
    source.add_argument(
        "--collection", metavar="NAME|PATH", help=f"required without --input; models of `make demo`: {DEMO_COLLECTION}"
    )
    source.add_argument(
        "--input", type=Path, metavar="FILE|DIR", help="documents (or topics) in files: TSV, JSONL, .gz"
    )
    what.add_argument("--data", type=Path, metavar="DIR", help="folder with the files of --collection")
    what.add_argument("--queries", action="store_true", help="encode queries instead of documents")
    what.add_argument("--split", help="split of the queries; default: test, or the only split")
    what.add_argument("--on-bad-line", choices=["error", "skip"], default="error", help="default: %(default)s")

    where = parser.add_argument_group("where")
    where.add_argument("--output", type=Path, metavar="DIR", help="default: a folder below $LEARNED_SPARSE_HOME")
    where.add_argument("--resume", action="store_true", help="continue an interrupted run")
    where.add_argument("--overwrite", action="store_true", help="remove the output of an earlier run")
    where.add_argument("--gzip", action="store_true", help="compress the part files")
    where.add_argument("--part-size", type=int, default=PART_SIZE, metavar="N", help="documents a file: %(default)s")
    where.add_argument(
        "--num-shards", type=int, metavar="N", help="divide the parts among N processes; default: WORLD_SIZE, else "
        "SLURM_NTASKS, else 1",
    )  # fmt: skip
    where.add_argument(
        "--shard-id", type=int, metavar="I", help="write parts I, I+N, I+2N, ... (from 0); default: RANK, else "
        "SLURM_PROCID, else 0",
    )  # fmt: skip

    segments = parser.add_argument_group("long documents")
    segments.add_argument(
        "--segment-length", type=int, metavar="TOKENS", help="cut document D into segments D#0, D#1, ..."
    )
    segments.add_argument("--segments", choices=["first", "all"], help="segments to encode; default: all")
    segments.add_argument(
        "--segment-overlap", type=int, metavar="TOKENS", help="tokens that neighbours share; default: 0"
    )
    segments.add_argument("--segment-delimiter", metavar="TEXT", help="instead of #, if ids of documents contain #")

    how = parser.add_argument_group("how")
    how.add_argument("--max-length", type=int, metavar="TOKENS", help="default: the checkpoint's")
    how.add_argument("--batch-size", metavar="N|Nt", help="texts (32) or tokens (4096t) of one forward pass")
    how.add_argument("--device", help="cpu, cuda, cuda:1, ...; default: a GPU if there is one")
    how.add_argument("--devices", nargs="+", metavar="D", help=argparse.SUPPRESS)
    how.add_argument("--dtype", help="fp32, bf16 or fp16; default: the fastest on the device")
    how.add_argument("--compile", action="store_true", help="torch.compile the model: pays on a GPU, in long runs")
    how.add_argument("--top-k", type=int, metavar="K", help="keep the K largest weights of each text")
    add_set_option(how, "change a setting of the checkpoint, for instance alpha=0.3; can be repeated")
    how.add_argument("--quantization-factor", type=float, metavar="X", help="impact = round(X * weight)")
    how.add_argument("--bits", type=int, metavar="B", help="impacts up to 2**B - 1, calibrated on the first documents")
    how.add_argument(
        "--calibration", type=float, default=100.0, metavar="PERCENTILE", help="of the weights: %(default)s"
    )
    return parser
