"""``/embed_sparse`` and ``/info`` as clients of text-embeddings-inference call them, over saved checkpoints."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest
from fastapi.testclient import TestClient

from encoders.encoding.model import new_model, save_checkpoint
from learned_sparse.core.encoder import Side, encode_texts, load_encoder
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.inspect.inspection import encoder_cache
from learned_sparse.serve import embed
from learned_sparse.serve.api import create_app
from learned_sparse.serve.content import Content
from tests.learned_sparse.encoded_folder import WordCounts
from tests.tiny_models import TEXTS

SETTINGS: dict[str, dict[str, Any]] = {
    "splade": {},
    "spade": {},
    "uhd": {"dimensions": 48, "k": 4, "layers": [1, 2], "weight_sparsity": 0.3},
}
"""Dimensions that are tokens, a side without a network, and latent dimensions."""


def refuse(side: Side) -> NoReturn:
    raise LearnedSparseError(f"no {side} here")


@pytest.fixture(scope="module")
def folders(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("checkpoints")
    for name, settings in SETTINGS.items():
        save_checkpoint(root / name, new_model(name, settings, str(tiny_bert)))
    return {name: root / name for name in SETTINGS}


@pytest.fixture(scope="module")
def content(folders: dict[str, Path]) -> Content:
    loaders = {name: partial(encoder_cache(), str(folder), dtype="fp32") for name, folder in folders.items()}
    return Content(systems={}, checkpoints={**loaders, "broken": refuse, "with-bm25": lambda _: WordCounts(hybrid={})})


@pytest.fixture(scope="module")
def client(content: Content) -> TestClient:
    return TestClient(create_app(content))


@pytest.mark.parametrize("side", ["document", "query"])
@pytest.mark.parametrize("name", SETTINGS)
def test_weights_are_those_of_the_encoder(client: TestClient, folders: dict[str, Path], name: str, side: Side) -> None:
    """All weights, unquantised, by the number of their dimension; an empty text has none."""
    rows = client.post("/embed_sparse", params={"side": side, "system": name}, json={"inputs": TEXTS}).json()
    encoder = load_encoder(str(folders[name]), side, dtype="fp32")
    expected = encode_texts(encoder, TEXTS)
    assert [{encoder.terms[value["index"]]: value["value"] for value in row} for row in rows] == [
        dict(expected.row(number)) for number in range(len(TEXTS))
    ]
    assert [bool(row) for row in rows] == [bool(text) for text in TEXTS]
    # Haystack's sparse embedders know only an address, which chooses the side.
    assert client.post(f"/{side}/embed_sparse?system={name}", json={"inputs": TEXTS[0]}).json() == rows[:1]


def test_texts_that_are_truncated(client: TestClient) -> None:
    """Truncated unless the request forbids it, as by text-embeddings-inference with ``--auto-truncate``."""
    long = "hives " * 500
    options: list[dict[str, Any]] = [{}, {"truncate": None}, {"truncate": True, "normalize": False}]
    rows = [client.post("/embed_sparse", json={"inputs": long, **given}).json() for given in options]
    assert rows[0][0]
    assert rows[0] == rows[1] == rows[2]
    assert client.post("/embed_sparse", json={"inputs": "hives", "truncate": False}).status_code == 200
    refused = client.post("/embed_sparse", json={"inputs": ["hives", long], "truncate": False})
    length = client.get("/info").json()["max_input_length"]
    assert (refused.status_code, refused.json()["error_type"]) == (413, "Validation")
    assert f"1 of 2 longer than {length} tokens" in refused.json()["error"]


@pytest.mark.parametrize(
    ("path", "inputs", "status", "error_type", "message"),
    [
        ("/embed_sparse", [], 400, "Empty", "no text"),
        ("/embed_sparse", ["a"] * (embed.MAX_BATCH + 1), 413, "Validation", f"at most {embed.MAX_BATCH}"),
        ("/left/embed_sparse", "a", 422, "Validation", "side: Input should be 'document' or 'query'"),
        ("/embed_sparse?system=splad", "a", 404, "Validation", "did you mean 'splade'?"),
        ("/query/embed_sparse?system=broken", "a", 424, "Backend", "no query here"),
        ("/query/embed_sparse?system=with-bm25", "a", 424, "Backend", "no fixed numbers"),
    ],
)
def test_refusals(client: TestClient, path: str, inputs: Any, status: int, error_type: str, message: str) -> None:
    response = client.post(path, json={"inputs": inputs})
    assert (response.status_code, response.json()["error_type"]) == (status, error_type)
    assert message in response.json()["error"]


def test_info(client: TestClient) -> None:
    """The members that ``tei_client.HttpClient.info`` requires, with the types it checks."""
    info = client.get("/query/info", params={"system": "uhd"}).json()
    assert (info["model_id"], info["model_type"]) == ("uhd", {"embedding": {"pooling": "splade"}})
    assert {"version", "model_sha", "sha", "docker_label", "model_dtype"} <= set(info)
    numbers = ("max_concurrent_requests", "max_input_length", "max_client_batch_size", "tokenization_workers")
    assert all(info[name] > 0 for name in numbers)
