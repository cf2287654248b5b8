"""Hooks of the paper's network that tests replace."""

HOOKS = (
    "hook_embed", "hook_pos_embed", "blocks.0.attn.hook_pattern", "blocks.0.hook_attn_out", "blocks.1.hook_resid_pre",
    "blocks.1.attn.hook_pattern", "blocks.1.hook_attn_out", "blocks.1.hook_resid_mid", "blocks.1.mlp.hook_pre",
    "blocks.1.mlp.hook_post", "blocks.1.hook_mlp_out", "blocks.1.hook_resid_post",
)  # fmt: skip
NEURON_HOOKS = ("blocks.1.mlp.hook_pre", "blocks.1.mlp.hook_post")
