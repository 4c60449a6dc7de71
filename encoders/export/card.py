"""The model card: what the model is, how to use it, its recipe, scores and licence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

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


def model_card(model: LoadedModel, name: str, target: str, *, licence: str | None = None) -> str:
    """``README.md`` of the Hub: metadata in YAML, then text."""
    recipe: dict[str, Any] = _public(model.recipe or {})
    backbone = str(recipe.get("backbone", ""))
    metadata = {
        **({"license": licence} if licence else {}),
        "library_name": "sentence-transformers" if target == "sentence-transformers" else "learned-sparse",
        "pipeline_tag": "feature-extraction",
        "tags": ["sparse-encoder", "sparse", "learned-sparse-retrieval", model.architecture],
        **({"base_model": backbone} if "/" in backbone or backbone.startswith("bert-") else {}),
    }
    validated = (model.training or {}).get("MRR@10")
    return f"""\
---
{_yaml(metadata)}
---

# {name}

Learned sparse retrieval ({model.architecture}): weights of terms of the tokenizer's vocabulary.

{USES[target].replace("ENCODER", ENCODERS.get(model.architecture, "")).replace("NAME", name)}

## Recipe and data

```yaml
{_yaml(recipe) if recipe else "# not recorded"}
```

## Scores

{"Not measured." if validated is None else f"MRR@10 {validated:.4f} on the validation queries of the training."}

## Licence

{licence or "Not stated. The licences of the backbone and of the training data apply."}
"""


def _public(value: Any) -> Any:
    """``value`` with the last part of each absolute path: a card names files, not folders of a machine."""
    if isinstance(value, Mapping):
        return {key: _public(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_public(item) for item in value]
    return Path(value).name if isinstance(value, str) and value.startswith(("/", "~")) else value


def _yaml(content: Any) -> str:
    text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    return text.rstrip()
