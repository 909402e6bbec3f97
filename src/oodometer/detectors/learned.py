"""Detectors that learn from validation outliers, as OD-test has them: Shafaei et al. 2019.

They see the outliers of one data set and are judged on another; scored on the one they have
learned from, they show what that knowledge is worth.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oodometer.detectors._acceptance import exact_range, hinge_range
from oodometer.detectors._checks import usable_neighbors
from oodometer.detectors._neighbors import Neighbors, as_given
from oodometer.detectors.layers import layer_distances
from oodometer.detectors.perturbation import place_of
from oodometer.errors import UserError
from oodometer.grids import MAHALANOBIS_STEPS
from oodometer.outputs import View
from oodometer.registry import Scorer, detector

_PAPER = "Shafaei et al. 2019, arXiv:1809.04729"
_KNN_GRID = (1, 2, 4, 8)
# Models by the loss of their training; they answer with the error and then the code.
_CODES = {"mse": "autoencoder_mse", "bce": "autoencoder_bce", "vae": "variational_autoencoder"}
_STEPS = 20_000  # of the solver; it stops earlier when it has converged


@detector(paper=_PAPER, needs={"logits", "outliers"}, losses=("cross_entropy", "label_smoothing"))
def score_svm(train: View) -> Scorer:
    """Linear support vector machine on the logits, between validation samples and outliers.

    w, b minimize (|w|^2 + b^2) / 2 + sum_i c_i max(0, 1 - y_i (w z_i + b)), y = 1 for outliers and
    -1 otherwise, on logits z that are standardized over the m validation samples; c_i = m / (2 m_y)
    balances the two classes; score = w z + b. Equivalent to the paper's weight decay of 1/m with
    the mean loss of m samples.
    """
    return _linear_machine(train, lambda view: view.logits)


@detector(paper=_PAPER, needs={"logits", "outliers"}, losses=("logistic",))
def logistic_svm(train: View) -> Scorer:
    """Linear support vector machine on the logits, for a network with the K-way logistic loss.

    Identical to score_svm: the method is named after the loss of the network. A study scores each
    of them on the runs of its loss only.
    """
    return _linear_machine(train, lambda view: view.logits)


@detector(
    paper=_PAPER,
    needs={"features", "probe:pixel_neighbors", "outliers"},
    grid={"k": _KNN_GRID, "space": ("features", "pixels")},
    needs_for={
        "space": {"features": {"features"}, "pixels": {"probe:pixel_neighbors"}},
    },
)
def knn_svm(train: View, *, k: int = 8, space: str = "features") -> Scorer:
    """Linear support vector machine on the sorted distances to the k nearest training samples.

    score_svm on (d_1 <= ... <= d_k), Euclidean, between features or, with space="pixels", between
    the flattened inputs of the network, which need `extract(..., needs=["probe:pixel_neighbors"])`.
    The paper uses pixels, in half precision, and adds mirror images to the training samples. The
    default k is reduced to the size of a smaller training set; any other k that is too large is an
    error.
    """
    k = usable_neighbors("knn_svm", "k", k, default=max(_KNN_GRID), available=len(train))
    if space == "pixels":
        place_of("knn_svm", "k", k, range(1, max(_KNN_GRID) + 1))
        return _linear_machine(train, lambda view: view.probe("pixel_neighbors")[:, :k])
    bank = train.shared(("neighbors", False), lambda: Neighbors(train.features, as_given))
    most = min(max(k, *_KNN_GRID), len(train))  # one search serves every k of the grid

    def distances(view: View) -> Tensor:
        places = view.shared((bank, most), lambda: bank.nearest(view.features, most))
        return bank.distances(view.features, places[:, :k])

    return _linear_machine(train, distances)


@detector(
    paper=_PAPER,
    needs={
        "model:autoencoder_mse",
        "model:autoencoder_bce",
        "model:variational_autoencoder",
        "outliers",
    },
    grid={"k": _KNN_GRID, "codes": ("mse",)},
    needs_for={
        "codes": {
            "mse": {"model:autoencoder_mse"},
            "bce": {"model:autoencoder_bce"},
            "vae": {"model:variational_autoencoder"},
        },
    },
    only_by_name=True,
)
def knn_svm_codes(train: View, *, k: int = 8, codes: str = "mse") -> Scorer:
    """knn_svm between the codes of an autoencoder that is trained on the training images.

    codes="mse" and "bce" are those of `reconstruction_error`, codes="vae" the means of `vae`. The
    paper adds mirror images to the training samples.
    """
    k = usable_neighbors("knn_svm_codes", "k", k, default=max(_KNN_GRID), available=len(train))
    name = _CODES[codes]
    most = min(max(k, *_KNN_GRID), len(train))
    bank = train.shared((name, "neighbors"), lambda: Neighbors(_code(train, name), as_given))

    def distances(view: View) -> Tensor:
        places = view.shared((bank, most), lambda: bank.nearest(_code(view, name), most))
        return bank.distances(_code(view, name), places[:, :k])

    return _linear_machine(train, distances)


@detector(
    paper=_PAPER,
    needs={"model:autoencoder_mse", "model:autoencoder_bce", "outliers"},
    grid={"loss": ("mse",), "published": (False,)},
    needs_for={
        "loss": {"mse": {"model:autoencoder_mse"}, "bce": {"model:autoencoder_bce"}},
    },
    only_by_name=True,
)
def autoencoder_threshold(train: View, *, loss: str = "mse", published: bool = False) -> Scorer:
    """Squared distance of the reconstruction error from a learned center, minus a learned limit.

    score = (e - m)^2 - t, e as in reconstruction_error: m and t accept the range of errors with the
    highest accuracy if ID and OOD samples are equally likely, m = 0 if the lowest errors belong to
    it. With published=True, Adagrad minimizes the mean of max(0, -y score), y = 1 for outliers and
    -1 otherwise, from m = 0 and t = 0.5.
    """
    name = _CODES[loss]
    inside, outside = (np.sort(_array(part.model(name)[:, 0])) for part in _sides(train))
    center, limit = (hinge_range if published else exact_range)(inside, outside)
    return lambda test: (test.model(name)[:, 0].double() - center).square() - limit


@detector(paper=_PAPER, needs={"features", "outliers"})
def binary_classifier(train: View) -> Scorer:
    """Logistic regression on the features, between validation samples and outliers.

    score = w x + b, the log-odds of being an outlier; w, b minimize |w|^2 / 2 + sum_i c_i log(1 +
    exp(-y_i (w x_i + b))) on standardized features, with c_i as in score_svm. The paper trains a
    whole network on this task, as binary_network does; here only a linear layer is trained, on the
    features of the given network.
    """
    from sklearn.linear_model import LogisticRegression

    machine = LogisticRegression(class_weight="balanced", max_iter=2000, tol=1e-8)
    return _learned(train, lambda view: view.features, machine)


@detector(
    paper="Lee et al. 2018, arXiv:1807.03888",
    needs={"layers", "labels", "probe:mahalanobis_layers", "outliers"},
    grid={"step": MAHALANOBIS_STEPS},
    needs_for={
        "step": {
            step: {"probe:mahalanobis_layers"} if step else {"layers", "labels"}
            for step in MAHALANOBIS_STEPS
        }
    },
    only_by_name=True,
)
def mahalanobis_weighted(train: View, *, step: float = 0.0) -> Scorer:
    """Squared Mahalanobis distances of all layers, weighted by a logistic regression on outliers.

    sum_l w_l min_c d_lc(x')^2 + b, d_lc as in `mahalanobis_ensemble`, x' = x - step * sign(gradient
    of the distance), for each layer its own. w and b are those of a logistic regression between
    validation samples and outliers, its L2 penalty chosen from 10 values by cross-validation. The
    weights are tuned to the outliers of the validation set: on other outliers it is often far
    worse, so its scores on outliers of the same kind say little about unknown ones. The paper
    learns from the first 1,000 test images of each data set, Yoon et al. 2022 ("EvG") from 1,000
    vectors of ID data and SVHN together, with step=0.
    """
    column = place_of("mahalanobis_weighted", "step", step, MAHALANOBIS_STEPS)
    machine = _CrossValidated(min(5, *map(len, _sides(train))))
    if column:
        return _learned(train, lambda view: view.probe("mahalanobis_layers")[:, column], machine)
    return _learned(train, layer_distances("mahalanobis_weighted", train), machine)


@detector(
    paper=_PAPER,
    needs={"model:binary", "model:binary_unbalanced", "outliers"},
    grid={"balanced": (True,)},
    needs_for={
        "balanced": {True: {"model:binary"}, False: {"model:binary_unbalanced"}},
    },
    only_by_name=True,
)
def binary_network(train: View, *, balanced: bool = True) -> Scorer:
    """Network that is trained on inputs to separate ID data from the validation outliers.

    score = z_1 - z_0, its log-odds of being an outlier. A study trains one per outlier set: the
    run's own network and optimizer, from scratch, on the classifier's samples and the validation
    half of the test set against the validation half of the outliers, for at most 29 epochs or until
    99.99% of a held-out fifth are separated. The smaller class is repeated until both have the same
    size; balanced=False uses the sizes as they are, as published.
    """
    _sides(train)
    name = "binary" if balanced else "binary_unbalanced"
    return lambda test: test.model(name)


def _code(view: View, name: str) -> Tensor:
    return view.model(name)[:, 1:]


class _CrossValidated:
    """Logistic regression whose L2 penalty is chosen by the accuracy on held-out samples.

    scikit-learn's own LogisticRegressionCV takes other settings in every other version.
    """

    def __init__(self, folds: int) -> None:
        self._folds = folds

    def fit(self, values: NDArray[np.float64], target: NDArray[np.int64]) -> object:
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import GridSearchCV, StratifiedKFold

        search = GridSearchCV(
            LogisticRegression(class_weight="balanced", max_iter=2000),
            {"C": np.logspace(-4, 4, 10)},
            scoring="accuracy",
            cv=StratifiedKFold(self._folds, shuffle=True, random_state=0),
        )
        return search.fit(values, target).best_estimator_


def _linear_machine(train: View, values: Callable[[View], Tensor]) -> Scorer:
    from sklearn.svm import LinearSVC

    machine = LinearSVC(
        C=1.0, loss="hinge", class_weight="balanced", tol=1e-8, max_iter=_STEPS, random_state=0
    )
    return _learned(train, values, machine)


def _learned(train: View, values: Callable[[View], Tensor], machine: object) -> Scorer:
    """Fit a linear machine of scikit-learn's to standardised values; score by its decision."""
    parts = [_array(values(part)) for part in _sides(train)]
    everything = np.concatenate(parts)
    center, scale = everything.mean(axis=0), everything.std(axis=0)
    scale[scale < 1e-12 * np.abs(center)] = 1.0  # constant: rounding is no spread
    scale[scale == 0.0] = 1.0
    standard = (everything - center) / scale
    target = np.repeat([0, 1], [len(part) for part in parts])
    # The solver goes from sample to sample: in an order that is theirs, not that of the rows.
    order = np.lexsort((target, standard.sum(axis=1)))
    slope, offset = _fitted(machine, standard[order], target[order])
    weight, middle = torch.from_numpy(slope / scale), torch.from_numpy(center)

    def score(test: View) -> Tensor:
        shown = values(test).double()
        decision: Tensor = (shown - middle.to(shown.device)) @ weight.to(shown.device) + offset
        return decision

    return score


def _sides(train: View) -> tuple[View, View]:
    """What to learn from: validation samples and outliers."""
    inliers, outliers = train.validation
    if len(inliers) < 2 or len(outliers) < 2:
        raise UserError(
            f"Learning from outliers needs 2 samples of each side, got {len(inliers)} "
            f"in-distribution and {len(outliers)} outliers."
        )
    return inliers, outliers


def _fitted(
    machine: object, values: NDArray[np.float64], target: NDArray[np.int64]
) -> tuple[NDArray[np.float64], float]:
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # Sides that a plane separates have no end of steps; the plane found by then is as good.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = getattr(machine, "fit")  # noqa: B009 - scikit-learn comes without types
        done = fit(values, target)
    return np.asarray(done.coef_[0], dtype=np.float64), float(done.intercept_[0])


def _array(values: Tensor) -> NDArray[np.float64]:
    array: NDArray[np.float64] = values.detach().cpu().double().numpy()
    return array
