"""Points of the normal distribution and of Student's t."""

from __future__ import annotations

import pytest

from kshot.statistics.resampling import Z, normal_share, student_point


@pytest.mark.parametrize(("degrees", "point"), [(1, 12.7062), (2.5, 4.3027), (3, 3.1824), (10, 2.2281), (1e9, Z)])
def test_student(degrees, point):
    assert student_point(degrees) == pytest.approx(point, rel=2e-3)


def test_normal():
    assert normal_share(Z) == pytest.approx(0.975)
    assert normal_share(-Z) == pytest.approx(0.025)
