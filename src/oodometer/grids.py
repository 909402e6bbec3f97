"""Where probes ask and detectors read: values that both must agree on, to the place in a tensor."""

from __future__ import annotations

TEMPERATURES = (1.0, 10.0, 100.0, 1000.0)
ODIN_STEPS = (0.0, 0.00035, 0.0007, 0.0014, 0.0028)
IODIN_STEPS = (0.0014, 0.0028)
# Those of OD-test (Shafaei et al. 2019, arXiv:1809.04729).
FINE_TEMPERATURES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
FINE_STEPS = tuple(round(0.0002 * place, 4) for place in range(21))
MAHALANOBIS_STEPS = (0.0, 0.0005, 0.001, 0.0014, 0.002, 0.005, 0.01)
DROPOUT_SAMPLES = (7, 15, 30)
PIXEL_NEIGHBORS = (1, 2, 3, 4, 5, 6, 7, 8)
