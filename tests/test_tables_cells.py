"""Cells of other people's tables: how they write means, spreads and gaps."""

import growth
import pytest
from growth import grows_with_its_input

from oodometer.tables.cells import is_gap, read_cell


@pytest.mark.parametrize(
    ("text", "value", "spread"),
    [
        ("93.3(0.5)", 93.3, 0.5), ("91.2 (±0.3)", 91.2, 0.3), ("91.2 +/- 0.3", 91.2, 0.3),
        ("91.2_{0.3}", 91.2, 0.3), ("91.2₀.₃", 91.2, 0.3), ("91.2% (0.3%)", 91.2, 0.3),
        ("80.1 (SD: 1.2)", 80.1, 1.2), ("0.912 [0.90, 0.92]", 0.912, None), ("≈0.978", 0.978, None),
        ("0.91 (95% CI 0.90 to 0.92)", 0.91, None), ("1,234.5", 1234.5, None),
        ("**0.84****", 0.84, None), (r"\underline{91.2}$\pm$0.3", 91.2, 0.3),
    ],
)  # fmt: skip
def test_spellings_of_means_and_spreads(text, value, spread):
    cell = read_cell(text)
    assert (cell.value, cell.spread) == (value, spread)


@pytest.mark.parametrize("text", ["$-$", "-/-", "- (-)", "- ± -", r"\textemdash", "TODO", "OOM"])
def test_spellings_of_gaps(text):
    assert is_gap(text) and read_cell(text) is None


@pytest.mark.parametrize("sign", ["9", "(", "[1,", "a", "1 ", "±", "\\a", "{", "_", "*", "<", "^"])
def test_endless_cells_take_no_longer_than_others(sign):
    def read_both(times: int) -> None:
        assert read_cell(sign * times + "x") is None
        is_gap(sign * times)

    read_both(300)
    assert grows_with_its_input(read_both, 100_000)


def test_quadratic_work_would_be_noticed(monkeypatch):
    """By a clock of its own: a fast machine does in no time what takes a slow one seconds."""
    seconds = [0.0]
    monkeypatch.setattr(growth.time, "process_time", lambda: seconds[0])

    def work(steps):
        seconds[0] += 1e-8 * steps

    assert grows_with_its_input(lambda n: work(1000 * n), 100_000)
    assert not grows_with_its_input(lambda n: work(n * n), 10_000)
