import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.analysis.diff import student


def integrated(t, freedom):
    """The two-sided tail by the density itself, integrated over angles: t = √ν tan φ makes the range finite."""
    angle = np.linspace(np.arctan(t / np.sqrt(freedom)), np.pi / 2, 200_001)
    density = np.cos(angle) ** (freedom - 1)
    whole = np.cos(np.linspace(0, np.pi / 2, 200_001)) ** (freedom - 1)
    return np.trapezoid(density, angle) / np.trapezoid(whole, np.linspace(0, np.pi / 2, 200_001))


@pytest.mark.parametrize("freedom", [1, 2, 3.3, 4, 8, 57])
@pytest.mark.parametrize("t", [0.001, 0.3, 1, 2.5, 9])
def test_the_tail_is_the_integral_of_the_density(t, freedom):
    assert float(student.two_sided(t, freedom)) == pytest.approx(integrated(t, freedom), rel=1e-6)


@pytest.mark.parametrize(
    ("level", "freedom", "expected"),
    [(0.05, 1, 12.706205), (0.05, 4, 2.776445), (0.01, 4, 4.604095), (0.01, 8, 3.355387), (0.001, 2, 31.599055),
     (0.05, 1e6, 1.959966)],
)  # fmt: skip
def test_critical_values_are_those_of_the_tables(level, freedom, expected):
    assert float(student.critical(level, freedom)) == pytest.approx(expected, rel=1e-6)


@settings(deadline=None)
@given(st.floats(1e-9, 0.999), st.floats(1, 500))
def test_the_critical_value_has_its_level(level, freedom):
    assert float(student.two_sided(student.critical(level, freedom), freedom)) == pytest.approx(
        level, rel=1e-6
    )
