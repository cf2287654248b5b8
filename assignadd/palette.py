"""The colours of the figures and of the report, each named once."""

from __future__ import annotations

from types import SimpleNamespace

# For curves, bars and dots: distinguishable with any common colour blindness (Okabe and Ito).
BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
PURPLE, YELLOW, SKY = "#AA3F9E", "#F0E442", "#56B4E9"
RED = "#D7191C"  # boxes on heat maps
# For text, axes and everything that recedes.
INK, GREY, PALE = "#222222", "#8A8A8A", "#EFEFEF"
GRID, RULE, HATCH = "#E6E6E6", "#B0B0B0", "#B5B5B5"
ANSWER, SPIKE = "#CFE3F5", "#FBE3D6"  # backgrounds of the answer and of a spike
SHADE = "#E9E3B4"  # where the theorem's conditions hold, or where the model adds
ON_LIGHT, ON_DARK = "#1F1F1F", "#FDFDFD"  # text on the cells of a heat map, which keep their colours on a dark screen
# Colours that figures outside the package use, as `COLORS.blue`.
COLORS = SimpleNamespace(blue=BLUE, vermilion=VERMILION, green=GREEN, orange=ORANGE, ink=INK, grey=GREY)
# Colours by the number of variables in a sum.
BY_VARS = {0: BLUE, 1: VERMILION, 2: GREEN}
# Colour maps of heat maps, by matplotlib's names.
SHARES = "Blues"  # from 0 up
SIGNED = "BrBG"  # scores of either sign, white at 0; no box has its colours
POSITIONS = "cividis"  # scores without a zero to show

# Colours of the report page, as CSS variables: for a light and for a dark screen.
LIGHT = {
    "ink": "#1b1f24", "soft": "#57606a", "line": "#d8dee4", "back": "#ffffff", "card": "#f6f8fa", "link": "#0550ae",
    "good": "#116329", "bad": "#a40e26", "mixed": "#7a4a00",
    "good-back": "#dafbe1", "bad-back": "#ffebe9", "mixed-back": "#fff1d6",
}  # fmt: skip
DARK = {
    "ink": "#e6edf3", "soft": "#9aa4af", "line": "#30363d", "back": "#0d1117", "card": "#161b22", "link": "#79b8ff",
    "good": "#7ee2a0", "bad": "#ffb1a8", "mixed": "#f2cc79",
    "good-back": "#10351d", "bad-back": "#4a1416", "mixed-back": "#3d2e0a",
}  # fmt: skip
# In figures on a dark screen, the replacement of each colour that would be lost on a dark background.
DARK_FIGURES = {
    "#FFFFFF": DARK["back"], "#000000": "#ffffff", INK: DARK["ink"], GREY: "#9aa4af", PALE: "#21262d", GRID: "#2a3038",
    RULE: "#6b7480", HATCH: "#59616b", ANSWER: "#16364f", SPIKE: "#43291b", SHADE: "#3a371f",
    BLUE: "#2f93d6", PURPLE: "#cf74c4",
}  # fmt: skip


def css_variables() -> str:
    """The colours of the report page as CSS variables, `--ink` and so on: for a light screen, and for a dark one."""
    light = " ".join(f"--{name}: {colour};" for name, colour in LIGHT.items())
    dark = " ".join(f"--{name}: {colour};" for name, colour in DARK.items())
    light_rule = f":root {{ color-scheme: light dark; {light} }}"
    dark_rule = f"@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"
    return f"{light_rule}\n{dark_rule}\n"


def dark_figure_rules() -> str:
    """CSS rules that give an SVG file of matplotlib other colours on a dark screen (DARK_FIGURES).

    Matplotlib writes a colour into a `style` attribute, as in style="fill: #222222", and that of hatched cells into an
    attribute of its own, as in fill="#222222".
    """
    rules = ""
    for light, dark in DARK_FIGURES.items():
        for property in ("fill", "stroke"):
            in_style = f'[style*="{property}: {light.lower()}"]'
            in_attribute = f'[{property}="{light.lower()}"]'
            rules += f"{in_style},{in_attribute}{{{property}:{dark}!important}}"
    return f"@media (prefers-color-scheme: dark){{{rules}}}"
