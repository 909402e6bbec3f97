"""What large inputs cost, as calls of functions per line or score: a count, not a time."""

import numpy as np
from growth import calls_per_piece

from oodometer.engine.lead.jobs import jobs_of
from oodometer.engine.lead.run import costs_of, count_done, make_plan, read_data_of
from oodometer.engine.plan.artefacts import present
from oodometer.engine.stores import MemoryStore
from oodometer.study import parse_study
from oodometer.tables import read_results


def test_counting_tells_the_work_of_a_piece():
    assert calls_per_piece(lambda n: [len("") for _ in range(n)], 100) == 1
    assert calls_per_piece(lambda n: [len("") for _ in range(n * n)], 100) > 100


def test_a_line_of_a_large_table_is_read_with_few_calls(tmp_path):
    """A million lines took 25 s with 128 calls for each."""
    path = tmp_path / "results.csv"

    def read(lines):
        rng = np.random.default_rng(0)
        rows = (
            f"method {n % 20},set {n // 20 % 10},{n // 200},{rng.random():.3f},{rng.random():.3f}"
            for n in range(lines)
        )
        path.write_text("\n".join(["method,ood,seed,auroc,fpr95", *rows]))
        return read_results(path)

    assert calls_per_piece(read, 2000) < 80


def test_a_score_of_a_large_study_is_planned_with_few_calls():
    """As `run --dry-run` does: plan, count, estimate. It took 69."""
    detectors = ("max_softmax", "energy", "max_logit", "entropy")
    outliers = ("uniform_noise", "inverted", "rotated")

    def plan(runs):
        study = parse_study(
            {
                "name": "large",
                "base": {"data": "digits", "network": "mlp"},
                "factors": [{"field": "seed", "levels": list(range(runs))}],
                "detectors": list(detectors),
                "ood": list(outliers),
            },
            "study",
        )
        contents, sizes = read_data_of(study)
        made, store = make_plan(study, contents), MemoryStore()
        count_done(made, store)
        jobs_of(made.trainings, costs_of(made, sizes), present(made.artefacts, store))

    assert calls_per_piece(plan, 60) / (len(detectors) * (len(outliers) + 1)) < 67
