"""The contract of every architecture, on both sides and with every setting."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from encoders.checkpoints.notes import as_json
from encoders.encoding.loading import load_encoder
from encoders.encoding.model import LoadedModel, load_checkpoint, save_checkpoint
from encoders.models import ARCHITECTURES, SIDES
from encoders.models.bags import BagOfWords
from encoders.models.objectives import TermWeighers
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.settings import parse
from tests.encoders.models.cases import CASES, FILES, SMALLEST, Case, name
from tests.encoders.models.heads import inputs, untrained, weigh
from tests.tiny_models import TEXTS

ON_BERT = [(case, "bert") for case in CASES]
ON_DISTILBERT: list[tuple[Case, str]] = [
    ((architecture, SMALLEST.get(architecture, {})), "distilbert") for architecture in ARCHITECTURES
]
every_case = pytest.mark.parametrize(
    ("case", "kind"), ON_BERT + ON_DISTILBERT, ids=[f"{kind}-{name(case)}" for case, kind in ON_BERT + ON_DISTILBERT]
)
MIN_SIMILARITY = {"uhd": 0.95}  # nearly equal winners change ranks in bf16
TOLERANCE: dict[str, dict[str, Any]] = {
    "deepct": {"rtol": 1e-4, "atol": 1e-3}
}  # its weights are frequencies, 100 times as large
every_side = pytest.mark.parametrize("side", SIDES)


@pytest.fixture(scope="module")
def built() -> dict[str, LoadedModel]:
    """Models of earlier tests, by case."""
    return {}


@pytest.fixture
def model(case: Case, kind: str, built: dict[str, LoadedModel], request: pytest.FixtureRequest) -> LoadedModel:
    key = f"{kind}-{name(case)}"
    if key not in built:
        built[key] = untrained(*case, request.getfixturevalue(f"tiny_{kind}"))
    return built[key]


def test_every_architecture_has_cases_a_test_and_a_reference(root: Path) -> None:
    assert {architecture for architecture, _ in CASES} == set(ARCHITECTURES)
    for architecture in ARCHITECTURES:
        file = FILES.get(architecture, architecture)
        assert (root / f"tests/encoders/models/test_{file}.py").exists()
        assert (root / f"tests/reference/{file}.py").exists()


@every_side
@every_case
def test_padding_changes_nothing(model: LoadedModel, side: Side) -> None:
    module = model.weighers[side]
    padded, weights = weigh(module, model, pad_to_multiple_of=32), weigh(module, model)
    torch.testing.assert_close(padded, weights, **TOLERANCE.get(model.architecture, {}))
    assert torch.equal(padded > 0, weights > 0)


@every_side
@every_case
def test_a_batch_gives_the_weights_of_single_texts(model: LoadedModel, side: Side) -> None:
    module = model.weighers[side]
    single = torch.cat([weigh(module, model, [text]) for text in TEXTS])
    torch.testing.assert_close(weigh(module, model), single, **TOLERANCE.get(model.architecture, {}))


@every_side
@every_case
def test_weights_are_not_negative_and_not_constant(model: LoadedModel, side: Side) -> None:
    weights = weigh(model.weighers[side], model)
    assert weights.shape == (len(TEXTS), len(model.settings.terms or model.vocabulary.terms))
    assert weights.dtype == torch.float32
    assert (weights >= 0).all()
    assert len(weights[:2].unique(dim=0)) == 2
    assert (weights[0] > 0).any()


@every_case
def test_a_loaded_checkpoint_gives_the_same_weights(model: LoadedModel, tmp_path: Path) -> None:
    save_checkpoint(tmp_path, model)
    loaded = load_checkpoint(tmp_path)
    loaded.weighers.eval()
    for side in SIDES:
        after, before = (weigh(each.weighers[side], model) for each in (loaded, model))
        torch.testing.assert_close(after, before, rtol=0, atol=0)


@every_case
def test_a_shared_model_has_one_module_for_both_sides(model: LoadedModel) -> None:
    assert (model.weighers.query is model.weighers.document) == model.settings.shared
    assert isinstance(model.weighers.query, BagOfWords) == (not model.settings.towers("query"))


@every_case
def test_a_ranking_loss_trains_every_parameter_except_gates(model: LoadedModel) -> None:
    """Eq. 8 trains the gates, through their logits."""
    model.weighers.zero_grad()
    ids, mask = inputs(model, TEXTS)
    model.weighers.train(getattr(model.settings, "binarize", False))  # training uses the float weights
    query, document = model.weighers.query(ids, mask), model.weighers.document(ids, mask)
    model.weighers.eval()
    learned = set(model.settings.trained_by_ranking)
    gates = set(model.towers) - learned
    if learned:
        (query.square().sum() + (query * document).sum() + document.sum()).backward()
    for tower in learned:
        for parameter_name, parameter in model.towers[tower].named_parameters():
            if "bias" not in parameter_name and "position" not in parameter_name:  # a key's bias cancels in the softmax
                assert parameter.grad is not None, f"{tower}: {parameter_name}"
                assert parameter.grad.abs().sum() > 0, f"{tower}: {parameter_name}"
    for tower in gates:
        assert all(parameter.grad is None for parameter in model.towers[tower].parameters()), tower
        module: Any = model.weighers.query if tower.startswith("query_") else model.weighers.document
        torch.nn.functional.softplus(module.gate(ids, mask)).sum().backward()
        assert all(parameter.grad is not None for parameter in model.towers[tower].parameters()), tower


@every_case
def test_every_parameter_belongs_to_exactly_one_tower(model: LoadedModel) -> None:
    in_towers = [id(parameter) for tower in model.towers.values() for parameter in tower.parameters()]
    assert len(in_towers) == len(set(in_towers))
    assert {id(parameter) for parameter in model.weighers.parameters()} == set(in_towers)


@every_side
@every_case
def test_bf16_weights_are_similar(model: LoadedModel, side: Side) -> None:
    exact = weigh(model.weighers[side], model)
    with torch.inference_mode():
        bf16 = copy.deepcopy(model.weighers[side]).to(torch.bfloat16)(*inputs(model, TEXTS))
    assert torch.cosine_similarity(exact.flatten(), bf16.float().flatten(), dim=0) > MIN_SIMILARITY.get(
        model.architecture, 0.98
    )


@every_side
@every_case
def test_training_in_bf16_autocast_gives_float32_weights_and_gradients(model: LoadedModel, side: Side) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        weights = model.weighers[side](*inputs(model, TEXTS))
    assert weights.dtype == torch.float32
    if weights.requires_grad:
        weights.sum().backward()
        assert all(
            torch.isfinite(parameter.grad).all()
            for parameter in model.weighers.parameters()
            if parameter.grad is not None
        )


@every_side
@pytest.mark.parametrize(("case", "kind"), ON_DISTILBERT + [(case, "bert") for case, _ in ON_DISTILBERT], ids=str)
def test_an_encoder_gives_the_weights_of_its_module(model: LoadedModel, side: Side, tmp_path: Path) -> None:
    """In fp32, from texts of different lengths in several batches, by packed layers on a CPU."""
    save_checkpoint(tmp_path, model)
    texts = [*TEXTS, *("the memory of cycles of references, of the objects " * times for times in (1, 2, 2, 4))]
    batch = load_encoder(str(tmp_path), side, device="cpu", dtype="fp32", batch_size="150t").encode(texts)
    expected = weigh(model.weighers[side], model, texts, truncation=True, max_length=64)
    bounds = TOLERANCE.get(model.architecture, {"rtol": 1e-5, "atol": 1e-5})
    torch.testing.assert_close(torch.from_numpy(batch.to_scipy().toarray()), expected, **bounds)


_SPADE = {"frequencies": {"the": 0.9, "of": 0.65, ".": 0.62, "skin": 0.5}, "alpha": 0.3}
CHANGES: list[tuple[Case, dict[str, Any]]] = [
    (("sparterm", {}), {"threshold": 0.6, "max_terms": 5}),
    (("deepct", {}), {"smoothing": "sqrt", "scale": 10.0}),
    *((("spade", _SPADE), {"components": component}) for component in ("weighting", "expansion")),
    *((("spade", _SPADE), change) for change in ({"k": None}, {"alpha": 0.9, "k": 1}, {"gamma": 0.6})),
    *(
        (("uhd", {**SMALLEST["uhd"], "encoders": encoders}), change)
        for encoders in ("separate", "joint")
        for change in (
            {"k": 2, "query_k": 3, "query_k_scope": "bucket", "document_k": 7},
            {"bucket_weights": [0, 1]},
            {"bucket_weights": [3, 2], "binarize": True, "normalize": "both"},
            {"layers": [1]},
            {"layers": [2]},
        )
    ),
]


@every_side
@pytest.mark.parametrize(("case", "change"), CHANGES, ids=str)
def test_a_checkpoint_with_changed_settings_equals_a_model_built_with_them(
    case: Case, change: dict[str, Any], side: Side, tiny_bert: Path, tmp_path: Path
) -> None:
    model = untrained(*case, tiny_bert)
    save_checkpoint(tmp_path, model)
    encoder = load_encoder(str(tmp_path), side, settings=change, dtype="fp32", device="cpu")
    changed = parse(ARCHITECTURES[case[0]], {**as_json(model.settings), **change}, "changed")
    expected = weigh(changed.weigher(side, model.towers, model.vocabulary).eval(), model)
    encoded = torch.from_numpy(encoder.encode(TEXTS).to_scipy().toarray())
    torch.testing.assert_close(encoded, expected, rtol=1e-4, atol=1e-4)
    assert list(encoder.terms) == list(changed.terms or model.vocabulary.terms)


@pytest.mark.parametrize(("architecture", "settings"), [("spade", {}), ("uhd", SMALLEST["uhd"])])
def test_the_score_of_a_mixture_is_the_weighted_sum_of_its_components_scores(
    architecture: str, settings: dict[str, Any], tiny_bert: Path
) -> None:
    model = untrained(architecture, settings, tiny_bert)

    def scores(weighers: TermWeighers) -> torch.Tensor:
        return weigh(weighers.query.eval(), model) @ weigh(weighers.document.eval(), model).T

    for changes, factors in model.settings.mixtures():
        mixed = replace(model.settings, **changes)
        whole = scores(TermWeighers.of(mixed, model.towers, model.vocabulary))
        parts = [factor * scores(model.weighers.part(name)) for name, factor in factors.items()]
        torch.testing.assert_close(whole, torch.stack(parts).sum(0), rtol=1e-4, atol=1e-5)


INVALID: list[tuple[str, dict[str, Any], str]] = [
    ("spade", {"alpha": 1.5}, "alpha is 1.5"),
    ("spade", {"k": 0}, "k is 0"),
    ("spade", {"gamma": 0.049}, "give a share of documents, 0.05 to 1"),
    ("spade", {"frequencies": {"the": 1.01}}, "give a share of documents, 0.05 to 1"),
    ("spade", {"frequencies": {"wign": 0.5}}, "no term 'wign' in the vocabulary; did you mean 'wing'"),
    ("spade", {"components": "all"}, "'both'"),
    ("sparterm", {"threshold": -0.1}, "from 0 to 1"),
    ("sparterm", {"threshold": 1.1}, "from 0 to 1"),
    ("sparterm", {"mode": "expansion-only"}, "set query: tf"),
    ("splade", {"query_weighting": "learned"}, "query_weighting: learned needs query: bag-of-words, not same"),
    ("uhd", {"k": 49}, "k 49"),
    ("uhd", {"k": 0}, "k 0"),
    ("uhd", {"layers": []}, "layers"),
    ("uhd", {"layers": [2, 1]}, "lowest first"),
    ("uhd", {"layers": [1, 3]}, "no layer 3"),
    ("uhd", {"query_k": 0}, "query_k 0"),
    ("uhd", {"document_k": -1}, "document_k -1"),
    ("uhd", {"bucket_weights": [1]}, "each of the layers"),
    ("uhd", {"bucket_weights": [0, 0]}, "not all"),
    ("uhd", {"weight_sparsity": 0.99}, "leaves no inputs"),
    ("uhd", {"weight_sparsity": -0.1}, "leaves no inputs"),
]


@pytest.mark.parametrize(("architecture", "settings", "message"), INVALID)
def test_settings_without_a_meaning_are_errors(
    architecture: str, settings: dict[str, Any], message: str, tiny_bert: Path
) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        untrained(architecture, {**SMALLEST.get(architecture, {}), **settings}, tiny_bert)
