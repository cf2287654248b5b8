"""The files of a figure."""

import matplotlib
import numpy as np
from PIL import Image

from assignadd.figure.style import figure, save


def test_a_figure_is_saved_as_matplotlib_draws_it(tmp_path):
    with figure(2, 1) as made:
        axes = made.add_subplot()
        axes.set_title("title")
        axes.plot([0, 1], [1, 0], color="red")
        save(made, tmp_path / "a")
        made.savefig(tmp_path / "b.png", dpi=220)
    ours, other = (np.asarray(Image.open(tmp_path / name)) for name in ("a.png", "b.png"))
    assert ours.shape == (220, 440, 4) and np.array_equal(ours, other)
    assert (ours == (255, 0, 0, 255)).all(2).any()


def test_a_figure_does_not_depend_on_the_settings_of_who_draws_it(tmp_path):
    """Matplotlib reads a file `matplotlibrc` in the working folder, which may come from elsewhere."""

    def drawn(name: str) -> bytes:
        with figure(3, 2) as fig:
            fig.subplots().plot([1, 2], [3, 4])
            save(fig, tmp_path / name)
        return (tmp_path / f"{name}.svg").read_bytes()

    theirs = {"axes.facecolor": "red", "lines.linewidth": 9, "text.usetex": True, "svg.image_inline": False}
    with matplotlib.rc_context(theirs):
        with_theirs = drawn("theirs")
    assert with_theirs == drawn("ours")
