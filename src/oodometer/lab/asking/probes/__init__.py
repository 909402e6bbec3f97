"""Probes: ways to ask a classifier about a batch more than once, each one function.

What one returns is kept in ``Outputs.probes``; a detector declares that it needs ``probe:NAME``.
"""

from __future__ import annotations

from oodometer.lab.asking.probes._question import Learner, Probe, Question, State
from oodometer.lab.asking.probes.dropout import dropouts, mc_dropout
from oodometer.lab.asking.probes.gradients import gradient_uncertainty
from oodometer.lab.asking.probes.layers import ClassRanges, gram, nac, rankfeat
from oodometer.lab.asking.probes.perturbation import ClassMeans, mahalanobis, odin, odin_fine
from oodometer.lab.asking.probes.pixels import TrainingPixels, pixel_neighbors

__all__ = ["PROBES", "Learner", "Probe", "Question", "State", "dropouts"]

PROBES: dict[str, Probe] = {
    "odin": Probe(odin, frozenset({"graph"})),
    "odin_fine": Probe(odin_fine, frozenset({"graph"}), only_by_name=True),
    "mahalanobis": Probe(mahalanobis, frozenset({"graph"}), learner=ClassMeans, needs_head=True),
    "gradient_uncertainty": Probe(gradient_uncertainty, needs_head=True),
    "rankfeat": Probe(rankfeat, frozenset({"stages"})),
    "gram": Probe(gram, frozenset({"stages"}), learner=ClassRanges, of_training=True),
    "nac": Probe(nac, frozenset({"graph", "stages"}), of_training=True),
    "mc_dropout": Probe(mc_dropout, frozenset({"prefix"})),
    "pixel_neighbors": Probe(pixel_neighbors, learner=TrainingPixels),
}
