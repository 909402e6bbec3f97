"""Pages that tests write, read, and the questions that they lead to."""

import pytest

from oodometer.errors import UserError
from oodometer.tables import read_results


def read(tmp_path, text, name="page.md", columns=""):
    file = tmp_path / name.partition("#")[0]
    file.write_text(text, encoding="utf-8")
    return read_results(tmp_path / name, columns)


def asked(tmp_path, text, *options, name="page.md"):
    """Assert that a question names these options, and that each of them is an answer."""
    with pytest.raises(UserError) as caught:
        read(tmp_path, text, name)
    for option in options:
        assert f'--columns "{option}"' in str(caught.value)
        assert read(tmp_path, text, name, option).results
    return str(caught.value)
