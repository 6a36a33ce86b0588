"""Parameters, FLOPs and activations against the figures of the papers they come from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.decide.paper.transformer import (
    Transformer,
    Work,
    activation_bytes,
    layer_work,
    logits_work,
    step_flops,
)

# Narayanan et al. 2021, "Efficient large-scale language model training on GPU clusters using
# Megatron-LM" (SC21, arXiv 2104.04473), table 1: sequence 2048, vocabulary 51200.
# billions of parameters, heads, hidden, layers, batch
MEGATRON = [
    (1.7, 24, 2304, 24, 512),
    (3.6, 32, 3072, 30, 512),
    (7.5, 32, 4096, 36, 512),
    (18.4, 48, 6144, 40, 1024),
    (39.1, 64, 8192, 48, 1536),
    (76.1, 80, 10240, 60, 1792),
    (145.6, 96, 12288, 80, 2304),
    (310.1, 128, 16384, 96, 2160),
    (529.6, 128, 20480, 105, 2520),
    (1008.0, 160, 25600, 128, 3072),
]


def gpt(hidden: int, heads: int, layers: int, **more) -> Transformer:
    return Transformer(
        layers=layers, hidden=hidden, heads=heads, sequence=2048, vocabulary=51200, **more
    )


@pytest.mark.parametrize(("billions", "heads", "hidden", "layers", "batch"), MEGATRON)
def test_megatron_models_follow_the_published_formulas(billions, heads, hidden, layers, batch):
    model, h, s, v = gpt(hidden, heads, layers), hidden, 2048, 51200
    published = 12 * layers * h**2 * (1 + 13 / (12 * h) + (v + s) / (12 * layers * h))
    assert model.parameters == pytest.approx(published, rel=1e-12)
    assert model.parameters / 1e9 == pytest.approx(billions, abs=0.06)

    inner = 1 + s / (6 * h) + v / (16 * layers * h)
    assert step_flops(model, batch, "full") == pytest.approx(
        96 * batch * s * layers * h**2 * inner, rel=1e-12
    )
    inner = 1 + s / (6 * h) + v / (12 * layers * h)
    assert step_flops(model, batch) == pytest.approx(72 * batch * s * layers * h**2 * inner)


@pytest.mark.parametrize(("billions", "heads", "hidden", "layers", "batch"), MEGATRON)
def test_the_kernels_of_a_step_do_the_flops_of_the_formula(billions, heads, hidden, layers, batch):
    model = gpt(hidden, heads, layers)
    layer = layer_work(model, 1, 1, False, 2)
    kernels = (layer.forward + layer.backward + layer.recomputed("full")) * layers
    assert (kernels + logits_work(model, 1, 1, 2)).flops == pytest.approx(
        step_flops(model, 1, "full"), rel=1e-12
    )


def test_what_torch_computes_once_more():
    """Of Llama 3 8B (7 products of a layer): by operator the second, fourth and sixth; full all
    but the last, whose result no backward pass reads."""
    llama = Transformer(
        layers=32, hidden=4096, heads=32, sequence=8192, vocabulary=128256, feed_forward=14336,
        key_value_heads=8, gated=True, tied_embeddings=False, attention="flash",
    )  # fmt: skip
    layer = layer_work(llama, 1, 1, False, 2)
    queries, keys, wide = 4096 * 4096, 4096 * 1024, 4096 * 14336
    whole = 2 * queries + 2 * keys + 3 * wide
    assert layer.forward.flops == pytest.approx(2 * 8192 * whole)
    again = [layer.recomputed(*how).flops for how in (("operator",), ("full", True), ("full",))]
    assert again == pytest.approx(
        [2 * 8192 * one for one in (keys + queries + wide, whole - wide, whole)]
    )
    assert layer.recomputed("operator").flash == 0 < layer.recomputed("full", True).flash


def test_llama_shape():
    # Dubey et al. 2024, "The Llama 3 herd of models" (arXiv 2407.21783), table 3: 8 B is 8.03e9
    llama = Transformer(
        layers=32, hidden=4096, heads=32, sequence=8192, vocabulary=128256, feed_forward=14336,
        key_value_heads=8, gated=True, tied_embeddings=False, attention="flash",
    )  # fmt: skip
    assert llama.parameters == pytest.approx(8.03e9, rel=0.01)


# Korthikanti et al. 2022, "Reducing activation recomputation in large transformer models"
# (arXiv 2205.05198), figure 7: percent of the activations without any measure, tensor parallel 8.
ACTIVATION_PERCENT = {
    (6144, 64, 48): {"sequence": 66.84, "selective": 49.42, "both": 16.18, "full": 7.64},
    (12288, 96, 96): {"sequence": 62.04, "selective": 56.53, "both": 18.49, "full": 8.71},
    (20480, 128, 105): {"sequence": 58.31, "selective": 62.04, "both": 20.27, "full": 9.42},
    (25600, 160, 128): {"sequence": 58.31, "selective": 62.04, "both": 20.27, "full": 9.42},
}


@pytest.mark.parametrize(("shape", "published"), ACTIVATION_PERCENT.items())
def test_activations_shrink_as_published(shape, published):
    model = gpt(*shape)
    whole = activation_bytes(model, 1, 8)
    computed = {
        "sequence": activation_bytes(model, 1, 8, "none", True),
        "selective": activation_bytes(model, 1, 8, "selective"),
        "both": activation_bytes(model, 1, 8, "selective", True),
        "full": activation_bytes(model, 1, 8, "full"),
    }
    for name, percent in published.items():  # read off a figure, so to a quarter of a percent
        assert 100 * computed[name] / whole == pytest.approx(percent, abs=0.25)


def test_activations_of_one_layer_are_the_published_formula():
    s, b, h, a, t = 2048, 4, 6144, 64, 8
    formula = s * b * h * (10 + 24 / t + 5 * a * s / (h * t))
    assert activation_bytes(gpt(h, a, 48), b, t) == pytest.approx(formula)


@given(st.sampled_from(MEGATRON), st.sampled_from([1, 2, 4, 8]), st.booleans())
def test_tensor_parallelism_divides_the_arithmetic_but_not_all_bytes(row, tensor, together):
    _, heads, hidden, layers, _ = row
    model = gpt(hidden, heads, layers)
    alone, one = layer_work(model, 2, 1, False, 2), layer_work(model, 2, tensor, together, 2)
    assert one.forward.flops * tensor == pytest.approx(alone.forward.flops)
    assert one.forward.bytes * tensor >= alone.forward.bytes * (1 - 1e-12)


@given(st.sampled_from(MEGATRON), st.sampled_from([1, 2, 4, 8]))
def test_flash_attention_moves_and_keeps_less(row, tensor):
    _, heads, hidden, layers, _ = row
    standard = gpt(hidden, heads, layers)
    flash = gpt(hidden, heads, layers, attention="flash")
    before = layer_work(standard, 1, tensor, True, 2).forward
    after = layer_work(flash, 1, tensor, True, 2).forward
    # a causal kernel leaves out half of the products
    assert after.flops + 2 * after.flash == pytest.approx(before.flops)
    assert after.bytes < before.bytes
    assert activation_bytes(flash, 1, tensor) == activation_bytes(standard, 1, tensor, "selective")


def test_work_adds_and_multiplies():
    assert (Work(1, 2) + Work(3, 4)) * 2 == Work(8, 12)
