"""The command line of ``learned_sparse.encode`` as one checked value."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from learned_sparse.collections import Segmentation, Which
from learned_sparse.core import LearnedSparseError, add_set_option, parse_changes

PART_SIZE = 2048
CALIBRATED_BITS = 8


@dataclass(frozen=True, kw_only=True)
class EncodeOptions:
    """What the user asked for; None where the checkpoint or the collection decides."""

    model: str
    checkpoint: str | None = None
    revision: str | None = None
    collection: str = "pydoc"
    data: Path | None = None
    input: Path | None = None
    queries: bool = False
    split: str | None = None
    output: Path | None = None
    max_length: int | None = None
    batch_size: str | None = None
    part_size: int = PART_SIZE
    device: str | None = None
    devices: tuple[str, ...] | None = None
    """A process for each; ``device`` is None then."""
    dtype: str | None = None
    compile: bool = False
    top_k: int | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    """To the checkpoint's settings."""
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
            raise LearnedSparseError("--resume keeps what is there and --overwrite removes it: give one of them")
        if self.input is not None and self.output is None:
            raise LearnedSparseError("--input needs --output DIR; only a collection has a place of its own")
        if self.queries and self.num_shards > 1:
            raise LearnedSparseError("--num-shards is for documents; queries are written as one file")
        if self.split is not None and not self.queries:
            raise LearnedSparseError("--split is for --queries; all splits share the same documents")
        if self.split is not None and self.input is not None:
            raise LearnedSparseError("--split belongs to a collection; --input names the file of queries itself")
        if self.queries and self.segment_length is not None:
            raise LearnedSparseError("--segment-length is for documents; a query is never cut into segments")
        self._check_devices()
        self.segmentation()

    def _check_devices(self) -> None:
        if self.devices is None:
            return
        if self.device is not None:
            raise LearnedSparseError("--device names one device and --devices several: give one of them")
        if self.queries:
            raise LearnedSparseError("--devices is for documents; queries are few: give --device")
        if len({_kind(name) for name in self.devices}) != 1:
            raise LearnedSparseError(
                f"--devices {' '.join(self.devices)}: give devices of one kind: two kinds give other weights"
            )

    def segmentation(self) -> Segmentation | None:
        """How documents are to be cut; None leaves them whole."""
        asked = [("which", self.segments), ("overlap", self.segment_overlap), ("delimiter", self.segment_delimiter)]
        given: dict[str, Any] = {name: value for name, value in asked if value is not None}
        if self.segment_length is None:
            if given:
                raise LearnedSparseError("--segments, --segment-overlap and --segment-delimiter need --segment-length")
            return None
        return Segmentation(length=self.segment_length, **given)

    def recorded(self) -> dict[str, Any]:
        """What changes the vectors or the files, for the manifest; a resumed run must not differ in it.

        Options that came later are there only if they are given: manifests of before stay equal.
        """
        later: dict[str, Any] = {"changes": dict(self.changes)} if self.changes else {}
        if self.compile:
            later["compile"] = True
        if cut := self.segmentation():
            later.update(
                segment_length=cut.length,
                segments=cut.which,
                segment_overlap=cut.overlap,
                segment_delimiter=cut.delimiter,
            )
        return {
            "revision": self.revision,
            "input": None if self.input is None else str(self.input),
            "max_length": self.max_length,
            "batch_size": self.batch_size,
            "part_size": self.part_size,
            "device": _kind(self.devices[0]) if self.devices else self.device,  # how many changes nothing
            "dtype": self.dtype,
            "top_k": self.top_k,
            "quantization_factor": self.quantization_factor,
            "bits": self.bits,
            "calibration": self.calibration,
            "num_shards": self.num_shards,
            "shard_id": self.shard_id,
            "gzip": self.gzip,
            "on_bad_line": self.on_bad_line,
            **later,
        }

    def encoder_settings(self) -> dict[str, Any]:
        """The keyword arguments of ``load_encoder``."""
        return {
            "revision": self.revision,
            "max_length": self.max_length,
            "batch_size": self.batch_size,
            "device": self.devices[0] if self.devices else self.device,
            "dtype": self.dtype,
            "top_k": self.top_k,
            "settings": dict(self.changes) or None,
            **({"compile": True} if self.compile else {}),
        }


def parse_arguments(argv: list[str] | None) -> EncodeOptions:
    """The options given on the command line (``sys.argv`` for None)."""
    given = vars(_parser().parse_args(argv))
    devices = given.pop("devices")
    return EncodeOptions(changes=parse_changes(given.pop("set")), devices=devices and tuple(devices), **given)


def _kind(device: str) -> str:
    """``cuda`` of ``cuda:1``."""
    return device.partition(":")[0]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m learned_sparse.encode",
        description="Encode a collection, or queries, into impact vectors that Pyserini and Anserini read.",
    )
    what = parser.add_argument_group("what")
    what.add_argument("--model", required=True, help="name of the model, for instance sparterm or splade")
    what.add_argument("--checkpoint", metavar="DIR|HUB_ID", help="default: the one that `make demo` trains")
    what.add_argument("--revision", help="of a checkpoint on the Hub")
    source = what.add_mutually_exclusive_group()
    source.add_argument("--collection", default="pydoc", metavar="NAME|PATH", help="default: %(default)s (embedded)")
    source.add_argument(
        "--input", type=Path, metavar="FILE|DIR", help="documents (or topics) in files: TSV, JSONL, .gz"
    )
    what.add_argument("--data", type=Path, metavar="DIR", help="folder the files of --collection are in")
    what.add_argument("--queries", action="store_true", help="encode queries instead of documents")
    what.add_argument("--split", help="whose queries; default: test, or the only one")
    what.add_argument("--on-bad-line", choices=["error", "skip"], default="error", help="default: %(default)s")

    where = parser.add_argument_group("where")
    where.add_argument("--output", type=Path, metavar="DIR", help="default: below $LEARNED_SPARSE_HOME")
    where.add_argument("--resume", action="store_true", help="go on where an interrupted run stopped")
    where.add_argument("--overwrite", action="store_true", help="remove what an earlier run wrote there")
    where.add_argument("--gzip", action="store_true", help="compress the part files")
    where.add_argument("--part-size", type=int, default=PART_SIZE, metavar="N", help="documents a file: %(default)s")
    where.add_argument("--num-shards", type=int, default=1, metavar="N", help="share the parts out over N processes")
    where.add_argument("--shard-id", type=int, default=0, metavar="I", help="write parts I, I+N, I+2N, ... (from 0)")

    cut = parser.add_argument_group("long documents")
    cut.add_argument(
        "--segment-length", type=int, metavar="TOKENS", help="cut into segments D#0, D#1, ... of document D"
    )
    cut.add_argument("--segments", choices=["first", "all"], help="which to encode; default: all")
    cut.add_argument("--segment-overlap", type=int, metavar="TOKENS", help="that neighbours share; default: 0")
    cut.add_argument("--segment-delimiter", metavar="SIGN", help="instead of #, where ids of documents hold that")

    how = parser.add_argument_group("how")
    how.add_argument("--max-length", type=int, metavar="TOKENS", help="default: the checkpoint's")
    how.add_argument("--batch-size", metavar="N|Nt", help="texts (32) or tokens (4096t) of one forward pass")
    how.add_argument("--device", help="cpu, cuda, cuda:1, ...; default: a GPU if there is one")
    how.add_argument("--devices", nargs="+", metavar="D", help="instead: a process for each, such as cuda:0 cuda:1")
    how.add_argument("--dtype", help="fp32, bf16, fp16 or int8 (CPU); default: what the device does fastest")
    how.add_argument("--compile", action="store_true", help="torch.compile the model: pays on a GPU, in long runs")
    how.add_argument("--top-k", type=int, metavar="K", help="keep the K heaviest terms of each text")
    add_set_option(how, "change a setting of the checkpoint, for instance alpha=0.3; may be repeated")
    how.add_argument("--quantization-factor", type=float, metavar="X", help="impact = round(X * weight)")
    how.add_argument("--bits", type=int, metavar="B", help="impacts up to 2**B - 1, calibrated on the first part")
    how.add_argument(
        "--calibration", type=float, default=100.0, metavar="PERCENTILE", help="of the weights: %(default)s"
    )
    return parser
