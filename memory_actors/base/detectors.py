"""Detectors of secrets and personal data in a text, each with a name.

A detector reads a text only where a hint is: a literal in the lowered text, or a digit of a longer
number. Most texts have none, so they cost a few microseconds. Quantifiers are bounded where a match
may fail behind them, so a long text takes linear time. `accepted` verifies check digits.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple

Check = Callable[[str], int]
"""Return how many characters of a match are what was looked for; 0: none of them."""
NUMBER: Final = re.compile(r"[+(0-9](?:[ .()/-]{0,3}[0-9]){3,}")


class Detector(NamedTuple):
    """One form of sensitive text."""

    label: str
    """Group and name, such as `secret:aws-key`."""
    hints: tuple[str, ...]
    """Lowered literals, one of which begins a match; none: a digit of a longer number does."""
    pattern: str
    """The group `it` is the sensitive part; without that group, the whole match is."""
    accepted: Check = len
    anywhere: bool = False
    """True: a match is searched in the whole text, if that has a hint."""

    @property
    def name(self) -> str:
        """Its name in settings."""
        return self.label.rpartition(":")[2]

    def spans(self, text: str, lowered: str, numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield where the text has this form. See `lowered_each` and `numbers_in`."""
        pattern = _compiled(self.pattern)
        part = "it" if "it" in pattern.groupindex else 0
        for match in self._matches(pattern, text, lowered, numbers):
            size = self.accepted(match[part])
            if size:
                yield match.start(part), match.start(part) + size

    def _matches(
        self, pattern: re.Pattern[str], text: str, lowered: str, numbers: Sequence[int]
    ) -> Iterator[re.Match[str]]:
        if self.anywhere:
            yield from pattern.finditer(text)
            return
        for at in () if self.hints else numbers:
            if (match := pattern.match(text, at)) is not None:
                yield match
        for hint in self.hints:
            at = lowered.find(hint)
            while at >= 0:
                end = at + 1
                if (match := pattern.match(text, at)) is not None:
                    yield match
                    end = max(end, match.end())
                at = lowered.find(hint, end)


def numbers_in(text: str) -> list[int]:
    """Return where each part of a longer number begins."""
    return [
        at
        for match in NUMBER.finditer(text)
        for at in range(*match.span())
        if not text[at - 1 : at].isdigit()
    ]


def lowered_each(text: str) -> str:
    """Return a text with its letters lowered, in as many characters."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(one.lower() if one.isascii() else one for one in text)


_compiled = cache(re.compile)


# --- check digits


def _card(text: str) -> int:
    """Accept a card number by its issuer's prefix, its length and its check digit (Luhn)."""
    digits = re.sub(r"\D", "", text)
    doubled = (int(one) * 2 for one in digits[-2::-2])
    total = sum(map(int, digits[::-2])) + sum(one - 9 * (one > 9) for one in doubled)
    return len(text) if CARD.fullmatch(digits) and total % 10 == 0 else 0


CARD: Final = re.compile(
    r"4\d{12}(?:\d{3}){0,2}|(?:5[1-5]|2[2-7])\d{14}|3[47]\d{13}|3[0689]\d{12}"
    r"|(?:6011|6[25]\d\d|64[4-9]\d|35\d\d)\d{12,15}"
)
"""Visa, Mastercard, American Express, Diners, Discover, UnionPay, JCB."""


def _iban(text: str) -> int:
    """Accept an IBAN by the length in its country and its check digits (mod 97)."""
    ends = [end for end, one in enumerate(text, 1) if one.isalnum()]
    length = int(IBAN_LENGTHS.get(text[:2], 0))
    if not 0 < length <= len(ends) or text[ends[length - 1] :][:1].isalnum():
        return 0
    end = ends[length - 1]
    plain = re.sub(r"[ -]", "", text[:end])
    number = "".join(str(int(one, 36)) for one in plain[4:] + plain[:4])
    return end if int(number) % 97 == 1 else 0


IBAN_LENGTHS: Final = dict(
    re.findall(
        r"(\D\D)(\d\d)",
        "AD24AE23AL28AT20AZ28BA20BE16BG22BH22BR29BY28CH21CR22CY28CZ24DE22DK18DO28EE20EG29ES24FI18FO18"
        "FR27GB22GE22GI23GL18GR27GT28HR21HU28IE22IL23IQ23IS26IT27JO30KW30KZ20LB28LC32LI21LT20LU20LV21"
        "LY25MC27MD24ME22MK19MR27MT31MU30NL18NO15PK24PL28PS29PT25QA29RO24RS22SA24SC31SE24SI19SK24SM27"
        "SV28TL23TN24TR26UA29VA22VG24XK20",
    )
)


def _host(text: str) -> int:
    """Accept an IP address; one of this host itself (loopback, unspecified) names nobody."""
    from ipaddress import ip_address  # 3 ms that most programs do not need

    text = text if text.endswith("::") else text.rstrip(":")
    try:
        address = ip_address(text)
    except ValueError:
        return 0
    return 0 if address.is_loopback or address.is_unspecified else len(text)


def _digits(least: int, most: int) -> Check:
    return lambda text: len(text) * (least <= sum(map(str.isdigit, text)) <= most)


def _value(text: str) -> int:
    """Accept a value that is no placeholder, and not the name of a variable."""
    plain = text.rstrip(".,;:?)")
    return 0 if PLACEHOLDER.fullmatch(plain.strip("*<>")) else len(plain)


PLACEHOLDER: Final = re.compile(
    r"(?i:|none|null|true|false|string|text|passw(?:or)?d|secret|token|required|optional|hidden"
    r"|changeme|your[_-]\w+(?:-\w+)*|undefined|number|integer|boolean)"
)

# --- forms

_NAMES: Final = (
    "passw", "pwd", "passphrase", "passcode", "secret", "token", "credential", "api", "access",
    "auth", "account", "encryption", "signing",
)  # fmt: skip
_NAMED: Final = (
    r"(?i:(?<!\[)(?:passw(?:or)?d|passwd|pwd|passphrase|passcode|secret|token|credentials?|"
    r"(?:api|access|auth|account|encryption|signing|secret)[_ -]?key))"
)
_PHONE_WORDS: Final = (
    "tel", "phone", "mobil", "cell", "fax", "whatsapp", "handy", "call", "text", "sms",
)  # fmt: skip
_PHONE_WORD: Final = (
    r"(?i:\b(?:tel|tele?phone|phone|mobile|cell|fax|whatsapp|handy|telefon|mobil|call|text|sms)"
    r"(?:[ _](?:number|nummer|nr|no|me|him|her|us|them|at|on|is))*)"
)


_SERVICES: Final = r"""
age-key AGE-SECRET-KEY-1[0-9A-Z]{50,}
airtable-key pat[A-Za-z0-9]{14}\.[0-9a-f]{64}
anthropic-key sk-ant-[\w-]{20,}
atlassian-token ATATT3[\w=-]{50,}
aws-key AKIA[A-Z0-9]{16} ASIA[A-Z0-9]{16} ABIA[A-Z0-9]{16} ACCA[A-Z0-9]{16}
databricks-token dapi[0-9a-f]{32}(?:-\d)?
digitalocean-token do[opr]_v1_[0-9a-f]{64}
github-token gh[pousr]_[A-Za-z0-9]{36,} github_pat_\w{22,}
gitlab-token gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat)-[\w-]{20,}
google-key AIza[\w-]{35} GOCSPX-[\w-]{28} ya29\.[\w-]{20,}
grafana-token glsa_[A-Za-z0-9]{32}_[0-9a-f]{8} glc_[A-Za-z0-9+/=]{32,}
groq-key gsk_[A-Za-z0-9]{48,}
huggingface-token hf_[A-Za-z0-9]{30,}
jwt eyJ[\w-]{8,1000}+\.eyJ[\w-]{8,8000}+\.[\w-]{8,}
linear-key lin_api_[A-Za-z0-9]{40}
mailgun-key key-[0-9a-z]{32}
newrelic-key NR(?:AK|JS|II)-[A-Za-z0-9-]{19,}
notion-token ntn_[A-Za-z0-9]{40,} secret_[A-Za-z0-9]{40,}
npm-token npm_[A-Za-z0-9]{36}
openai-key sk-(?!ant-|or-)[\w-]{20,}
openrouter-key sk-or-[\w-]{20,}
perplexity-key pplx-[A-Za-z0-9]{40,}
postman-key PMAK-[0-9a-f]{24}-[0-9a-f]{34}
pypi-token pypi-AgE[\w-]{50,}
replicate-token r8_[A-Za-z0-9]{37}
sendgrid-key SG\.[\w-]{22}\.[\w-]{43}
shopify-token shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}
slack-token xox[abeoprs]-[\w-]{10,} xapp-[\w-]{20,} https://hooks\.slack\.com/\w+/\w+/\w+/\w{16,}
square-token sq0(?:atp|csp|idp)-[\w-]{22,}
stripe-key sk_(?:live|test)_[A-Za-z0-9]{16,} rk_(?:live|test)_[A-Za-z0-9]{16,} whsec_[\w+/=]{24,}
supabase-key sbp_[0-9a-f]{40} sb_secret_[\w-]{20,}
twilio-key AC[0-9a-f]{32} SK[0-9a-f]{32}
vault-token hv[sb]\.[\w-]{24,}
xai-key xai-[A-Za-z0-9]{60,}
"""
"""The names of keys, and their published forms; the letters that a form begins with are a hint."""


def _services() -> Iterator[Detector]:
    for name, *forms in map(str.split, _SERVICES.strip().splitlines()):
        hints = [re.match(r"(?:[\w:/-](?![{?]))+", form) for form in forms]
        whole = rf"(?<![A-Za-z0-9])(?:{'|'.join(forms)})(?![A-Za-z0-9])"
        yield Detector(f"secret:{name}", tuple(one[0].lower() for one in hints if one), whole)


PRIVATE: Final = Detector(
    "private", ("<private>", "</private>"),
    r"(?is)(?:<private>|\A(?:(?!<private>).)*(?=</private>)).*?(?:</private>|\Z)", anywhere=True,
)  # fmt: skip
"""A marked block, also one whose beginning or end was cut off."""
SECRETS: Final = (
    Detector("secret:private-key", ("private key",),
             r"(?s)(?:-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\A(?:(?!-----BEGIN).)*"
             r"(?=-----END [A-Z ]*PRIVATE KEY)).*?(?:-----END [A-Z ]*PRIVATE KEY[A-Z ]*-----|\Z)",
             anywhere=True),
    *_services(),
    Detector("secret:telegram-token", (":aa",),
             r"(?<![A-Za-z0-9])[0-9]{8,10}:AA[\w-]{33}(?![\w-])", anywhere=True),
    Detector("secret:authorization", ("bearer ", "basic "),
             r"(?i:\b(?:bearer|basic))\s+(?P<it>(?=[\w+/.~-]{0,200}[0-9])[\w+/.~-]{16,}=*)"),
    Detector("secret:url-password", ("://",),
             r"://[^\s/:@]{0,200}:(?P<it>(?![\[{$<])[^\s/@]{3,200})@", _value),
    Detector("secret:password", _NAMES,
             _NAMED + r"[\"']?\s{0,3}(?:=>|:=|[:=]{1,2})\s{0,3}[\"'`](?P<it>[^\"'`\s\[{$<]"
             r"[^\"'`\s]{3,200})[\"'`]", _value),
    Detector("secret:password", _NAMES,
             _NAMED + r"\s{0,3}(?:=>|:=|[:=]{1,2})\s{0,3}(?P<it>(?=[^\s\"'`]{0,200}[0-9])"
             r"[^\s\"'`,;<>\[\](){}$/|]{6,200}(?!\())", _value),
    Detector("secret:password", ("passw", "passphrase", "passcode", "pin"),
             r"(?i:\b(?:password|passphrase|passcode|pin(?: code)?)"
             r"(?: for [\w .-]{1,40}?)? (?:is|was)(?: now)?:?) [\"'`]?"
             r"(?P<it>(?=[^\s\"'`]{0,60}[0-9@!#%^&*_+])[^\s\"'`\[<{$]{4,60})", _value),
)  # fmt: skip
PERSONAL: Final = (
    Detector("personal:card", (), r"(?<![\w.+-])[2-6][0-9](?:[ -]?[0-9]){11,17}(?![\w-])", _card),
    Detector("personal:iban", (), r"[A-Z]{2}(?<!\w..)[0-9]{2}(?:[ -]?[A-Z0-9]){11,30}", _iban,
             anywhere=True),
    Detector("personal:email", ("@",),
             r"(?<![\w.+-])(?:(?<!:)|(?i:(?<=to:)|(?<=mail:)|(?<=from:)|(?<=cc:)|(?<=address:)))"
             r"(?!git@)[\w.+'-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}"
             r"(?![\w-])", anywhere=True),
    Detector("personal:phone", (),
             r"(?<![\w+.-])(?:\+|00(?=[1-9][0-9]{0,2}[ ./-]))[1-9](?:[ .()/-]{0,3}[0-9]){6,14}"
             r"(?![\w-]|[.:][0-9])", _digits(7, 17)),
    Detector("personal:phone", (),
             r"(?<![\w.+/-])(?:1[ .-])?(?:\([2-9][0-9]{2}\)[ -]?|[2-9][0-9]{2}[.-])"
             r"[2-9][0-9]{2}[ .-][0-9]{4}(?![\w-]|\.[0-9])"),
    Detector("personal:phone", (),
             r"(?<![\w.,+/-])(?:(?:\(0[1-9][0-9]{1,4}\)|0[1-9][0-9]{1,4})[ /-]{1,3}[0-9]{2,4}"
             r"(?:[ -]?[0-9]{2,4}){1,3}|0[1-9](?P<gap>[ .])[0-9]{2}(?:(?P=gap)[0-9]{2}){3})"
             r"(?![\w-]|[.,][0-9])", _digits(9, 12)),
    Detector("personal:phone", _PHONE_WORDS,
             _PHONE_WORD + r"[\"' .:=#]{1,5}(?P<it>[(+]?[0-9](?:[ .()/-]{0,2}[0-9]){6,14})"
             r"(?![\w-])", _digits(7, 15)),
    Detector("personal:host", (), r"(?<![\w.-])(?<!version )(?<!release )(?:[0-9]{1,3}\.){3}"
             r"[0-9]{1,3}(?![\w-]|\.[0-9])", _host),
    Detector("personal:host", ("::", ":0", ":db8"),
             r"(?<![\w:.])(?=[0-9A-Fa-f:]{0,38}[0-9])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}"
             r"(?!\w)", _host, anywhere=True),
)  # fmt: skip
GROUPS: Final[dict[str, Sequence[Detector]]] = {
    "secrets": (PRIVATE, *SECRETS),
    "personal": (PRIVATE, *PERSONAL),
}
"""The detectors by the names of their groups."""
