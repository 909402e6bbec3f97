"""Results files that tests write, read, and what was read of them."""

import json

import pytest

from oodometer.errors import UserError
from oodometer.tables import read_results


def read(tmp_path, content, name="t.csv", columns=""):
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_results(path, columns)


def asked(tmp_path, content, name="t.csv", columns=""):
    with pytest.raises(UserError) as question:
        read(tmp_path, content, name, columns)
    return str(question.value)


def kinds(reading):
    return {factor.name: factor.kind for factor in reading.results[0].factors}


def means(reading):
    return reading.results[0].frame.groupby("detector")["value"].mean().round(3).to_dict()
