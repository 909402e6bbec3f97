"""Four questions to every detector under label noise, and their answers from scores."""

from __future__ import annotations

from oodometer.metrics import auroc
from oodometer.results import Results
from oodometer.scores import ScoreTable

QUESTIONS = {
    "auroc": "ID against OOD",
    "correct_auroc": "correctly classified ID against OOD",
    "incorrect_auroc": "misclassified ID against OOD",
    "failure_auroc": "correctly classified against misclassified ID",
}


def of_scores(table: ScoreTable) -> dict[str, Results]:
    """Answer the four questions from scores; those about errors need to know which were made."""
    import pandas as pd

    lines: dict[str, list[dict[str, object]]] = {name: [] for name in QUESTIONS}
    for reference, row in table.pairs():
        right = table.correct.get(row.run)
        about: dict[str, object] = {"detector": row.detector, "id": table.id, "ood": row.dataset}
        about |= table.runs[row.run]
        if right is not None:
            about["accuracy"] = float(right.mean())
        lines["auroc"].append(about | {"value": auroc(reference.scores, row.scores)})
        if right is None or right.all() or not right.any():
            continue
        correct, wrong = reference.scores[right], reference.scores[~right]
        lines["correct_auroc"].append(about | {"value": auroc(correct, row.scores)})
        lines["incorrect_auroc"].append(about | {"value": auroc(wrong, row.scores)})
        lines["failure_auroc"].append(about | {"value": auroc(correct, wrong)})
    missing = tuple(part for part in table.missing if not part.setting)
    return {
        name: Results(pd.DataFrame(rows), table.factors, name, missing=missing)
        for name, rows in lines.items()
        if rows
    }
