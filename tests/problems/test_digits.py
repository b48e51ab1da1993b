"""The digits: real images, all dealt out, scaled."""

import numpy as np
import pytest

from fedtide.errors import InvalidInput
from fedtide.problems import digits


def test_every_image_is_somebodys_and_pixels_are_in_the_unit_interval():
    problem = digits(clients=12, concentration=0.1)
    assert np.sum(problem.sizes) + np.sum(problem.test_sizes) == 1797
    assert np.min(problem.sizes) >= 8
    assert np.min(problem.test_sizes) >= 2
    assert (np.min(problem.x), np.max(problem.x)) == (0.0, 1.0)


def test_training_and_test_images_of_a_client_have_the_same_classes_on_the_whole():
    # One client holds everything; a class has about 180 images, 36 of them in the test set with a standard deviation
    # of 5. The band is ± 25 (error rate below 1e-5).
    problem = digits(clients=1)
    assert np.abs(np.bincount(problem.test_y, minlength=10) - 36).max() < 25


def test_the_seed_decides():
    first, again, other = digits(seed=1), digits(seed=1), digits(seed=2)
    np.testing.assert_array_equal(first.x, again.x)
    assert not np.array_equal(first.sizes, other.sizes)


def test_no_test_images():
    assert np.sum(digits(test_fraction=0.0).sizes) == 1797


def test_errors_name_what_is_wrong():
    with pytest.raises(InvalidInput, match=r"^test_fraction = 1.0: must be in \[0, 1\)"):
        digits(test_fraction=1.0)
    with pytest.raises(
        InvalidInput,
        match=r"^clients = 200: must be at most 179: 1797 samples, 10 or more for each",
    ):
        digits(clients=200)
