"""What the commands import, for the process that ``tests.reliability.processes`` forks; nothing else imports this."""

from __future__ import annotations

import contextlib
import importlib
import subprocess
import threading
from types import SimpleNamespace

import torch

from encoders.teach import __main__ as teach
from eval.reproduce import runner
from tests.reliability.processes import ForkedProcess

MODULES = (
    "encoders.train", "encoders.training.recipe", "encoders.encoding.encoder", "eval.costs",
    "eval.evaluate", "eval.reproduce.__main__", "eval.reproduce.pages", "eval.reproduce.matrix",
    "eval.reproduce.plan", "eval.reproduce.prepare", "eval.reproduce.steps", "learned_sparse.encode.__main__",
    "learned_sparse.export.__main__", "learned_sparse.index.__main__", "learned_sparse.jsonvector.__main__",
    "learned_sparse.search.__main__", "encodings.utf_8_sig", "jnius_config", "scipy.sparse", "tqdm",
    "matplotlib.backends.backend_svg", "matplotlib.font_manager", "transformers.models.bert.modeling_bert",
    "transformers.models.bert.tokenization_bert", "transformers.models.auto.modeling_auto",
)  # fmt: skip
IMPORTED_BY_PYSERINI = ("faiss", "openai", "requests", "scipy.stats", "sentencepiece", "tiktoken")
"""Imported if installed. Pyserini itself needs Java, and other packages that it imports start threads."""

for name in MODULES:
    importlib.import_module(name)
for name in IMPORTED_BY_PYSERINI:
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module(name)
torch.set_num_threads(1)
torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])  # imports, too
teach.BLOCK = 16  # several blocks
runner.subprocess = SimpleNamespace(  # type: ignore[assignment,attr-defined]
    Popen=ForkedProcess, DEVNULL=subprocess.DEVNULL, STDOUT=subprocess.STDOUT
)
if (threads := threading.active_count()) != 1:
    raise RuntimeError(f"{threads} threads; a fork would lose them")
