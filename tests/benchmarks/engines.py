"""One engine that encodes texts, in a process of its own: this package, or one that users would take instead.

``python tests/benchmarks/engines.py ENGINE MODEL MAX_LENGTH ROUNDS CORPUS OUTPUT [CORPUS OUTPUT ...]`` writes the
vectors of each corpus and prints the seconds of ``ROUNDS`` rounds of the first one, after an uncounted one. Engines
that pin another transformers run in an environment without this package, so nothing of it is imported before it is
needed. OpenVINO and ONNX Runtime alone get the masked-LM with max pooling in the graph and batches sorted by length: at
least what sentence-transformers gives them.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

SCALE = 256 / 5
"""Impact per unit of weight; Pyserini's is fixed, so all engines use it."""
BATCH = 32
"""Texts per batch, the default of sentence-transformers and naver/splade."""
PYSERINI_BATCH = 64
"""Texts per batch, the default of ``pyserini.encode``; smaller batches are faster on a CPU."""
THREADS = 2
EXAMPLE = {name: torch.ones(2, 8, dtype=torch.long) for name in ("input_ids", "attention_mask")}
PACKAGES = ("sentence-transformers", "transformers", "torch", "onnxruntime", "openvino", "nncf")

Encode = Callable[[Sequence[str]], list[list[tuple[str, float]]]]
Work = Callable[[Path, Path], object]
"""Writes the vectors of a corpus to a folder."""


def measure(engine: str, model: str, length: str, rounds: str, *paths: str) -> dict[str, Any]:
    """Load the engine and encode; the seconds and the versions."""
    work, seconds = load(engine, Path(model), int(length)), []
    for number in range(int(rounds) + 1):
        start = time.perf_counter()
        work(Path(paths[0]), Path(paths[1]))
        seconds += [time.perf_counter() - start] if number else []
    for corpus, output in zip(paths[2::2], paths[3::2], strict=True):
        work(Path(corpus), Path(output))
    versions = {found.name: found.version for found in importlib.metadata.distributions() if found.name in PACKAGES}
    return {"seconds": seconds, "versions": versions}


def load(engine: str, model: Path, length: int) -> Work:
    """The work of an engine whose model is loaded."""
    library, _, precision = engine.rpartition(" ")
    if library == "learned_sparse":
        return _learned_sparse(precision, model, length)
    if engine == "pyserini":
        return _pyserini(model, length)
    if library.startswith("sentence-transformers"):
        encode = _sentence_transformers(library.partition(" ")[2], precision, model, length)
    else:
        encode = {"openvino": _openvino, "onnxruntime": _onnxruntime}[library](precision, model, length)

    def work(corpus: Path, output: Path) -> None:
        documents = [json.loads(document) for document in corpus.read_text("utf-8").splitlines()]
        vectors = encode([document["text"] for document in documents])
        output.mkdir(parents=True, exist_ok=True)
        with (output / "vectors.jsonl").open("w", encoding="utf-8") as file:
            for document, weights in zip(documents, vectors, strict=True):
                vector = {term: impact for term, weight in weights if (impact := round(weight * SCALE)) > 0}
                file.write(json.dumps({"id": document["_id"], "contents": document["text"], "vector": vector}) + "\n")

    return work


def _learned_sparse(dtype: str, model: Path, length: int) -> Work:
    """``write_vectors``, the work of ``python -m learned_sparse.encode`` without loading the model."""
    from learned_sparse.collections.documents import read_documents
    from learned_sparse.core.encoder import load_encoder
    from learned_sparse.core.quantize import Quantizer
    from learned_sparse.encode.pipeline import write_vectors

    encoder = load_encoder(str(model), dtype=dtype, max_length=length, device="cpu")
    quantizer = Quantizer(SCALE)
    return lambda corpus, out: write_vectors(out, read_documents(corpus), encoder, quantizer=quantizer, overwrite=True)


def _pyserini(model: Path, length: int) -> Work:
    """The loop of ``python -m pyserini.encode --encoder-class splade``."""
    from learned_sparse.lucene.jvm import start_jvm

    start_jvm()
    from pyserini.encode import JsonlCollectionIterator, JsonlRepresentationWriter, SpladeDocumentEncoder

    encoder = SpladeDocumentEncoder(str(model), device="cpu")

    def work(corpus: Path, output: Path) -> None:
        writer = JsonlRepresentationWriter(str(output))
        with writer:
            for record in JsonlCollectionIterator(str(corpus), ["text"])(PYSERINI_BATCH):
                record["vector"] = encoder.encode(texts=record["text"], max_length=length)
                writer.write(record, ["text"])

    return work


def _sentence_transformers(backend: str, precision: str, model: Path, length: int) -> Encode:
    from sentence_transformers import SparseEncoder, export_dynamic_quantized_onnx_model

    hints = {"INFERENCE_PRECISION_HINT": "bf16" if precision == "bf16" else "f32", "INFERENCE_NUM_THREADS": THREADS}
    forms: dict[str, dict[str, Any]] = {
        "torch": {"dtype": torch.bfloat16 if precision == "bf16" else torch.float32},
        "onnx": {"export": True, "provider": "CPUExecutionProvider"},
        "openvino": {"export": True, "ov_config": hints},
    }
    make: Any = partial(SparseEncoder, device="cpu", backend=backend)  # type: ignore[arg-type]
    encoder = make(str(model), model_kwargs=forms[backend])
    if (backend, precision) == ("onnx", "int8"):
        folder = tempfile.mkdtemp()
        encoder.save_pretrained(folder)
        export_dynamic_quantized_onnx_model(encoder, "avx512_vnni", folder)
        options = {"file_name": "onnx/model_qint8_avx512_vnni.onnx", "provider": "CPUExecutionProvider"}
        encoder = make(folder, model_kwargs=options)
    encoder.max_seq_length = length

    def encode(texts: Sequence[str]) -> list[list[tuple[str, float]]]:
        decoded: Any = encoder.decode(encoder.encode(list(texts), batch_size=BATCH, show_progress_bar=False))
        return decoded  # type: ignore[no-any-return]

    return encode


def _openvino(precision: str, model: Path, length: int) -> Encode:
    import openvino

    graph = openvino.convert_model(_pooled(model), example_input=EXAMPLE)
    graph.reshape({0: [-1, -1], 1: [-1, -1]})
    if precision == "int8":
        import nncf

        files = sorted(Path(json.__file__).parents[1].glob("*.py"))[:128]
        texts = [path.read_text("utf-8", "replace")[:400] for path in files]
        batches = [encoded for _, encoded in _batches(texts, AutoTokenizer.from_pretrained(model), length, 8)]
        graph = nncf.quantize(graph, nncf.Dataset(batches), model_type=nncf.ModelType.TRANSFORMER, subset_size=16)
    hint = "bf16" if precision == "bf16" else "f32"
    options = {"INFERENCE_PRECISION_HINT": hint, "INFERENCE_NUM_THREADS": THREADS, "PERFORMANCE_HINT": "LATENCY"}
    compiled = openvino.Core().compile_model(graph, "CPU", options)
    return _whole(lambda inputs: compiled([inputs["input_ids"], inputs["attention_mask"]])[0], model, length)


def _onnxruntime(precision: str, model: Path, length: int) -> Encode:
    import onnxruntime

    path = Path(tempfile.mkdtemp()) / "model.onnx"
    names, axes = list(EXAMPLE), {0: "texts", 1: "tokens"}
    torch.onnx.export(
        _pooled(model), tuple(EXAMPLE.values()), str(path), input_names=names, output_names=["weights"],
        opset_version=17, dynamic_axes={names[0]: axes, names[1]: axes, "weights": {0: "texts"}}, dynamo=False,
    )  # fmt: skip
    if precision == "int8":
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantize_dynamic(str(path), str(path.with_name("int8.onnx")), weight_type=QuantType.QInt8, per_channel=True)
        path = path.with_name("int8.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return _whole(lambda inputs: session.run(None, inputs)[0], model, length)


def _pooled(model: Path) -> Any:
    """The masked-LM with SPLADE's max pooling as one module."""

    class Pooled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = AutoModelForMaskedLM.from_pretrained(model, attn_implementation="eager").eval()

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            logits = self.model(input_ids=input_ids, attention_mask=attention_mask).logits
            return torch.log1p((torch.relu(logits) * attention_mask.unsqueeze(-1).to(logits.dtype)).amax(1))

    return Pooled()


def _batches(
    texts: Sequence[str], tokenizer: Any, length: int, size: int
) -> Iterator[tuple[list[int], dict[str, Any]]]:
    """Numbers of texts, longest first, and their token ids and mask."""
    order = sorted(range(len(texts)), key=lambda number: -len(texts[number]))
    for start in range(0, len(order), size):
        numbers = order[start : start + size]
        chosen = [texts[number] for number in numbers]
        encoded = tokenizer(chosen, padding=True, truncation=True, max_length=length, return_tensors="np")
        yield numbers, {name: encoded[name].astype("int64") for name in EXAMPLE}


def _whole(run: Callable[[dict[str, Any]], Any], model: Path, length: int) -> Encode:
    tokenizer: Any = AutoTokenizer.from_pretrained(model)
    terms = {number: term for term, number in tokenizer.get_vocab().items()}

    def encode(texts: Sequence[str]) -> list[list[tuple[str, float]]]:
        vectors: list[list[tuple[str, float]]] = [[] for _ in texts]
        for numbers, inputs in _batches(texts, tokenizer, length, BATCH):
            for weights, number in zip(run(inputs), numbers, strict=True):
                (active,) = weights.nonzero()
                pairs = zip(active.tolist(), weights[active].tolist(), strict=True)
                vectors[number] = [(terms[term], weight) for term, weight in pairs]
        return vectors

    return encode


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    print(json.dumps(measure(*sys.argv[1:])))
