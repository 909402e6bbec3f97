"""Text from elsewhere, made safe for screens and pages."""

from __future__ import annotations

import re

# Characters that XML, HTML or a terminal must never receive from a label.
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
# By which a name could turn the rest of a line around: shown, not obeyed.
_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    r"""Return `text` without control characters and surrogates; line breaks are kept.

    Controls of the direction of text are written as their codes.

    >>> clean("a\x1b[31mb"), clean("a\u202eb")
    ('a[31mb', 'a\\u202eb')
    """
    return _DIRECTIONS.sub(lambda sign: f"\\u{ord(sign[0]):04x}", _FORBIDDEN.sub("", text))
