"""``python -m encoders``: a line for each command of this package."""

from __future__ import annotations

from learned_sparse.core.errors import run_main
from learned_sparse.core.settings import command_list

main = command_list("encoders")

if __name__ == "__main__":
    run_main(main)
