"""Mask: a text of statements, as it may be shown (P10).

A person may write a secret as it is, and an error shows the line that it stands on. What an option has whose
name speaks of a secret, and the login in any URI, are stars here, as many as there were letters: places in
the text stay what they are.
"""

from __future__ import annotations

import re

from calve.config.secret import is_secret_name

_TOKEN = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?\*/)
      | (?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`)
      | (?P<open>(?:/\*|['"`]).*)
      | (?P<word>[^\W\d][\w$.]*)
      | (?P<blank>\s+)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_USERINFO = re.compile(r"(?<=://)[^\s/'\"]+(?=@)")
_IN_QUERY = re.compile(r"([\w.%-]+)=([^&;#\s'\"]+)")
_HARMLESS = ("env:", "file:")
"""How a URL names a secret without showing it."""


def masked(text: str) -> str:
    """The same text, without secrets."""
    masking = _Masking()
    return "".join(map(masking.token, _TOKEN.finditer(text)))


class _Masking:
    """What was read so far of an option."""

    def __init__(self) -> None:
        self._depth = 0
        self._name: list[str] = []
        self._is_value = False

    def token(self, token: re.Match[str]) -> str:
        kind, text = token.lastgroup, token[0]
        match kind:
            case "comment" | "blank":
                return text
            case "open":
                return text[0] + _stars(text[1:])  # nobody knows what of it is a secret
            case "quoted":
                return self._quoted(text)
            case "word":
                return self._word(text)
        return self._mark(text)

    @property
    def _is_secret(self) -> bool:
        return self._depth > 0 and is_secret_name("-".join(self._name))

    def _quoted(self, text: str) -> str:
        hidden = self._is_secret
        if not self._is_value and not self._name:
            self._name = [text[1:-1]]  # the name of an option, or a name
        if hidden:
            return text[0] + _stars(text[1:-1]) + text[-1]
        return _IN_QUERY.sub(_in_query, _USERINFO.sub(lambda login: _stars(login[0]), text))

    def _word(self, text: str) -> str:
        if not self._is_value:
            self._name.append(text)
        elif text.upper() == "SECRET":
            self._name = []  # what follows names one, and shows none
        elif self._is_secret and self._name[-1].upper() != "SECRET":
            return _stars(text)
        return text

    def _mark(self, text: str) -> str:
        if text in "(),;":
            self._depth = 0 if text == ";" else max(0, self._depth + (text == "(") - (text == ")"))
            self._name, self._is_value = [], False
        elif text == "=" and not self._is_value:
            self._is_value = True
        elif self._is_value and self._is_secret:
            return "*"
        return text


def _in_query(found: re.Match[str]) -> str:
    name, value = found.groups()
    shown = value.startswith(_HARMLESS) or not is_secret_name(name)
    return found[0] if shown else f"{name}={_stars(value)}"


def _stars(text: str) -> str:
    """As many, but for line breaks."""
    return re.sub(r"[^\n]", "*", text)
