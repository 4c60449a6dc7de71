"""How an encoding run ended: its parts and counts, and the finished manifest."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from learned_sparse.collections import DocumentReader, SegmentReader
from learned_sparse.encode.parts import Note, PartFolder
from learned_sparse.jsonvector import Counts, Manifest


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one process read and which parts are there because of it, or of an earlier run."""

    notes: Mapping[int, Note]
    read: int
    """Texts of the whole input."""
    elsewhere: int
    """Texts that belong to other shards."""
    skipped: Mapping[str, int]
    segmented: int
    largest_segments: int
    reads_expanded: bool
    """Whether the encoder reads what expands a document."""

    @property
    def written(self) -> int:
        """Documents in ``notes``."""
        return sum(note.part.documents for note in self.notes.values())

    @classmethod
    def of(
        cls,
        reader: DocumentReader | SegmentReader,
        notes: Mapping[int, Note],
        *,
        elsewhere: int,
        reads_expanded: bool,
    ) -> Outcome:
        """Once ``reader`` has come to its end."""
        cut = reader if isinstance(reader, SegmentReader) else None
        return cls(
            notes=notes,
            read=reader.read,
            elsewhere=elsewhere,
            skipped=dict(reader.skipped),
            segmented=cut.documents if cut else 0,
            largest_segments=cut.largest if cut else 0,
            reads_expanded=reads_expanded,
        )


def merged(outcomes: Sequence[Outcome]) -> Outcome:
    """Of several processes that shared the parts of one input."""
    alone = [dataclasses.replace(outcome, notes={}) for outcome in outcomes]
    notes = {number: note for outcome in outcomes for number, note in outcome.notes.items()}
    if any(other != alone[0] for other in alone) or len(notes) != sum(len(outcome.notes) for outcome in outcomes):
        raise RuntimeError(f"the processes read different documents, or wrote the same parts: {alone}")
    return dataclasses.replace(alone[0], notes=notes)


def finish(parts: PartFolder, manifest: Manifest, outcome: Outcome, say: Callable[[str], None]) -> Manifest:
    """Write the finished ``manifest``."""
    parts.refuse_others(outcome.notes)
    notes = [outcome.notes[number] for number in sorted(outcome.notes)]
    counts = dataclasses.replace(
        Counts.total(note.counts for note in notes),
        read=outcome.read + sum(outcome.skipped.values()),
        skipped=dict(outcome.skipped),
        other_shards=outcome.elsewhere,
        segmented=outcome.segmented,
        largest_segments=outcome.largest_segments,
    )
    here = outcome.read - outcome.elsewhere
    if not here == counts.written == outcome.written:
        raise RuntimeError(f"{here} documents to be written, {counts.written} were, {outcome.written} are in the parts")
    if outcome.reads_expanded and counts.written and not counts.expanded:
        say(
            "this model also reads text that expands a document, and no document has any "
            '("expanded" or "predicted_queries" in JSON lines)'
        )
    finished = dataclasses.replace(
        manifest,
        complete=True,
        counts=counts,
        parts=tuple(note.part for note in notes),
        warnings=tuple(manifest.document_warnings(counts)),
    )
    finished.save(parts.folder)
    return finished
