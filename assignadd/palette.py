"""The colours of the figures and of the report, each named once."""

from __future__ import annotations

# For curves, bars and dots: distinguishable with any common colour blindness (Okabe and Ito).
BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
PURPLE, YELLOW, SKY = "#AA3F9E", "#F0E442", "#56B4E9"
RED = "#D7191C"  # boxes on heat maps
# For text, axes and everything that recedes.
INK, GREY, PALE = "#222222", "#8A8A8A", "#EFEFEF"
GRID, RULE, HATCH = "#E6E6E6", "#B0B0B0", "#B5B5B5"
ANSWER, SPIKE = "#CFE3F5", "#FBE3D6"  # backgrounds of the answer and of a spike
# By the number of variables in a sum.
BY_VARS = {0: BLUE, 1: VERMILION, 2: GREEN}
# Of heat maps, by matplotlib's names.
SHARES = "Blues"  # from 0 up
SIGNED = "BrBG"  # scores of either sign, white at 0; no box has its colours
POSITIONS = "cividis"  # scores without a zero to show
ERRORS = "OrRd_r"  # accuracies, nearly white where all answers are right

# Of the report page, as CSS variables: for a light and for a dark screen.
LIGHT = {
    "ink": "#1b1f24", "soft": "#57606a", "line": "#d8dee4", "back": "#ffffff", "card": "#f6f8fa", "link": "#0550ae",
    "good": "#116329", "bad": "#a40e26", "mixed": "#7a4a00",
    "good-back": "#dafbe1", "bad-back": "#ffebe9", "mixed-back": "#fff1d6",
    # Figures are light on any screen.
    "figure-back": "#ffffff", "caption": "#444444", "caption-code": "#333333", "caption-card": "#eef1f4",
    "caption-link": "#0550ae",
}  # fmt: skip
DARK = {
    "ink": "#e6edf3", "soft": "#9aa4af", "line": "#30363d", "back": "#0d1117", "card": "#161b22", "link": "#79b8ff",
    "good": "#7ee2a0", "bad": "#ffb1a8", "mixed": "#f2cc79",
    "good-back": "#10351d", "bad-back": "#4a1416", "mixed-back": "#3d2e0a",
}  # fmt: skip


def css_variables() -> str:
    """The colours of the report page as CSS: `--ink` and so on, by the reader's choice of a light or dark screen."""
    light, dark = (" ".join(f"--{name}: {colour};" for name, colour in theme.items()) for theme in (LIGHT, DARK))
    return (
        f":root {{ color-scheme: light dark; {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
    )
