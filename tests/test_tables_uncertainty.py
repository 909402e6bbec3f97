"""What the text around a table says of its means ± something."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from test_unpaired import adjusted_p

from oodometer import analyze
from oodometer.tables import read_results
from oodometer.tables.vocabulary.uncertainty import uncertainty_in

ROWS = "| Method | SVHN AUROC | LSUN AUROC |\n|---|---|---|\n"
CELLS = "| MSP | 90.5 ± 0.4 | 91.1 ± 0.5 |\n| KNN | 93.0 ± 0.5 | 92.8 ± 0.4 |\n"
ONE_SET = "| Method | SVHN AUROC |\n|---|---|\n| MSP | 90.5 ± 0.5 |\n| KNN | 93.0 ± 0.4 |\n"


def read(tmp_path, text, name="page.md", **options):
    path = tmp_path / name
    path.write_text(text)
    return read_results(path, **options)


def runs_of(reading):
    frame = reading.results[0].frame
    return set(frame["runs"]) if "runs" in frame.columns else None


@pytest.mark.parametrize(
    ("said", "runs"),
    [
        ("Mean and standard deviation over 5 runs.", 5),
        ("We report averages across three random seeds", 3),
        ("Results (± std, 10 independent training runs)", 10),
        ("Each experiment was repeated five times; we show mean ± std.", 5),
        ("mean ± std, seeds = 4", 4),
        ("averaged over 5-fold cross-validation", 5),
        ("The best of 5 runs, mean over classes", None),
        ("averaged over 3 seeds on CIFAR and over 5 seeds on ImageNet", None),
        ("hyperparameters were tuned with 20 trials on average", None),
        ("mean ± std for seeds: 0, 1, 2", None),
        ("Mean ± standard deviation", None),
    ],
)
def test_a_caption_says_over_how_many_runs_means_are(tmp_path, said, runs):
    told = runs_of(read(tmp_path, f"Table 1: {said}\n\n{ROWS}{CELLS}"))
    assert told == ({runs} if runs else None)


@pytest.mark.parametrize(
    "page",
    [
        "# Results (3 seeds)\n\n{}",
        "# Results\n\nMean ± standard deviation over 3 seeds.\n\n## CIFAR-10\n\nMore on it.\n\n{}",
        "{}\nTable 2: OOD detection, averaged over 3 runs.\n",
        "<p>We average over 3 runs.</p><table><tr><th>Method</th><th>SVHN AUROC</th></tr>"
        "<tr><td>MSP</td><td>90.5 ± 0.4</td></tr><tr><td>KNN</td><td>93 ± 0.5</td></tr></table>",
        r"\begin{{table}}\caption{{AUROC, mean $\pm$ std of 3 runs.}}\begin{{tabular}}{{lc}}"
        r"Method & SVHN\\ MSP & $90.5\pm0.4$\\ KNN & $93.0\pm0.5$\\\end{{tabular}}\end{{table}}",
    ],
)
def test_where_it_may_stand(tmp_path, page):
    assert runs_of(read(tmp_path, page.format(f"{ROWS}{CELLS}"))) == {3}


def test_titles_columns_and_users_say_it_and_the_nearest_counts(tmp_path):
    titled = ROWS.replace("SVHN AUROC", "SVHN AUROC (mean ± std, 4 seeds)")
    page = f"# Results over 3 seeds, averaged\n\n{titled}{CELLS}"
    assert runs_of(read(tmp_path, page)) == {4}
    assert runs_of(read(tmp_path, page, runs=7)) == {7}
    column = "| Method | SVHN AUROC | runs |\n|---|---|---|\n| MSP | 90.5 ± 0.4 | 6 |\n"
    column += "| KNN | 93.0 ± 0.4 | 6 |\n"
    assert runs_of(read(tmp_path, f"Averaged over 3 seeds.\n\n{column}")) == {6}


def test_a_heading_that_ended_says_nothing(tmp_path):
    page = f"# A\n\nAveraged over 3 seeds.\n\n# B\n\n{ROWS}{CELLS}"
    assert runs_of(read(tmp_path, page)) is None


def test_tables_that_say_different_things_are_joined_without_a_number(tmp_path):
    def page(first, second):
        parts = [f"## {name}\n\nMean over {n} runs.\n\n{ROWS}{CELLS}\n" for name, n in
                 (("CIFAR-10", first), ("CIFAR-100", second))]  # fmt: skip
        return "\n".join(parts)

    assert runs_of(read(tmp_path, page(3, 3))) == {3}
    assert runs_of(read(tmp_path, page(3, 5))) is None


def test_the_verdict_is_that_of_the_stated_runs(tmp_path):
    """As SciPy's Welch test of the same summaries, with NumPy's divisor n."""
    path = tmp_path / "page.md"
    path.write_text(f"Mean ± std over 5 runs.\n\n{ONE_SET}")
    wider = np.sqrt(5 / 4)
    p = scipy.stats.ttest_ind_from_stats(93, 0.4 * wider, 5, 90.5, 0.5 * wider, 5, False)[1]
    (finding,) = analyze(path)
    assert adjusted_p(finding) == {"MSP": pytest.approx(p)}
    assert any("over 5 runs, as the text says" in text for _, text in finding.reading)


def test_standard_errors_are_no_standard_deviations(tmp_path):
    """The deviation over n runs is √n times the standard error: simulated, and by SciPy."""
    rng = np.random.default_rng(0)
    runs = {"MSP": rng.normal(0.90, 0.02, 5), "KNN": rng.normal(0.93, 0.02, 5)}
    errors = {name: values.std() / np.sqrt(5) for name, values in runs.items()}
    rows = "".join(f"| {n} | {v.mean():.12f} ± {errors[n]:.12f} |\n" for n, v in runs.items())
    page = f"AUROC (mean ± standard error, 5 runs)\n\n| Method | SVHN |\n|---|---|\n{rows}"
    path = tmp_path / "page.md"
    path.write_text(page)
    p = scipy.stats.ttest_ind(runs["KNN"], runs["MSP"], equal_var=False).pvalue
    assert [*adjusted_p(analyze(path)[0]).values()] == [pytest.approx(p, rel=1e-4)]
    path.write_text(page.replace(", 5 runs", ""))
    reading = read_results(path)
    assert "spread" not in reading.results[0].frame.columns
    assert any("standard errors and over how many runs" in note for note in reading.notes)
    assert runs_of(read_results(path, runs=5)) == {5}


def test_confidence_intervals_are_not_taken_for_standard_deviations(tmp_path):
    reading = read(tmp_path, f"Mean ± 95% confidence interval over 3 seeds.\n\n{ROWS}{CELLS}")
    assert "spread" not in reading.results[0].frame.columns
    assert any("confidence intervals" in note for note in reading.notes)


def test_columns_of_a_frame_that_count_runs_of_one_detector_say_nothing_of_all():
    frame = pd.DataFrame(
        {"set": ["SVHN", "LSUN"], "MSP (3 seeds)": ["90±1", "91±1"], "KNN (5 seeds)": ["92±1"] * 2}
    )
    assert runs_of(read_results(frame, "auroc=*")) is None


def test_long_texts_cost_no_more_than_their_beginning():
    assert uncertainty_in("over 3 runs. " + "two three " * 100_000).runs == 3


def test_means_without_spreads_are_not_called_a_single_run(tmp_path):
    rows = "".join(
        f"| {name} | {x}.5 | {x}.9 | {x + 1}.2 |\n" for name, x in (("MSP", 90), ("KNN", 93))
    )
    table = "| Method | SVHN AUROC | LSUN AUROC | iSUN AUROC |\n|---|---|---|---|\n" + rows
    path = tmp_path / "page.md"
    path.write_text(f"All numbers are averaged over five random seeds.\n\n{table}")
    finding = analyze(path)[0]
    said = " ".join([finding.answer, *(claim.text for claim in finding.claims)])
    assert "by the stated means" in said and "single run" not in said
    assert "One training run" not in said
    assert ("metric", "AUROC (higher is better), 6 means of 5 runs") in finding.reading
    path.write_text(table)
    said = " ".join(claim.text for claim in analyze(path)[0].claims)
    assert "in this single run" in said


def test_stated_means_and_other_findings_compare_the_same_cells():
    """Conditions that only one set has leave the others out, in every finding of a page."""
    lines = [
        {"method": name, "ood": ood, "train_size": size, "auroc_mean": value + lead,
         "auroc_std": 0.01, "n": 5}
        for name, lead in (("msp", 0.0), ("knn", 0.03))
        for ood, size, value in (("svhn", "100", 0.90), ("svhn", "1000", 0.92),
                                 ("lsun", "", 0.80), ("dtd", "", 0.70))
    ]  # fmt: skip
    finding = analyze(pd.DataFrame(lines))[0]
    assert "0.940" in finding.claims[0].text and "over 1 outlier set" in finding.claims[0].text
    assert any("all on svhn" in text for name, text in finding.reading if name == "compared")
