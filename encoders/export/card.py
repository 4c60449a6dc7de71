"""The model card: what the model is, how to use it, its recipe, data, scores and licence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from encoders.checkpoints.notes import as_json
from encoders.encoding.model import LoadedModel

USES = {
    "sentence-transformers": """\
```python
from sentence_transformers import SparseEncoder

model = SparseEncoder("NAME")
query, documents = model.encode_query("what are hives"), model.encode_document(["Hives are a rash.", "A wing."])
print(model.similarity(query, documents))
```""",
    "pyserini": """\
```python
from pyserini.encode import ENCODER

print(ENCODER("NAME").encode("what are hives"))
```""",
    "opensearch": "Documents: max pooling of the masked-LM. Queries: the weights of their tokens in `idf.json`.",
    "learned-sparse": """\
```bash
python -m learned_sparse.encode --checkpoint NAME --model NAME --input corpus.jsonl --output vectors
```""",
}


ENCODERS = {"splade": "SpladeQueryEncoder", "unicoil": "UniCoilQueryEncoder"}
"""Classes of Pyserini by architecture."""


def model_card(
    model: LoadedModel,
    name: str,
    target: str,
    *,
    licence: str | None = None,
    scores: Mapping[str, Any] | None = None,
) -> str:
    """``README.md`` of the Hub: metadata in YAML, then text. ``scores``: ``{measured on: {measure: score}}``."""
    recipe: dict[str, Any] = _public(model.recipe or {})
    backbone = str(recipe.get("backbone", ""))
    metadata = {
        **({"license": licence} if licence else {}),
        "library_name": "sentence-transformers" if target == "sentence-transformers" else "learned-sparse",
        "pipeline_tag": "feature-extraction",
        "tags": ["sparse-encoder", "sparse", "learned-sparse-retrieval", model.architecture],
        **({"base_model": backbone} if "/" in backbone or backbone.startswith("bert-") else {}),
    }
    settings = {"settings": as_json(model.settings), "max_length": model.max_length}
    sections = {
        "Use": USES[target].replace("ENCODER", ENCODERS.get(model.architecture, "")).replace("NAME", name),
        "Settings": _block(settings),
        "Training data": _data(recipe),
        "Recipe": _block(recipe) if recipe else "Not recorded.",
        "Scores": _scores(model.training or {}, scores or {}),
        "Licence": licence or "Not stated. The licences of the backbone and of the training data apply.",
    }
    about = f"Learned sparse retrieval ({model.architecture}): weights of terms of the tokenizer's vocabulary."
    parts = [f"---\n{_yaml(metadata)}---", f"# {name}", about]
    parts += [f"## {title}\n\n{text}" for title, text in sections.items()]
    return "\n\n".join(parts) + "\n"


def _data(recipe: Mapping[str, Any]) -> str:
    sources = recipe.get("data") or []
    stated = [", ".join(f"{key}: {value}" for key, value in source.items() if value is not None) for source in sources]
    return "\n".join(f"- {source}" for source in stated) or "Not recorded."


def _scores(training: Mapping[str, Any], scores: Mapping[str, Any]) -> str:
    lines = ["| measured on | measure | score |", "|---|---|--:|"]
    validated = training.get("MRR@10")
    rows = [("validation queries of the training", "MRR@10", validated)] if isinstance(validated, int | float) else []
    for name, value in scores.items():
        rows += (
            [(name, key, score) for key, score in value.items()] if isinstance(value, Mapping) else [("", name, value)]
        )
    lines += [f"| {where} | {measure} | {score:.4f} |" for where, measure, score in rows]
    return "\n".join(lines) if rows else "Not measured."


def _public(value: Any) -> Any:
    """``value`` with the last part of each absolute path: a card names files, not folders of a machine."""
    if isinstance(value, Mapping):
        return {key: _public(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_public(item) for item in value]
    return Path(value).name if isinstance(value, str) and value.startswith(("/", "~")) else value


def _block(content: Any) -> str:
    return f"```yaml\n{_yaml(content)}```"


def _yaml(content: Any) -> str:
    text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    return text
