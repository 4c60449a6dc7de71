"""What the commands import, for the process that ``tests.reliability.processes`` forks; nothing else imports this."""

from __future__ import annotations

import importlib
import threading

import torch

MODULES = (
    "encoders.train", "encoders.training.recipe", "encoders.encoding.encoder", "eval.costs",
    "eval.evaluate", "eval.reproduce.__main__", "eval.reproduce.pages", "eval.reproduce.matrix",
    "eval.reproduce.plan", "eval.reproduce.prepare", "eval.reproduce.steps", "learned_sparse.encode.__main__",
    "learned_sparse.index.__main__", "learned_sparse.jsonvector.__main__",
    "learned_sparse.search.__main__", "encodings.utf_8_sig", "jnius_config", "scipy.sparse", "tqdm",
    "matplotlib.backends.backend_svg", "matplotlib.font_manager", "transformers.models.bert.modeling_bert",
    "transformers.models.bert.tokenization_bert", "transformers.models.auto.modeling_auto",
)  # fmt: skip

for name in MODULES:
    importlib.import_module(name)
torch.set_num_threads(1)
torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])  # imports, too
if (threads := threading.active_count()) != 1:
    raise RuntimeError(f"{threads} threads; a fork would lose them")
