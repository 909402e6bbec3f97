"""Workbooks as spreadsheet libraries write them, and as nobody should: see oracles/workbooks."""

import io
import zipfile
from pathlib import Path

import pytest

from oodometer.errors import UserError
from oodometer.tables import read_results

WORKBOOKS = Path(__file__).parent / "oracles" / "workbooks"  # by openpyxl 3.1 and XlsxWriter 3.2
AUROC = {
    ("MSP", "SVHN"): 0.912,
    ("MSP", "LSUN"): 0.9,
    ("KNN", "SVHN"): 0.931,
    ("KNN", "LSUN"): 0.92,
}
MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
SHEET = f"<worksheet {MAIN}><sheetData>%s</sheetData></worksheet>"


def values(reading, metric="auroc", *factors):
    (found,) = [part for part in reading.results if part.metric == metric]
    assert found.factor_names == factors
    lines = found.frame[["detector", "ood", *factors, "value"]].to_numpy().tolist()
    return {tuple(labels): pytest.approx(value) for *labels, value in lines}


def rewritten(tmp_path, part, content):
    """A copy of a workbook in which one part is replaced."""
    path = tmp_path / "t.xlsx"
    with (
        zipfile.ZipFile(WORKBOOKS / "seeds.xlsx") as old,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, content if name == part else old.read(name))
    return path


def test_percentages_dates_titles_hidden_rows_and_sheets_of_notes():
    reading = read_results(WORKBOOKS / "openpyxl.xlsx")
    assert values(reading) == AUROC
    assert values(reading, "fpr95") == {key: 1 - value for key, value in AUROC.items()}
    notes = " | ".join(reading.notes)
    assert "hidden in sheet 'Results', but read: 1 row" in notes
    assert "hold no table were left out: 'Notes', 'old'; read: 'Results'" in notes
    assert dict(reading.columns)["Date"].startswith("not used")


def test_merged_titles_stored_values_of_formulas_and_rich_texts():
    reading = read_results(WORKBOOKS / "xlsxwriter.xlsx")
    assert values(reading) == AUROC
    assert values(reading, "fpr95") == {key: 1 - value for key, value in AUROC.items()}


def test_sheets_with_the_same_titles_are_read_like_files(tmp_path):
    found = values(read_results(WORKBOOKS / "seeds.xlsx"), "auroc", "seed")
    assert found == {(*key, str(s)): v + s / 1000 for key, v in AUROC.items() for s in (0, 1)}
    assert values(read_results(f"{WORKBOOKS / 'seeds.xlsx'}#seed 0")) == AUROC
    with pytest.raises(UserError, match="Unknown sheet 'sed 1'. Did you mean 'seed 1'"):
        read_results(f"{WORKBOOKS / 'seeds.xlsx'}#sed 1")
    cells = "".join(
        f'<row><c t="inlineStr"><is><t>{name}</t></is></c><c><v>{number}</v></c></row>'
        for name, number in (("MSP", 91), ("KNN", 92))
    )
    head = "".join(f'<c t="inlineStr"><is><t>{title}</t></is></c>' for title in ("method", "AUC"))
    path = rewritten(tmp_path, "xl/worksheets/sheet2.xml", SHEET % f"<row>{head}</row>{cells}")
    with pytest.raises(UserError, match="sheets 'seed 0', 'seed 1': name one .* t.xlsx#seed 0"):
        read_results(path)
    assert values(read_results(f"{path}#seed 1")) == {
        ("MSP", "outliers"): 0.91,
        ("KNN", "outliers"): 0.92,
    }


@pytest.mark.parametrize(
    ("part", "content", "words"),
    [
        ("xl/worksheets/sheet1.xml", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "entities"),
        ("xl/worksheets/sheet1.xml", "<worksheet", "damaged or encrypted"),
        ("xl/workbook.xml", f"<workbook {MAIN}/>", "has no sheets"),
        ("xl/worksheets/sheet1.xml", SHEET % '<row r="1"><c r="A1"><f>1+1</f></c></row>',
         "Cell A1 in sheet 'seed 0' .* formula without a stored value"),
    ],
)  # fmt: skip
def test_refusals(tmp_path, part, content, words):
    path = rewritten(tmp_path, part, content)
    with pytest.raises(UserError, match=words) as caught:
        read_results(f"{path}#seed 0" if "sheet1" in part else path)
    assert "\n" not in str(caught.value)


def test_files_that_only_seem_to_be_workbooks(tmp_path):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("a.csv", "method,auroc\nMSP,.9\n")
    for name, content, words in (
        ("t.xlsx", b"PK\x03\x04\x00", "is not a workbook, though its name says so"),
        ("t.zip", archive.getvalue(), "is an archive: unpack it"),
        ("t.ods", b"PK", "save it as .xlsx or CSV"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=words):
            read_results(tmp_path / name)
