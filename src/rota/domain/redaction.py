r"""Cleans the text that handlers and clients send: errors, log lines, progress messages.

One pass escapes what a database or a terminal must not see, then takes out stack traces, secrets
and paths, then cuts. The order matters: a secret is found before a cut could halve it.

Every step is linear in the text: each pattern consumes what it has scanned, or looks ahead by a
bounded number of characters, and is tried only where one of its literals stands. Cleaning is a net,
not a proof: it finds secrets that have a known shape or a telling name beside them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import NamedTuple

from rota.domain.stack_traces import without_stack_traces

MAX_BYTES = 65_536
"""The most bytes ever returned."""

SECRET = "[secret]"  # noqa: S105 - the mark that stands for one
PATH = "[path]"
CUT = " …[cut]"
_MARKS = (SECRET, PATH, "[stack trace]")
_ROUNDS = 6
_LEAST_WINDOW = 2_048
_OVERLAP = 8_192
_DENSE = 8
"""With a literal in every so many characters, the engine's own search is quicker than single tries."""


def clean(text: str, limit_bytes: int) -> str:
    r"""``text`` without secrets, paths and stack traces, in at most ``limit_bytes`` of UTF-8.

    U+0000, lone surrogates and control characters other than newline and tab become visible as
    ``\u0000``. Only the characters of ``window(limit_bytes)`` are looked at. A shortened text ends in a
    mark. Never raises, and ``clean(clean(x, n), n) == clean(x, n)``.
    """
    steps = cleaning(text, limit_bytes)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            cleaned: str = end.value
            return cleaned


def cleaning(text: str, limit_bytes: int) -> Generator[None, None, str]:
    """What ``clean`` does, in steps of at most a few milliseconds."""
    limit = max(0, min(limit_bytes, MAX_BYTES))
    for _ in range(_ROUNDS):
        cleaned = yield from _clean_once(text, limit)
        if cleaned == text:
            return cleaned
        text = cleaned
    # Text built to reveal something new after each replacement is not shown at all.
    return SECRET if limit >= len(SECRET) else ""


def window(limit_bytes: int) -> int:
    """How many characters are looked at for an answer of so many bytes."""
    return max(_LEAST_WINDOW, limit_bytes + min(limit_bytes, _OVERLAP))


def cut(text: str, characters: int) -> str:
    """``text`` itself, or its beginning up to a blank, with the mark; at most ``characters`` long."""
    if len(text) <= characters:
        return text
    room = characters - len(CUT)
    return CUT[:characters] if room <= 0 else _head(text, room) + CUT


def _clean_once(text: str, limit: int) -> Generator[None, None, str]:
    body = text.removesuffix(CUT)
    shortened = len(body) < len(text)
    most = window(limit)
    if len(body) > most:
        body, shortened = _head(body, most), True
    body = body.replace("\r\n", "\n")
    if _UNSAFE.search(body):
        body = body.translate(_ESCAPES)
    if len(body) > most:
        body, shortened = _head(body, most), True
    body = without_stack_traces(body)
    lowered = _lowered(body)
    for rule in RULES:
        yield
        replaced = rule.replaced(body, lowered)
        if replaced != body:
            body, lowered = replaced, _lowered(replaced)
    encoded = body.encode()
    if not shortened and len(encoded) <= limit:
        return body
    room = limit - len(CUT.encode())
    if room < 0:
        return encoded[:limit].decode(errors="ignore") if limit < len(encoded) else body
    if len(encoded) > room:
        body = _without_partial_mark(encoded[:room].decode(errors="ignore"))
    return body + CUT


def _head(text: str, most: int) -> str:
    """At most so many characters, back to a blank, so that no secret is left in half."""
    start = most - most // 16
    blank = max(text.rfind(" ", start, most), text.rfind("\n", start, most))
    return text[: blank if blank > 0 else start]


def _lowered(text: str) -> str:
    """In lower case and as long: U+0130 alone would become two characters."""
    return text.replace("\u0130", "i").lower()


def _without_partial_mark(text: str) -> str:
    start = text.rfind("[")
    rest = text[start:] if start >= 0 else ""
    if rest and any(mark.startswith(rest) and mark != rest for mark in _MARKS):
        return text[:start]
    return text


# ── characters ────────────────────────────────────────────────────────────────────────────────
# Controls but \n and \t, line and paragraph separators, bidi controls, surrogates.
_UNSAFE = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]"
)


_ESCAPES = {
    code: f"\\u{code:04x}"
    for code in (*range(0x100), *range(0x2028, 0x206A), *range(0xD800, 0xE000))
    if _UNSAFE.match(chr(code))
}


# ── secrets that a scheme, header or shape gives away ─────────────────────────────────────────
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?!-----END)[A-Za-z0-9+/=\s\\:,-])*+(?:-----END [A-Z0-9 ]{0,60}-----)?"
)

# The whole userinfo of a URL. In web addresses it ends before the first / ? #, unless a password
# holds one of these; elsewhere (databases, brokers) passwords often do, so the last @ counts.
_WEB = (
    r"(?:(?<=http://)|(?<=https://)|(?<=ws://)|(?<=wss://)|(?<=ftp://)|(?<=ftps://)|(?<=git://)|(?<=ssh://))"
)
_WEB_USERINFO = re.compile(rf'://{_WEB}([^\s/?#"<>]*+)', re.IGNORECASE)
_WEB_USERINFO_ODD = re.compile(
    rf"""://{_WEB}[^\s/?#"'<>@:\[\]]{{0,128}}:(?!\d{{1,5}}(?:[/?#\s"']|$))[^\s"@<>]{{1,256}}@""",
    re.IGNORECASE,
)
_OTHER_USERINFO = re.compile(rf'://(?!{_WEB})([^\s"<>]*+)', re.IGNORECASE)
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]{2,45}\])?[^\s\"'<>()\[\]{}|`]*+")
_GO_DSN = re.compile(r"""(?<![^\s"'=])[^\s"'=]*@(?=(?:tcp6?|unix)\()""")
_ORACLE = re.compile(r"(jdbc:oracle:\w{1,8}:)[^\s@]{1,256}@", re.IGNORECASE)


def _userinfo(found: re.Match[str]) -> str:
    rest = found[1]
    at = rest.rfind("@")
    return found[0] if at < 0 else f"://{SECRET}{rest[at:]}"


def _connection(found: re.Match[str]) -> str:
    """Who opens it, where and what: nothing of a connection string with userinfo is shown."""
    rest = found[1]
    at = rest.rfind("@")
    if at < 0:
        return found[0]
    host = _HOST.match(rest, at + 1)
    end = len(rest[: host.end()].rstrip(",.;:!?")) if host else len(rest)
    return f"://{SECRET}{rest[max(at + 1, end) :]}"


_HEADER = re.compile(
    r"""((?:authorization|cookie)\\?["']?(?:[ \t]{0,8}[:=]|(?<=["']),)[ \t]{0,8}(?:b(?=["']))?(?:\\?["'])?)"""
    r"""[^\s"'\\](?:="[^"\n]*+"|[^"'\\\n])*+""",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b(bearer[ \t]{1,8})(?=[^\s\d]{0,200}\d|\S{20})[A-Za-z0-9._~+/=-]{6,}+", re.IGNORECASE)
_BASIC = re.compile(
    r"\b([Bb]asic|BASIC)[ \t]{1,8}(?=[A-Za-z+/_-]{0,200}[\d=]|\w{0,200}[a-z][A-Z])[A-Za-z0-9+/=_-]{6,}+"
)
_CURL_USER = re.compile(r"(?<!\S)(-u|--user|--proxy-user)([ \t=]{1,4})['\"]?[^\s:'\"]{1,64}:\S++")

# -p with its value in one word, where mysql or mariadb stands before it in the line.
_SHORT_PASSWORD = re.compile(r"""(?<![\w-])-p('[^'\n]++'|"[^"\n]++"|[^\s'",.;:)][^\s'"]*+)""")
_CLIENTS = ("mysql", "mariadb")
_COMMAND = 1_024


def _short_password(found: re.Match[str]) -> str:
    text, end = found.string, found.start()
    start = max(text.rfind("\n", 0, end) + 1, end - _COMMAND)
    named = any(text.find(client, start, end) >= 0 for client in _CLIENTS)
    return f"-p{SECRET}" if named else found[0]


_SHAPES = re.compile(
    r"rota_[a-z0-9]{12}_[A-Za-z0-9]{6,}+"
    r"|eyJ[A-Za-z0-9_-]{12,}+(?:\.[A-Za-z0-9_-]*+){0,4}"  # JSON in base64: JWT, JWE
    r"|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16,}+"  # AWS key ids
    r"|gh[pousr]_[A-Za-z0-9]{16,}+|github_pat_\w{20,}+|gl(?:pat|ptt|dt|rt|ft|soat|cbt|agent)-[\w-]{18,}+"
    r"|xox[a-z]-[\w-]{10,}+|xapp-[\w-]{10,}+|hooks\.slack\.com/services/[\w/]++|/api/webhooks/\d[\w/-]++"
    r"|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}+|whsec_[A-Za-z0-9+/=]{16,}+"  # Stripe
    r"|AIza[\w-]{30,}+|ya29\.[\w-]{16,}+|GOCSPX-[\w-]{16,}+"  # Google
    r"|(?<![A-Za-z0-9])sk-[\w-]{20,}+"  # OpenAI, Anthropic and their like
    r"|(?<![A-Za-z0-9])(?:hf_|npm_|r8_)[A-Za-z0-9]{20,}+|pypi-[\w-]{30,}+|dop_v1_[a-f0-9]{32,}+"
    r"|(?<![A-Za-z0-9])SG\.[\w-]{16,}+(?:\.[\w-]++)?|shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{24,}+"
    r"|hv[sbr]\.[\w-]{20,}+|AGE-SECRET-KEY-1[A-Z0-9]{20,}+"
)
_BOT_TOKEN = re.compile(r"(?<!\d)\d{8,10}:AA[\w-]{30,}+")  # Telegram

# ── secrets that stand beside a telling name ──────────────────────────────────────────────────
_NAME = (
    r"(?:pass(?:word|wd|phrase|code)s?|passwort|(?<![a-z])pwd?(?=[=:\"'])|(?<![a-z])pass(?=[=\"']|:(?!\d{1,6}\b)\S)"
    r"|(?!(?<=[\s/:='\"-]\[)secret\])secrets?|credentials?|(?<!nexpected )token"
    r"|(?:api|access|private|account|auth|encryption|signing|master|storage)[ _-]?keys?"
    r"|signature|(?<=[?&])(?:sig|key|auth)|(?<![a-z])session[_-]?id|(?<![a-z])otp|密码|密碼|口令|密钥|密鑰|令牌)"
    r"(?:[_-]?(?:key|value|hash|string|base64|provided)|[_-]?\d{1,3}| provided)?"
)
# What may follow a name without being its value: words of an error message, empty and no values.
_NO_VALUE = (
    r"(?!(?:none|null|nil|true|false|undefined|yes|no|must|should|may|can|cannot|could|is|are|was"
    r"|has|not|required|missing|invalid|expired|incorrect|wrong|unexpected|unknown|unauthorized"
    r"|expected|field|string|str|bytes|too|the|this|at|in|for|value|length)\b(?![=:/@#$%&*+-]))"
)
_QUOTED = r""""(?:\\.|[^"\\\n])++"?|'(?:\\.|[^'\\\n])++'?"""
_VALUE = (
    r"""\\+"(?:[^"\\\n]|\\(?!"))++(?:\\+")?"""  # within JSON within JSON
    rf"|[bruBRU]{{0,2}}(?:{_QUOTED})++"
    r"|(?:\[[^\]\n]*+\]?|\{[^}\n]*+\}?|[\w.]{0,40}\([^)\n]*+\)?)?+"  # a list, a dict, a call
    r"""(?:[^\s"&;,<]|[;,&](?!\s|$|["']|[A-Za-z][\w %.\[\]-]{0,40}=))*+"""
)
_SEPARATOR = r"(?:[ \t]{0,8}(?:=>|->|:=|={1,3}|[:\uff1a]|%3D)[ \t]{0,8}+|>(?=\S))"
_NAMED = re.compile(rf"""({_NAME}\\*["']?\]?{_SEPARATOR}){_NO_VALUE}({_VALUE})""", re.IGNORECASE)
_FLAG = re.compile(
    rf"""((?<![\w-])--[\w-]{{0,40}}{_NAME}["']?,?[ \t]{{1,8}})(?!-)({_VALUE})""", re.IGNORECASE
)
# "password 'x'", "password is x1": a quoted word, or one of letters and digits.
_MIXED = r"(?=[^\s\d]{0,64}\d)(?=[^\sA-Za-z]{0,64}[A-Za-z])[^\s\"',;]{6,}+"
_AFTER = re.compile(
    rf"((?<![\"'\w]){_NAME}[ \t]{{1,4}}(?:(?:is|was|of)[ \t]{{1,4}})?)({_QUOTED}|{_MIXED})", re.IGNORECASE
)


def _named(found: re.Match[str]) -> str:
    value = found[2]
    if not value.strip("\"'\\"):
        return found[0]
    lead = re.match(r"\\*[\"']|[bruBRU]{1,2}(?=[\"'])", value)
    if lead is None:
        return found[1] + SECRET
    quote = value.lstrip("bruBRU")[: 1 if value[0] != "\\" else len(lead[0])]
    return f"{found[1]}{quote}{SECRET}{quote if value.endswith(quote) else ''}"


# ── paths ─────────────────────────────────────────────────────────────────────────────────────
_ROOTS = (
    r"(?:bin|boot|dev|etc|home|lib|lib64|media|mnt|opt|proc|root|run|sbin|srv|sys|tmp|usr|var"
    r"|Users|Volumes|Library|Applications|private)"
)
_SEGMENT = r"(?:\\ |[\w.@%+~=#$!-])++"
_QUOTED_PATH = re.compile(
    rf"""(?<=')(?:/{_ROOTS}\b|~[\w.-]{{0,32}}/|[A-Za-z]:[\\/]|\\\\[\w.$-]{{1,64}}\\)[^'\n]*+"""
    rf"""|(?<=")(?:/{_ROOTS}\b|~[\w.-]{{0,32}}/|[A-Za-z]:[\\/]|\\\\[\w.$-]{{1,64}}\\)[^"\n]*+"""
)
_ANY_PATH = re.compile(
    r"(?P<file>(?<![A-Za-z0-9])(?:jar:)?(?:file|sqlite|unix)(?:\+\w{1,20})?:/{1,4}[^\s\"'<>]++)"
    r"|(?P<url>://[^\s\"'<>]*+)"
    r"|(?<![A-Za-z0-9])[A-Za-z]:[\\/]++(?:[^\\/:*?\"'<>|\n]{1,255}[\\/]++)*+[^\s\\/:*?\"'<>|,;()]*+"
    r"|(?<![\w\\])(?:\\{2}[\w.$-]++(?:\\[\w.$-]++)++|\\{4}[\w.$-]++(?:\\{2}[\w.$-]++)++)"
    r"|(?<!GET )(?<!POST )(?<!PUT )(?<!PATCH )(?<!DELETE )(?<!HEAD )"
    rf"(?:(?<![\w/])~[\w.-]{{0,32}}(?:/{_SEGMENT})++/?"
    rf"|(?<![\w./~\]*-])/(?:{_ROOTS}(?![\w.-])(?:/{_SEGMENT})*+/?"
    rf"|{_SEGMENT}(?:(?:/{_SEGMENT})++/?|(?<=[^/]\.\w)|(?<=\.\w\w)|(?<=\.\w\w\w)|(?<=\.\w\w\w\w))))"
)


def _path(found: re.Match[str]) -> str:
    return found[0] if found["url"] else PATH


class _Rule(NamedTuple):
    """One replacement. A match can only begin at one of the literals (in lower case), or so far from it."""

    pattern: re.Pattern[str]
    replacement: str | Callable[[re.Match[str]], str]
    literals: tuple[str, ...]
    offsets: tuple[int, ...] = (0,)
    """Where the match begins, seen from the literal. Empty: anywhere in a text that has a literal."""

    def replaced(self, text: str, lowered: str) -> str:
        """What ``pattern.sub`` makes of the text, without its search of every character."""
        found = [literal for literal in self.literals if literal in lowered]
        if not found:
            return text
        tries = sum(map(lowered.count, found)) * len(self.offsets)
        if not self.offsets or tries > len(text) // _DENSE:
            return self.pattern.sub(self.replacement, text)
        return self._tried(text, sorted(self._places(lowered, found)))

    def _places(self, lowered: str, literals: list[str]) -> set[int]:
        places = set()
        for literal in literals:
            at = lowered.find(literal)
            while at >= 0:
                places.update([max(0, at + offset) for offset in self.offsets])
                at = lowered.find(literal, at + 1)
        return places

    def _tried(self, text: str, places: list[int]) -> str:
        parts: list[str] = []
        done = 0
        for place in places:
            if place >= done and (found := self.pattern.match(text, place)):
                replacement = self.replacement
                new = found.expand(replacement) if isinstance(replacement, str) else replacement(found)
                parts += (text[done:place], new)
                done = found.end()
        return "".join([*parts, text[done:]]) if parts else text


_NAMES = (
    *("pass", "pw", "secret", "credential", "token", "api", "access", "private", "account", "auth"),
    *("encryption", "signing", "master", "storage", "sig", "key", "session", "otp", "密", "口令", "令牌"),
)
_PREFIXES = (
    *("rota_", "eyj", "akia", "asia", "abia", "acca", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    *("glpat-", "glptt-", "gldt-", "glrt-", "glft-", "glsoat-", "glcbt-", "glagent-", "xox", "xapp-"),
    *("hooks.slack.com/", "/api/webhooks/", "sk_", "rk_", "pk_", "whsec_", "aiza", "ya29.", "gocspx-"),
    *("sk-", "hf_", "npm_", "r8_", "pypi-", "dop_v1_", "sg.", "shp", "hvs.", "hvb.", "hvr.", "age-secret"),
)
RULES = (
    _Rule(_PRIVATE_KEY, SECRET, ("private key",), ()),
    _Rule(_WEB_USERINFO, _userinfo, ("://",)),
    _Rule(_WEB_USERINFO_ODD, f"://{SECRET}@", ("://",)),
    _Rule(_OTHER_USERINFO, _connection, ("://",)),
    _Rule(_GO_DSN, f"{SECRET}@", ("@tcp", "@unix"), ()),
    _Rule(_ORACLE, rf"\1{SECRET}@", ("jdbc:oracle:",)),
    _Rule(_HEADER, rf"\1{SECRET}", ("authorization", "cookie")),
    _Rule(_BEARER, rf"\1{SECRET}", ("bearer",)),
    _Rule(_BASIC, rf"\1 {SECRET}", ("basic",)),
    _Rule(_SHAPES, SECRET, _PREFIXES),
    _Rule(_BOT_TOKEN, SECRET, (":aa",), (-10, -9, -8)),
    _Rule(_NAMED, _named, _NAMES),
    _Rule(_FLAG, _named, ("--",)),
    _Rule(_AFTER, _named, _NAMES),
    _Rule(_CURL_USER, rf"\1\2{SECRET}", ("-u", "--user", "--proxy-user")),
    _Rule(_SHORT_PASSWORD, _short_password, ("-p",)),
    _Rule(_QUOTED_PATH, PATH, ("'", '"'), (1,)),
    _Rule(_ANY_PATH, _path, ("/", ":/", ":\\", "\\\\", "~", "file", "sqlite", "unix", "jar:"), (-1, 0)),
)
