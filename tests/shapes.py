"""What checks every signature of the numerical packages while the tests run (see `conftest`)."""

from beartype import BeartypeConf, beartype

check = beartype(
    conf=BeartypeConf(
        is_pep484_tower=True,  # an int is a float, as for mypy
        is_random=False,  # the first entry of a list, not a random one: a test fails always or never
    )
)
