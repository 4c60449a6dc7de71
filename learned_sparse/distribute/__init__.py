"""More than one process: workers on a Ray cluster, or on the processors and GPUs of this machine.

``Engine`` says where and with what; ``Workers`` keeps processes of one kind and gives them tasks, each of which ends
exactly once however many nodes die; ``Commands`` runs whole commands. Ray is an extra (``learned-sparse[ray]``) and is
imported when a cluster is used. Read ``engine`` first, then ``workers``. What a task writes is whole or absent, and the
same bytes each time: a task whose node died is simply done by another worker.
"""

from __future__ import annotations

from learned_sparse.distribute.commands import Commands, Resources, command_of
from learned_sparse.distribute.engine import Engine, add_engine_options
from learned_sparse.distribute.workers import Workers

__all__ = ["Commands", "Engine", "Resources", "Workers", "add_engine_options", "command_of"]
