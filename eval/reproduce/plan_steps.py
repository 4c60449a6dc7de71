"""The steps of a leaderboard by kind: the command of each, and where its result stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from eval.reproduce.matrix import Matrix
from eval.reproduce.plan import Kind, Step
from eval.reproduce.plan_target import Target, pool_folder, pool_target
from learned_sparse.core import (
    LearnedSparseError,
    checkpoint_folder,
    home,
    index_folder,
    queries_folder,
    run_file,
    vectors_folder,
)

BM25 = "bm25"
"""Model name of the BM25 baseline."""
USUAL_TERMS = 120
"""Of an encoded document, where nothing more is known: for estimates."""


@dataclass(frozen=True, kw_only=True)
class Weights:
    """A checkpoint, and the steps that make it."""

    checkpoint: str
    """Folder or name on the Hub."""
    needs: tuple[Step, ...] = ()
    reads: tuple[Path, ...] = ()
    terms: int = USUAL_TERMS


@dataclass(kw_only=True)
class Builder:
    """Makes steps, each place once: whoever asks again gets the step that is there."""

    matrix: Matrix
    data: Path | None
    threads: int | None = None
    made: dict[str, Step] = field(default_factory=dict)
    """By place."""
    weights: dict[tuple[str, int | None], Weights] = field(default_factory=dict)
    """By row and seed."""

    def step(self, kind: Kind, about: str, module: str, words: Iterable[str | Path], **more: Any) -> Step:
        """The step; another one at the same place is an error."""
        new = Step(kind=kind, about=about, module=module, arguments=tuple(map(str, words)), data=self.data, **more)
        old = self.made.setdefault(new.place, new)
        if any(getattr(old, part) != getattr(new, part) for part in ("module", "arguments", "needs", "reads", "facts")):
            raise LearnedSparseError(
                f"two steps of this matrix write {home() / new.place}; give one of the rows another name:\n"
                f"  {old.command}\n  {new.command}"
            )
        return old

    # BM25

    def bm25_index(self, target: Target) -> Step:
        """The text of a collection."""
        index = index_folder(target.name, BM25)
        return self.step(
            "index-bm25", f"index the text of {target.name}", "learned_sparse.index",
            ("--bm25", "--collection", target.documents_of), place=_place(index), needs=target.needs,
            reads=target.corpus, facts=target.documents_facts, writes=(index,), free=self._threads(),
            size=target.documents,
        )  # fmt: skip

    def bm25_search(self, target: Target, hits: int) -> Step:
        """BM25's run."""
        run = run_file(target.name, target.split, BM25)
        words = ("--bm25", "--collection", target.collection, "--split", target.split, "--hits", str(hits))
        return self._search(target, BM25, run, words, (self.bm25_index(target),))

    def pool(self, whole: Target, depth: int) -> Target:
        """What BM25 ranks first for each query, and what is relevant, as a collection."""
        run = self.bm25_search(whole, max(self.matrix.hits, depth))
        folder = pool_folder(whole, depth)
        made = self.step(
            "pool", f"pool {depth} of {whole.name}, {whole.split}", "eval.reproduce.step_pool",
            ("--collection", whole.collection, "--split", whole.split, "--run", run.writes[0], "--depth", str(depth)),
            place=_place(folder), needs=(run,), reads=(*whole.corpus, *whole.judged), writes=(folder,),
            size=whole.documents,
        )  # fmt: skip
        return pool_target(whole, depth, made)

    def expanded_index(self, name: str, target: Target, file: Path) -> Step:
        """Text and what expands it, in one field."""
        texts, index = home() / "expanded" / target.name / name, index_folder(target.name, name)
        documents = self.step(
            "prepare", f"expanded text of {target.name}", "eval.reproduce.step_expanded",
            ("--input", file, "--output", texts),
            place=_place(texts), reads=(file,), writes=(texts,), size=target.documents,
        )  # fmt: skip
        return self.step(
            "index-bm25", f"index {name}, {target.name}", "learned_sparse.index",
            ("--bm25", "--input", texts, "--index", index), place=_place(index), needs=(documents,), writes=(index,),
            free=self._threads(), size=target.documents,
        )  # fmt: skip

    def word_pieces(self) -> Step:
        """A checkpoint whose two sides count word pieces."""
        folder = checkpoint_folder("word-pieces")
        return self.step(
            "prepare", "the tokenizer of BM25 over word pieces", "eval.reproduce.step_word_pieces",
            ("--output", folder),
            place=_place(folder), writes=(folder,),
        )  # fmt: skip

    # learned models

    def encode(
        self, name: str, target: Target, words: Iterable[str], needs: tuple[Step, ...], reads: tuple[Path, ...],
        *, terms: int,
    ) -> Step:  # fmt: skip
        """The documents; ``words`` say with what."""
        folder = vectors_folder(target.name, name)
        return self.step(
            "encode", f"encode {name}, {target.name}", "learned_sparse.encode",
            ("--model", name, "--collection", target.documents_of, *words), place=_place(folder),
            needs=(*needs, *target.needs), reads=(*target.corpus, *reads), facts=target.documents_facts,
            writes=(folder,), size=target.documents, terms=terms,
        )  # fmt: skip

    def encode_queries(
        self, name: str, target: Target, words: Iterable[str], needs: tuple[Step, ...], reads: tuple[Path, ...]
    ) -> Step:
        """The queries of a split."""
        folder = queries_folder(target.name, target.split, name)
        return self.step(
            "encode-queries", f"encode queries {name}, {target.name} {target.split}", "learned_sparse.encode",
            ("--model", name, "--collection", target.collection, *words, "--queries", "--split", target.split),
            place=_place(folder), needs=(*needs, *target.needs), reads=(*target.judged, *reads), facts=target.facts,
            writes=(folder,), size=target.queries,
        )  # fmt: skip

    def index(self, name: str, target: Target, encoded: Step) -> Step:
        """The index of encoded documents, compared with them where the matrix asks for it."""
        folder = index_folder(target.name, name)
        words = ("--model", name, "--collection", target.documents_of)
        made = self.step(
            "index", f"index {name}, {target.name}", "learned_sparse.index", words, place=_place(folder),
            needs=(encoded,), writes=(folder,), free=self._threads(), size=target.documents, terms=encoded.terms,
        )  # fmt: skip
        if not self.matrix.verify:
            return made
        return self.step(
            "verify", f"verify {name}, {target.name}", "learned_sparse.index",
            (*words, "--verify", str(self.matrix.verify)), place=f"verified/{target.name}/{name}", needs=(made,),
        )  # fmt: skip

    def search(self, name: str, target: Target, words: Iterable[str], needs: tuple[Step, ...]) -> Step:
        """The run of a learned model."""
        run = run_file(target.name, target.split, name)
        where = ("--collection", target.collection, "--split", target.split)
        return self._search(target, name, run, (*words, *where, "--hits", str(self.matrix.hits)), needs)

    # measures

    def evaluate(self, name: str, target: Target, run: Path, needs: tuple[Step, ...]) -> Step:
        """Everything that trec_eval says of a run."""
        file = home() / "evaluations" / target.name / target.split / f"{name}.json"
        words = ("--collection", target.collection, "--split", target.split, "--run", run, "--measures")
        return self.step(
            "evaluate", f"evaluate {name}, {target.name} {target.split}", "eval.evaluate",
            (*words, *target.measures, "--per-query", "--json", "--output", file), place=_place(file),
            needs=(*needs, *target.needs), reads=(*target.judged, *(() if needs else (run,))), facts=target.facts,
            writes=(file,), size=target.queries,
        )  # fmt: skip

    def costs(self, name: str, target: Target, words: Iterable[str | Path], needs: tuple[Step, ...]) -> Step:
        """What a row costs; ``words`` name what is known of it."""
        file = home() / "costs" / target.name / target.split / f"{name}.json"
        where = ("--collection", target.collection, "--split", target.split, "--hits", str(self.matrix.hits))
        return self.step(
            "costs", f"costs of {name}, {target.name} {target.split}", "eval.costs",
            (*words, *where, "--output", file), place=_place(file), needs=needs, writes=(file,), size=target.queries,
        )  # fmt: skip

    def _search(self, target: Target, name: str, run: Path, words: Iterable[str], needs: tuple[Step, ...]) -> Step:
        return self.step(
            "search", f"search {name}, {target.name} {target.split}", "learned_sparse.search", words,
            place=_place(run), needs=(*needs, *target.needs), reads=target.judged, facts=target.facts, writes=(run,),
            free=("--threads", str(self.threads or 2), "--batch-size", "64"), size=target.queries,
        )  # fmt: skip

    def _threads(self) -> tuple[str, ...]:
        return ("--threads", str(self.threads)) if self.threads else ()


def set_words(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """``--set KEY=VALUE`` for each of ``settings``, flow YAML on one line.

    >>> set_words({"k": 2, "layers": [2, 12], "query_k": None, "components": "both"})
    ('--set', 'k=2', '--set', 'layers=[2, 12]', '--set', 'query_k=null', '--set', 'components=both')
    """
    return tuple(word for key, value in settings.items() for word in ("--set", f"{key}={_flow(value)}"))


def _flow(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=float("inf"))
    return text.removesuffix("\n...\n").removesuffix("\n")


def _place(path: Path) -> str:
    """Below the home folder."""
    return str(path.relative_to(home()))
