"""``python -m eval.rerank``: re-rank the first hits of runs with a slower model, and measure at several depths."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from eval.measures import (
    Cell,
    Column,
    Judged,
    add_expanded_option,
    add_judged_options,
    check_expanded,
    evaluate,
    format_table,
    load_judged,
    read_runs,
)
from learned_sparse.collections import Run, ranked, write_run
from learned_sparse.core import (
    Document,
    LearnedSparseError,
    add_set_option,
    checkpoint_folder,
    encode_texts,
    load_encoder,
    parse_changes,
    positive,
    run_main,
    sha256,
    write_json,
)
from learned_sparse.jsonvector import versions

DEPTHS = (10, 20, 50, 100)
"""Depths of SpaDE's Table 5."""
MAX_LENGTH = 512
"""Default maximum length of a query-document pair, in tokens."""
EPILOG = """\
A cross-encoder reads query and document together (transformers' sequence classification with one label, or two). A
checkpoint of this package re-ranks by exact dot products of its weights, without quantisation. Hits below the depth
keep their order. Each pair is scored once, for all runs and depths.

examples:
  python -m eval.rerank --collection msmarco-v1-passage --split dev --run bm25=bm25.txt spade=spade.txt \\
      --cross-encoder cross-encoder/ms-marco-MiniLM-L6-v2 --output reranked
  python -m eval.rerank --collection trec-car --split test --run bm25.txt --depth 1000 --checkpoint DIR
"""
Pair = tuple[str, str]
"""Query id, document id."""
Row = tuple[str, int | None, Mapping[str, float]]
"""Run, depth (None: first stage) and measures."""
_BATCH_SIZE = "16384t"
_PAIRS = 8192  # pairs that are tokenised, and sorted by length, at a time
_DOCUMENTS = 1024  # documents that are encoded, and held in memory, at a time


class CrossEncoder:
    """A sequence classifier of transformers that reads query and document together.

    The score is the logit of a model with one label, and the log-odds of the second label of a model with two. Log-odds
    (the difference of the two logits) order pairs as the probability does (monoBERT), but do not become equal for
    probabilities close to 1.
    """

    def __init__(
        self,
        name: str,
        *,
        revision: str | None = None,
        max_length: int | None = None,
        batch_size: str | None = None,
        device: str | None = None,
        dtype: str = "fp32",
    ) -> None:
        """``name`` is a folder or Hub id with trained weights in safetensors."""
        from encoders.backbone import DTYPES, choose_device, choose_dtype, load_tokenizer, longest_input
        from encoders.checkpoints import check_sizes, locate
        from encoders.encoding import BatchSize

        folder = locate(name, revision)
        self._model = _load_classifier(folder, name)
        self._tokenizer = load_tokenizer(folder)
        longest = longest_input(self._model)
        default = min(longest or MAX_LENGTH, self._tokenizer.model_max_length, MAX_LENGTH)
        self._max_length = default if max_length is None else max_length
        check_sizes(name, self._max_length, None, longest)
        self._device = choose_device(device)
        data_type = choose_dtype(dtype, self._device)
        self._model.to(device=self._device, dtype=DTYPES[data_type]).eval()
        self._batch_size = BatchSize.parse(_BATCH_SIZE if batch_size is None else batch_size)
        self.description = {
            "cross_encoder": name,
            "revision": revision,
            "weights_sha256": {path.name: sha256(path) for path in sorted(folder.glob("*.safetensors"))},
            "max_length": self._max_length,
            "dtype": data_type,
        }

    def scores(
        self, queries: Mapping[str, str], documents: Mapping[str, Document], pairs: Sequence[Pair], progress: tqdm[Any]
    ) -> npt.NDArray[np.float64]:
        """One score for each of ``pairs``; the longer text of a pair is truncated first."""
        scores = np.empty(len(pairs), np.float64)
        for start in range(0, len(pairs), _PAIRS):
            part = pairs[start : start + _PAIRS]
            texts = [queries[query] for query, _ in part], [documents[document].text for _, document in part]
            tokenized = self._tokenizer(*texts, truncation=True, max_length=self._max_length, padding=False)
            lengths = np.fromiter(map(len, tokenized["input_ids"]), np.int64, len(part))
            for rows in self._batch_size.batches(lengths):
                batch = {key: [values[row] for row in rows] for key, values in tokenized.items()}
                scores[start + rows] = self._score(batch)
                progress.update(len(rows))
        return scores

    def _score(self, batch: Mapping[str, Any]) -> npt.NDArray[np.float64]:
        import torch

        with torch.inference_mode():
            padded = self._tokenizer.pad(batch, return_tensors="pt").to(self._device)
            logits = self._model(**padded).logits.double()  # (pairs, labels)
        scores = logits[:, -1] - logits[:, 0] if logits.shape[1] == 2 else logits[:, 0]
        return np.asarray(scores.cpu().numpy(), np.float64)


class DotProducts:
    """A checkpoint of this package: the sum over terms of query weight times document weight, without quantisation."""

    def __init__(self, checkpoint: str, **options: Any) -> None:
        """``options`` are those of ``load_encoder``, for both sides."""
        self._queries = load_encoder(checkpoint, "query", **options)
        self.document_encoder = load_encoder(checkpoint, "document", **options)
        if self._queries.description.get("scoring", "impact") != "impact":
            raise LearnedSparseError(f"{checkpoint}: scored by BM25; only models scored by impacts have dot products")
        self.description = {
            "checkpoint": checkpoint,
            "query_encoder": dict(self._queries.description),
            "document_encoder": dict(self.document_encoder.description),
        }

    def scores(
        self, queries: Mapping[str, str], documents: Mapping[str, Document], pairs: Sequence[Pair], progress: tqdm[Any]
    ) -> npt.NDArray[np.float64]:
        """One score for each of ``pairs``, summed in float64; each text is encoded once."""
        row_of = {query: row for row, query in enumerate(dict.fromkeys(query for query, _ in pairs))}
        texts = [queries[query] for query in row_of]
        encoded_queries = encode_texts(self._queries, texts).to_scipy().astype(np.float64)
        positions: dict[str, list[int]] = {}  # document → positions in pairs
        for position, (_, document) in enumerate(pairs):
            positions.setdefault(document, []).append(position)
        scores, ids = np.empty(len(pairs), np.float64), list(positions)
        for start in range(0, len(ids), _DOCUMENTS):
            part = ids[start : start + _DOCUMENTS]
            texts = [self._text(documents[document]) for document in part]
            encoded_documents = encode_texts(self.document_encoder, texts).to_scipy().astype(np.float64)
            of_part = np.array([position for document in part for position in positions[document]])
            document_rows = np.repeat(np.arange(len(part)), [len(positions[document]) for document in part])
            query_rows = [row_of[pairs[position][0]] for position in of_part]
            scores[of_part] = (encoded_queries[query_rows] * encoded_documents[document_rows]).sum(axis=1)
            progress.update(len(of_part))
        return scores

    def _text(self, document: Document) -> str:
        return document.with_expanded if self.document_encoder.uses_expanded else document.text


def first_stage(run: Run, queries: Iterable[str], *, remove_query: bool = False) -> Run:
    """The hits of ``queries``, best first; ``remove_query`` drops a hit whose id is that of the query."""
    kept = {query: run[query] for query in queries if run.get(query)}
    if remove_query:
        kept = {query: [hit for hit in hits if hit[0] != query] for query, hits in kept.items()}
    return {query: hits for query, hits in kept.items() if hits}


def pairs_of(runs: Iterable[Run], depth: int) -> list[Pair]:
    """All distinct pairs needed to re-rank ``runs`` to ``depth``, ordered by document."""
    pairs = {(query, hit[0]) for run in runs for query, hits in run.items() for hit in hits[:depth]}
    return sorted(pairs, key=lambda pair: (pair[1], pair[0]))


def rerank(run: Run, scores: Mapping[Pair, float], depth: int) -> Run:
    """Reorder the first ``depth`` hits of each query by ``scores``; the other hits follow in their previous order.

    The scores of the other hits count down by one from the lowest score above them; only their order has a meaning.

    >>> run = {"q": [("d1", 9.0), ("d2", 8.0), ("d3", 7.0)]}
    >>> rerank(run, {("q", "d1"): 0.25, ("q", "d2"): 0.5}, depth=2)
    {'q': [('d2', 0.5), ('d1', 0.25), ('d3', -0.75)]}
    """
    reranked: Run = {}
    for query, hits in run.items():
        head = ranked((document, scores[query, document]) for document, _ in hits[:depth])
        lowest = head[-1][1]
        tail = [(document, lowest - below) for below, (document, _) in enumerate(hits[depth:], start=1)]
        reranked[query] = head + tail
    return reranked


def main(argv: list[str] | None = None) -> int:
    """Score, re-rank, measure and print; write runs and JSON if --output is given."""
    options = _parser().parse_args(argv)
    depths = sorted(set(options.depth))
    if options.cross_encoder and options.set:
        raise LearnedSparseError("--set changes a checkpoint of this package; a cross-encoder has no such settings")
    judged = load_judged(options)
    runs = {
        name: first_stage(run, judged.queries, remove_query=judged.remove_query)
        for name, run in read_runs(options.run).items()
    }
    scorer = _load_scorer(options)
    check_expanded(judged.collection, scorer.document_encoder if isinstance(scorer, DotProducts) else None)
    scores = _score_pairs(scorer, judged, list(runs.values()), depths[-1])
    rows: list[Row] = []
    for name, run in runs.items():
        rows.append((name, None, evaluate(run, judged.qrels, judged.measures).mean))
        for depth in depths:
            reranked = rerank(run, scores, depth)
            if options.output:
                write_run(options.output / f"{name}-top{depth}.txt", reranked)
            rows.append((name, depth, evaluate(reranked, judged.qrels, judged.measures).mean))
    print(_table(rows, options.markdown))
    if options.output:
        content = {
            "collection": judged.collection.name,
            "split": judged.split,
            **scorer.description,
            "rows": [{"run": run, "depth": depth, "scores": means} for run, depth, means in rows],
            "pairs": len(scores),
            "versions": versions(),
        }
        write_json(options.output / "rerank.json", content)
    return 0


def _load_scorer(options: argparse.Namespace) -> CrossEncoder | DotProducts:
    model_options = {
        "revision": options.revision,
        "max_length": options.max_length,
        "batch_size": options.batch_size,
        "device": options.device,
        "dtype": options.dtype,
    }
    if options.cross_encoder:
        return CrossEncoder(options.cross_encoder, **model_options)
    checkpoint = options.checkpoint or str(checkpoint_folder(options.model))
    return DotProducts(checkpoint, settings=parse_changes(options.set), **model_options)


def _load_classifier(folder: Path, name: str) -> Any:
    import torch
    import transformers
    from safetensors import SafetensorError

    from encoders.backbone import quiet
    from encoders.checkpoints import require_safetensors

    require_safetensors(folder, name)
    kind: Any = transformers.AutoModelForSequenceClassification
    with quiet():
        try:
            model, loading = kind.from_pretrained(
                folder, use_safetensors=True, trust_remote_code=False, dtype=torch.float32, output_loading_info=True
            )
        except ValueError as error:
            raise LearnedSparseError(f"{name}: transformers cannot load it as a cross-encoder: {error}") from error
        except (OSError, SafetensorError) as error:
            raise LearnedSparseError(f"{name}: cannot be read ({error}); copy or download it again") from error
    if loading["missing_keys"]:
        missing = ", ".join(sorted(loading["missing_keys"])[:3])
        raise LearnedSparseError(f"{name}: not a trained cross-encoder (no weights for {missing}); fine-tune it first")
    if model.config.num_labels > 2:
        raise LearnedSparseError(f"{name}: {model.config.num_labels} labels; a re-ranker has one or two")
    return model


def _score_pairs(
    scorer: CrossEncoder | DotProducts, judged: Judged, runs: Sequence[Run], depth: int
) -> dict[Pair, float]:
    pairs = pairs_of(runs, depth)
    if not pairs:
        raise LearnedSparseError(f"no run has a hit for a judged query of {judged.collection.name} {judged.split}")
    documents = judged.documents({document for _, document in pairs})
    with tqdm(total=len(pairs), unit=" pairs", disable=None) as progress:
        scores = scorer.scores(judged.queries, documents, pairs, progress)
    if not np.isfinite(scores).all():
        query, document = pairs[int(np.argmin(np.isfinite(scores)))]
        raise LearnedSparseError(f"query {query!r}, document {document!r}: the score is not finite; try --dtype fp32")
    return dict(zip(pairs, scores.tolist(), strict=True))


def _table(rows: Sequence[Row], markdown: bool) -> str:
    measures = list(rows[0][2])
    columns = [Column("run"), Column("depth"), *(Column(measure, best="highest") for measure in measures)]
    cells: list[list[Cell]] = [
        [run, "first stage" if depth is None else depth, *(scores[measure] for measure in measures)]
        for run, depth, scores in rows
    ]
    return format_table(columns, cells, markdown=markdown)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eval.rerank",
        description="Re-rank the first hits of runs with a slower model, and measure at several depths.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_judged_options(parser)
    add_expanded_option(parser)
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument("--cross-encoder", metavar="DIR|HUB_ID", help="a sequence classifier, weights in safetensors")
    model.add_argument("--checkpoint", metavar="DIR|HUB_ID", help="a model of this package")
    model.add_argument("--model", metavar="NAME", help="a model of this package, by its name in the home folder")
    add = parser.add_argument
    add("--depth", nargs="+", type=positive, default=DEPTHS, metavar="N", help=f"default: {' '.join(map(str, DEPTHS))}")
    add("--revision", help="revision of a model on the Hub")
    add_set_option(parser, "change a setting of a checkpoint, for instance alpha=0.3; repeatable")
    add("--max-length", type=positive, metavar="TOKENS", help="default: 512 for a pair, else the checkpoint's")
    add("--batch-size", metavar="N|Nt", help="texts (32) or tokens (4096t) per forward pass")
    add("--device", help="cpu, cuda, cuda:1, ... (default: a GPU if there is one)")
    add("--dtype", default="fp32", help="fp32 (default), bf16 or fp16; lower precision creates ties")
    add("--output", type=Path, metavar="DIR", help="write the runs (NAME-topN.txt) and rerank.json")
    add("--markdown", action="store_true", help="print a Markdown table, the best value in bold")
    return parser


if __name__ == "__main__":
    run_main(main)
