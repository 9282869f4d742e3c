"""What redaction finds: precision, recall and time over 500 texts that are made here.

Every value is made of random characters at run time, with valid check digits, so that scanners of
secrets find none in this file. Half of the texts have sensitive parts; the others look like it:
ids, digests, versions, dates, sums, code, placeholders, numbers with wrong check digits. A part
counts as found if what is masked is exactly it.
"""

import random
import string
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter_ns
from typing import Final, NamedTuple

from bench.report import Options, Report, Table, facts, scratch
from memory_actors.base.redaction import Found, Redactor

TEXTS, SEED = 500, 41
PRECISION_MIN, RECALL_MIN, MS_MAX = 0.97, 0.95, 0.1
TIMED_CHARACTERS, TIMINGS = 500, 9

ALNUM = string.ascii_letters + string.digits
HEX, UPPER = "0123456789abcdef", string.ascii_uppercase + string.digits


class Text(NamedTuple):
    """A text, and its sensitive parts with their labels."""

    said: str
    parts: Sequence[tuple[str, str]] = ()


def run(options: Options) -> Report:
    """Score the detectors over the texts."""
    texts = made(options.seed if options.seed != 1 else SEED)
    redactor, found = Redactor("secrets,personal"), Counter[tuple[str, str]]()
    wrong = list[Sequence[str]]()
    for text in texts:
        for kind, label, part in judged(text, redactor.found(text.said)):
            found[kind, label] += 1
            if kind != "found":
                wrong.append((kind, label, part, text.said[:100]))
    labels = sorted({label for _, label in found})
    total = {kind: sum(found[kind, one] for one in labels) for kind in ("found", "missed", "false")}
    precision = total["found"] / (total["found"] + total["false"])
    recall = total["found"] / (total["found"] + total["missed"])
    secrets_ms, all_ms = (
        time_ms(Redactor(names), texts) for names in ("secrets", "secrets,personal")
    )
    with scratch(options) as directory:
        about = facts(directory, options, (), texts=len(texts))
    return Report(
        "redaction",
        about,
        [
            Table(
                "Scores",
                ["texts", "parts", "precision", "recall", "ms secrets", "ms all"],
                [[len(texts), total["found"] + total["missed"], round(precision, 3),
                  round(recall, 3), round(secrets_ms, 3), round(all_ms, 3)]],
            ),
            Table(
                "Labels",
                ["label", "found", "missed", "false"],
                [[one, *(found[kind, one] for kind in total)] for one in labels],
            ),
            Table("Errors", ["kind", "label", "part", "text"], wrong),
        ],
        [f"Times are of texts of {TIMED_CHARACTERS} characters; the goal is {MS_MAX} ms."],
        ok=precision >= PRECISION_MIN and recall >= RECALL_MIN,
    )  # fmt: skip


def judged(text: Text, found: Sequence[Found]) -> Iterator[tuple[str, str, str]]:
    """Yield (found, missed or false; label; part) for each part that is there, or was found."""
    wanted = list(text.parts)
    for start, end, label in found:
        part = text.said[start:end]
        match = next((one for one in wanted if one == (label, part)), None)
        if match is None:
            yield "false", label, part
        else:
            wanted.remove(match)
            yield "found", label, part
    for label, part in wanted:
        yield "missed", label, part


def time_ms(redactor: Redactor, texts: Sequence[Text]) -> float:
    """Return the median time of a text of 500 characters, made of those without sensitive parts."""
    plain = " ".join(one.said for one in texts if not one.parts)
    some = [
        plain[at : at + TIMED_CHARACTERS]
        for at in range(0, len(plain) - TIMED_CHARACTERS, TIMED_CHARACTERS)
    ]
    times = []
    for text in some:
        each = []
        for _ in range(TIMINGS):
            started = perf_counter_ns()
            redactor.found(text)
            each.append(perf_counter_ns() - started)
        times.append(min(each))
    return sorted(times)[len(times) // 2] / 1e6


# --- values


class Values:
    """Random values of the forms, valid and not."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)

    def some(self, of: str, count: int) -> str:
        """Return random characters."""
        return "".join(self.random.choices(of, k=count))

    def one(self, *of: str) -> str:
        """Return one of some texts."""
        return self.random.choice(of)

    def service(self) -> tuple[str, str]:
        """Return the label and the value of a key of a service."""
        label = self.random.choice(list(SERVICES))
        return f"secret:{label}", SERVICES[label](self)

    def card(self, *, valid: bool = True) -> str:
        """Return the number of a card, in groups or not."""
        prefix, length = self.random.choice([("4", 16), ("53", 16), ("37", 15), ("6011", 16)])
        digits = prefix + self.some(string.digits, length - len(prefix) - 1)
        check = next(one for one in string.digits if _luhn(digits + one) == valid)
        number = digits + check
        gap = self.one("", " ", "-")
        if length == 15:
            return gap.join((number[:4], number[4:10], number[10:]))
        return gap.join(number[at : at + 4] for at in range(0, 16, 4))

    def iban(self, *, valid: bool = True) -> str:
        """Return an IBAN, in groups or not."""
        country, count = self.random.choice([("DE", 18), ("AT", 16), ("FR", 23), ("CH", 17)])
        account = self.some(string.digits, count)
        rest = int("".join(str(int(one, 36)) for one in f"{account}{country}00")) % 97
        check = 98 - rest if valid else (98 - rest) % 90 + 5
        number = f"{country}{check:02}{account}"
        return self.one(number, " ".join(number[at : at + 4] for at in range(0, len(number), 4)))

    def email(self) -> str:
        """Return an address."""
        name = self.one("anna", "j.doe", "maria_lopez", "k+lists", "t-o", "info", "Li.Wei")
        host = self.one("example.org", "mail.example.co.uk", "acme-corp.example.com", "example.de")
        return f"{name}{self.some(string.digits, self.random.randint(0, 3))}@{host}"

    def phone(self) -> str:
        """Return a telephone number in one of the documented forms."""
        some = self.some
        area, office = self.one("2", "4", "7", "9") + some("2345678", 2), "5" + some("2345678", 2)
        return self.one(
            f"+49 {self.one('30', '170', '89')} {some('123456789', 7)}",
            f"+1 {area} {office} {some(string.digits, 4)}",
            f"+44 20 {some('123456789', 4)} {some('123456789', 4)}",
            f"+41{some('123456789', 9)}",
            f"+33 (0)6 {' '.join(some('123456789', 2) for _ in range(4))}",
            f"({area}) {office}-{some(string.digits, 4)}",
            f"{area}-{office}-{some(string.digits, 4)}",
            f"030 {some('123456789', 7)}",
            f"0171/{some('123456789', 7)}",
            f"020 7{some(string.digits, 3)} {some('123456789', 4)}",
            f"01 {' '.join(some('123456789', 2) for _ in range(4))}",
            f"00{self.one('49', '43')} 171 {some('123456789', 7)}",
        )

    def host(self) -> str:
        """Return an IP address."""
        if self.random.random() < 0.3:
            return self.one(
                f"2001:db8:{self.some(HEX, 4)}::{self.random.randint(1, 99)}",
                f"fe80::{self.some(HEX, 3)}:{self.random.randint(10, 99)}ff:fe90:1",
            )
        rest = (str(self.random.randint(0, 255)) for _ in range(3))
        return ".".join((self.one("10", "172", "192", "203"), *rest))

    def password(self) -> str:
        """Return a password with letters and digits."""
        return (
            self.some(string.ascii_letters, 6)
            + self.some(string.digits, 2)
            + self.one("", "!", "x")
        )

    def key_block(self) -> str:
        """Return a private key in PEM."""
        name = self.one("RSA ", "EC ", "OPENSSH ", "")
        body = "\n".join(self.some(ALNUM, 64) for _ in range(3))
        return f"-----BEGIN {name}PRIVATE KEY-----\n{body}\n-----END {name}PRIVATE KEY-----"


def _luhn(number: str) -> bool:
    twice = (int(one) * 2 for one in number[-2::-2])
    return (sum(map(int, number[::-2])) + sum(one // 10 + one % 10 for one in twice)) % 10 == 0


SERVICES: Final[Mapping[str, Callable[[Values], str]]] = {
    "aws-key": lambda v: v.one("AKIA", "ASIA") + v.some(UPPER, 16),
    "github-token": lambda v: v.one("ghp", "gho", "ghs") + "_" + v.some(ALNUM, 36),
    "gitlab-token": lambda v: "glpat" + "-" + v.some(ALNUM, 20),
    "slack-token": lambda v: "xoxb" + "-" + v.some(string.digits, 12) + "-" + v.some(ALNUM, 24),
    "stripe-key": lambda v: "sk" + "_live_" + v.some(ALNUM, 24),
    "openai-key": lambda v: "sk" + "-proj-" + v.some(ALNUM, 48),
    "anthropic-key": lambda v: "sk" + "-ant-api03-" + v.some(ALNUM, 60),
    "google-key": lambda v: "AIza" + v.some(ALNUM, 35),
    "huggingface-token": lambda v: "hf" + "_" + v.some(ALNUM, 34),
    "npm-token": lambda v: "npm" + "_" + v.some(ALNUM, 36),
    "sendgrid-key": lambda v: "SG." + v.some(ALNUM, 22) + "." + v.some(ALNUM, 43),
    "twilio-key": lambda v: "SK" + v.some(HEX, 32),
    "telegram-token": lambda v: v.some("123456789", 9) + ":AA" + v.some(ALNUM, 33),
    "jwt": lambda v: (
        "eyJ" + v.some(ALNUM, 30) + ".eyJ" + v.some(ALNUM, 60) + "." + v.some(ALNUM, 43)
    ),
    "digitalocean-token": lambda v: "dop" + "_v1_" + v.some(HEX, 64),
    "databricks-token": lambda v: "dapi" + v.some(HEX, 32),
}

# --- texts

WITH_KEY: Final = (
    "Set {} in the environment before the deploy.", "here is the key: {} please rotate it",
    "export SERVICE={}", "The CI log shows {} in line 40.", '{{"credential_id": 7, "value": "{}"}}',
    "curl -H 'X-Key: {}' https://api.example.com/v1/items", "I pasted {} into the wrong channel",
    "client = Client({})", "`{}` is what the dashboard gave me", "use {}, not the old one",
)  # fmt: skip
WITH_PERSONAL: Final[Mapping[str, Sequence[str]]] = {
    "card": ("Book it with {}, valid until 09/27.", "card: {}", "She paid by {} yesterday",
             "Visa {} was declined", "number {} on file"),
    "iban": ("Transfer 300 euros to {} by Friday.", "IBAN: {}", "my account {} at the savings bank",
             "Refund to {}, please."),
    "email": ("Write to {} about the lease.", "From: Anna <{}>", "cc {}; she decides",
              "mailto:{}", "my address is {}.", "login {} on the portal"),
    "phone": ("Call me at {} tomorrow.", "phone: {}", "His number is {}.", "reach Maria: {} (work)",
              "the plumber ({}) comes at 9", "Tel. {}"),
    "host": ("The database runs on {}.", "ssh root@{}", "ping {} fails since noon",
             "http://{}/status is down", "blocked {} in the firewall", "dial tcp {}: refused"),
}  # fmt: skip
WITH_PASSWORD: Final = (
    "password: {}", "The wifi password is {}", "DB_PASSWORD={}", 'api_key = "{}"', "token={}",
    "my passphrase is {}", '"client_secret": "{}"', "login as admin, password={}", "pwd: {}",
)  # fmt: skip
WITH_URL: Final = ("postgres://app:{}@db.example.com/shop", "redis://:{}@cache:6379 answers slowly",
                   "clone https://bot:{}@git.example.com/x.git")  # fmt: skip
WITH_BEARER: Final = ("Authorization: Bearer {}", "curl -H 'Authorization: Basic {}'")

PLAIN: Final = (
    "Anna prefers tea over coffee and takes the train at {h}:{m}.",
    "The password reset token expired after {n} minutes.",
    "We agreed on a token budget of {n}00 per prompt; max_tokens={n}00.",
    "Order {id} was shipped on {date} and costs {n}.50 euros.",
    "commit {sha} fixes the login form", "trace id {uuid} shows a timeout",
    "upgrade to version {n}.{m}.{h}.{n} next week", "see section {h}.{m} of the manual",
    "secret: ask Tom, he keeps the keys to the office", "password: ${{DB_PASSWORD}}",
    'api_key = os.environ["SERVICE_KEY"]', "token = get_token(user)", "api_key: <your key here>",
    "git@github.com:acme/shop.git is the remote", "@dataclass classes need no __init__",
    "pip install package=={h}.{m}.{n}", "npm i left-pad@{h}.{m}.{n}", "ISBN 978-3-16-148410-{h}",
    "The meeting is on {date} from {h}:{m}:{m} to {h}:{n}.", "the ratio is 1.{n}{m}{h}",
    "timestamp {ms} in the log", "card {bad_card} is a test number that fails the check",
    "the account {bad_iban} has a typo", "listening on 127.0.0.1:80{h} and 0.0.0.0",
    "std::vector<int> v; ns::f{h}(v)", "the mac is aa:bb:cc:dd:ee:{h}", "digest sha256:{sha}{sha}",
    "invoice no. {y}-{n}{n}-{m}", "coordinates 52.{ms}, 13.{n}", "room 30{h}, floor {h}",
    "population: 83,{n}5,{n}0 people", "file-{uuid}.tar.gz has {ms} bytes",
    "size 1024x768, ratio 4:3, dpi 300-600", "temperature between -{h} and +{n} degrees",
    "the secret of a good soup is patience", "pwd prints the directory", "PIN the page",
    "key: value pairs are sorted", "Basic authentication is switched off", "the bearer of the ring",
    "sk-learn and hf_hub are libraries", "from {date} to {date} she was in Lyon",
    "score 21-19, 18-21, 21-{h}", "SELECT * FROM users WHERE id = {id}", "tel aviv at {h}:{m}",
    "page 100 200 300 of the catalogue", "issue #{n}{n} and pull request #{n}{m}",
    "the phone rang {n} times", "call it at {h}:{m}", "DE{n} is a bus line", "total: {n} 000 000",
    "data:image/png;base64,iVBORw0KGgo{sha}", '{{"password": null, "token_type": "bearer"}}',
    "password = input('Password: ')", "the api key rotates every {n} days",
)  # fmt: skip


def made(seed: int) -> list[Text]:
    """Return the texts, the same for the same seed."""
    values = Values(seed)
    makers = (_key, _key, _key, _personal, _personal, _personal, _personal, _other, _two)
    with_parts = [makers[number % len(makers)](values) for number in range(TEXTS // 2)]
    plain = [_plain(values, PLAIN[number % len(PLAIN)]) for number in range(TEXTS - TEXTS // 2)]
    return with_parts + plain


def _key(values: Values) -> Text:
    label, value = values.service()
    return Text(values.one(*WITH_KEY).format(value), [(label, value)])


def _personal(values: Values) -> Text:
    name = values.one(*WITH_PERSONAL)
    value = str(getattr(values, name)())
    return Text(values.one(*WITH_PERSONAL[name]).format(value), [(f"personal:{name}", value)])


def _other(values: Values) -> Text:
    kind = values.random.randrange(5)
    if kind == 0:
        value = values.password()
        return Text(values.one(*WITH_PASSWORD).format(value), [("secret:password", value)])
    if kind == 1:
        value = values.password()
        return Text(values.one(*WITH_URL).format(value), [("secret:url-password", value)])
    if kind == 2:
        value = values.some(ALNUM, 30) + "7"
        return Text(values.one(*WITH_BEARER).format(value), [("secret:authorization", value)])
    if kind == 3:
        value = values.key_block()
        return Text(f"the old key:\n{value}\nis revoked", [("secret:private-key", value)])
    value = f"<private>{values.one('my salary is low', 'I am ill', 'do not tell Tom')}</private>"
    return Text(f"Note {value} and go on.", [("private", value)])


def _two(values: Values) -> Text:
    (first, some), (second, others) = _personal(values), _key(values)
    return Text(f"{first}\n{second}", [*some, *others])


def _plain(values: Values, template: str) -> Text:
    number = values.random.randint
    sha = values.some(HEX, 40)
    return Text(
        template.format(
            h=number(1, 9), m=number(10, 59), n=number(60, 99), id=number(10_000, 9_999_999),
            y=number(2019, 2026), date=f"{number(2019, 2026)}-0{number(1, 9)}-{number(10, 28)}",
            ms=number(1_500_000_000_000, 1_800_000_000_000), sha=sha,
            uuid=f"{sha[:8]}-{sha[8:12]}-4{sha[13:16]}-a{sha[17:20]}-{sha[20:32]}",
            bad_card=values.card(valid=False), bad_iban=values.iban(valid=False),
        )
    )  # fmt: skip
