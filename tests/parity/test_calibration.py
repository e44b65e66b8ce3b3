"""The expected calibration error agrees with its definition, computed with numpy over whole arrays.

Guo, Pleiss, Sun and Weinberger 2017, On Calibration of Modern Neural Networks (arXiv:1706.04599), equations 2, 3 and 5.
"""

import numpy as np
import pytest

from kshot.report.page.packed_samples import Calibration, confidence_of


def reference(logprobs, targets, bins=10):
    """Return accuracy, mean confidence and error from arrays: bin m holds the confidences in ((m-1)/M, m/M]."""
    shifted = logprobs - logprobs.max(axis=1, keepdims=True)
    shares = np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True)
    confidence, right = shares.max(axis=1), shares.argmax(axis=1) == targets
    error = 0.0
    for low in np.arange(bins) / bins:
        held = (confidence > low) & (confidence <= low + 1 / bins)
        if held.any():
            error += held.mean() * abs(right[held].mean() - confidence[held].mean())
    return right.mean(), confidence.mean(), error


@pytest.mark.parametrize("seed", range(5))
def test_the_error_is_that_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    count, options = 500, int(rng.integers(2, 7))
    logprobs = rng.normal(-20, rng.uniform(0.3, 4), (count, options))
    targets = np.where(rng.random(count) < 0.4, logprobs.argmax(axis=1), rng.integers(0, options, count))
    found = Calibration()
    for row, target in zip(logprobs, targets, strict=True):
        response = [{"text": f" {at}", "logprob": float(each)} for at, each in enumerate(row)]
        confidence, right = confidence_of({"response": response, "target": int(target)})
        found.add(confidence, right=right)
    expected = reference(logprobs, targets)
    whole = found.whole
    assert (whole.accuracy, whole.mean_confidence, found.error) == pytest.approx(expected, abs=1e-12)
    assert whole.samples == count
