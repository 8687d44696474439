"""What must not be said: passwords, in whatever text they turn up.

Two nets. Every password that a project's settings hold is remembered when they are read and taken out of any text by
its value, so it does not matter which characters it has or who quotes it. What looks like a URL with a password, or
like `password=…`, is taken out by its shape, for secrets that nobody told us of.
"""

from __future__ import annotations

import re
from urllib.parse import quote

HIDDEN = "***"
_SURE = 8
"""A secret this long is not part of a message by chance; a shorter one is hidden only where it is a whole word."""

_URL = re.compile(r"(\w+://[^\s:/@]*):\S*@")
_PARAMETER = re.compile(r"(?i)(password\s*=\s*)('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\s&]+)")
_known: set[str] = set()


def remember(secret: str) -> None:
    """From now on this is hidden, also in the forms in which drivers repeat it."""
    forms = (secret, quote(secret, safe=""), " ".join(secret.split()), repr(secret)[1:-1])
    _known.update(form for form in forms if form.strip())


def without_secrets(text: str) -> str:
    """A text in which no secret stands, not even one that somebody else's message quotes."""
    for secret in sorted(_known, key=len, reverse=True):  # the whole before a part of it
        if secret in text:
            text = _pattern(secret).sub(HIDDEN, text)
    text = _URL.sub(rf"\1:{HIDDEN}@", text)
    return _PARAMETER.sub(rf"\1{HIDDEN}", text)


def _pattern(secret: str) -> re.Pattern[str]:
    if len(secret) >= _SURE:
        return re.compile(re.escape(secret))
    before = r"(?<!\w)" if secret[0].isalnum() else ""
    after = r"(?!\w)" if secret[-1].isalnum() else ""
    return re.compile(before + re.escape(secret) + after)
