"""The weights of a model by the field's names (those of TransformerLens), with their shapes."""

from __future__ import annotations

from assignadd.config import Config
from assignadd.task.vocabulary import Vocabulary

Shape = tuple[int, ...]


def weight_shapes(config: Config) -> dict[str, Shape]:
    """Name -> shape of every weight of one model, in the order in which they are stored and initialised."""
    task, model = config.task, config.model
    d, H, dh = model.d_model, model.n_heads, model.d_head
    shapes: dict[str, Shape] = {"embed.W_E": (Vocabulary(task).size, d), "pos_embed.W_pos": (task.length, d)}
    for layer, width in enumerate(model.d_mlp):
        block = f"blocks.{layer}."
        shapes |= _norm_shapes(config, block + "ln1")
        shapes |= {f"{block}attn.W_{x}": (H, d, dh) for x in "QKV"} | {block + "attn.W_O": (H, dh, d)}
        if model.biases:
            shapes |= {f"{block}attn.b_{x}": (H, dh) for x in "QKV"} | {block + "attn.b_O": (d,)}
        if width is not None:
            shapes |= _norm_shapes(config, block + "ln2")
            shapes |= {block + "mlp.W_in": (d, width), block + "mlp.W_out": (width, d)}
            if model.biases:
                shapes |= {block + "mlp.b_in": (width,), block + "mlp.b_out": (d,)}
    shapes |= _norm_shapes(config, "ln_final")
    shapes["unembed.W_U"] = (d, task.modulus)
    if model.biases:
        shapes["unembed.b_U"] = (task.modulus,)
    return shapes


def _norm_shapes(config: Config, name: str) -> dict[str, Shape]:
    parts = {"none": "", "rms": "w", "layer": "wb"}[config.model.norm]
    return {f"{name}.{part}": (config.model.d_model,) for part in parts}
