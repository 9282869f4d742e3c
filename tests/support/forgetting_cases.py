"""Cases of forgetting, and how a caller carries them out with the public API.

Written anew after the public description of ForgetEval (arXiv 2606.15903): five families of
requests, of four templates each, and ten kinds of adversarial cases. Names and texts are ours. A
case passes where the ten best hits have all that must be there, and nothing that must not.

The caller's rule for what a request means is plain: the memories that have all of its names as
whole words, whatever their case, where a name is a word with a capital letter, a digit or a sign;
without a name, the best hit.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from memory_actors import Hit, Item, UserMemory

WORD: Final = re.compile(r"[\w@.+/#'-]*\w")


class Case(NamedTuple):
    """Facts, requests, and what a query finds then."""

    facts: Sequence[str]
    requests: Sequence[tuple[str, ...]]
    query: str
    must: Sequence[str] = ()
    must_not: Sequence[str] = ()


async def passes(user: UserMemory, case: Case) -> bool:
    """Say whether a case passes for a user without memories."""
    await user.add_many([Item(content=fact) for fact in (*case.facts, *ELSE)])
    for request, *said in case.requests:
        await REQUESTS[request](user, *said)
    found = " ".join(hit.content for hit in await user.retrieve(case.query, top_k=10)).lower()
    return all(one.lower() in found for one in case.must) and not any(
        one.lower() in found for one in case.must_not
    )


async def supersede(user: UserMemory, about: str, text: str) -> None:
    """Let the memory that is about something say another text."""
    (hit,) = await user.retrieve(about, top_k=1)
    await user.update(hit.memory_id, content=text)


async def release(user: UserMemory, about: str) -> None:
    """Delete what a request means."""
    for hit in await meant(user, about):
        await user.delete(hit.memory_id)


async def purge(user: UserMemory, about: str) -> None:
    """Forget what a request means, for good."""
    for hit in await meant(user, about):
        await user.forget(hit.memory_id)


async def forget(user: UserMemory, fact: str) -> None:
    """Forget a fact in its words."""
    await user.forget(fact)


async def meant(user: UserMemory, about: str) -> list[Hit]:
    """Return the memories that a request means, by the rule above."""
    names = {one.lower() for one in words(about) if re.search(r"[^\W\d_a-z]|[\d@_/]", one)}
    hits = await user.retrieve(about, top_k=20)
    if not names:
        return hits[:1]
    return [hit for hit in hits if names <= {one.lower() for one in words(hit.content)}]


def words(text: str) -> list[str]:
    """Return the words of a text; an address or a path is one."""
    return [one.removesuffix("'s") for one in WORD.findall(text)]


REQUESTS: Final[dict[str, Callable[..., Awaitable[None]]]] = {
    "supersede": supersede,
    "release": release,
    "purge": purge,
    "forget": forget,
}
ELSE: Final = (
    "the lift in the east wing is being repaired",
    "lunch is served from noon on the second floor",
    "the printer takes recycled paper only",
    "fire drills are held every other month",
)
"""Facts that have nothing to do with any case."""

TEMPLATES: Final[dict[str, tuple[Case, ...]]] = {
    "supersession": (
        Case(
            ["Ines works at Nordlicht"],
            [("supersede", "where does Ines work", "Ines works at Halden now")],
            "Where does Ines work?", ["Halden"], ["Nordlicht"],
        ),
        Case(
            ["the editor theme is Solaris"],
            [("supersede", "editor theme", "the editor theme is Ember")],
            "Which editor theme is set?", ["Ember"], ["Solaris"],
        ),
        Case(
            ["Ines eats no meat"],
            [("supersede", "what does Ines eat", "Ines eats fish on Fridays")],
            "What does Ines eat?", ["fish"], ["no meat"],
        ),
        Case(
            ["after a long search, with two agents and visits, Ines rents a flat in Turku"],
            [("supersede", "where does Ines rent a flat", "Ines rents a flat in Vaasa")],
            "Where is the flat of Ines?", ["Vaasa"], ["Turku"],
        ),
    ),
    "decay": (
        Case(
            ["the one-time code for the bank is 771204"],
            [("release", "one-time code 771204")],
            "What is the one-time code?", [], ["771204"],
        ),
        Case(
            ["the parcel shop wants the pick-up word heron"],
            [("release", "pick-up word of the parcel shop")],
            "What is the pick-up word?", [], ["heron"],
        ),
        Case(
            ["flight KX311 to Oslo leaves at nine", "the hotel in Oslo is paid"],
            [("release", "flight KX311")],
            "What about the trip to Oslo?", ["hotel"], ["KX311"],
        ),
        Case(
            [f"door code of room {n} is 40{n}7" for n in range(1, 6)],
            [("release", "door code 4037")],
            "What are the door codes?", ["4017", "4027", "4047", "4057"], ["4037"],
        ),
    ),
    "amnesia": (
        Case(
            ["Malte plays the oboe", "Svea plays the cello"],
            [("release", "everything about Malte")],
            "Who plays which instrument?", ["Svea"], ["Malte"],
        ),
        Case(
            ["Malte lives in Lund", "Malte has two sons", "Svea lives in Lund"],
            [("release", "everything about Malte")],
            "Who lives in Lund?", ["Svea"], ["Malte"],
        ),
        Case(
            ["project Aurora ends in May", "project Aurora is dear", "project Borea is late"],
            [("release", "all of project Aurora")],
            "How are the projects?", ["Borea"], ["Aurora"],
        ),
        Case(
            [f"Malte {one}" for one in ("skis", "reads Greek", "has a boat", "is 41", "is tired")]
            + ["Svea has a boat"],
            [("release", "everything about Malte")],
            "Who has a boat?", ["Svea"], ["Malte"],
        ),
    ),
    "purge": (
        Case(
            ["the key of the test stage is tk_9aa1", "the key of the live stage is tk_77bc"],
            [("purge", "tk_77bc")],
            "What are the keys of the stages?", ["tk_9aa1"], ["tk_77bc"],
        ),
        Case(
            ["patient Orla Quist takes lithium", "patient Bo Lindh takes aspirin"],
            [("purge", "patient Orla Quist")],
            "What do patients take?", ["aspirin"], ["Quist", "lithium"],
        ),
        Case(
            ["orla@quist.example ordered three lamps", "bo@quist.example ordered a chair"],
            [("purge", "orla@quist.example")],
            "Who ordered what?", ["bo@quist.example"], ["orla@quist.example"],
        ),
        Case(
            [f"card C-{n}00 belongs to locker {n}" for n in range(1, 6)],
            [("purge", "C-300")],
            "Which card is for which locker?", ["C-100", "C-200", "C-400", "C-500"], ["C-300"],
        ),
    ),
    "drift": (
        Case(
            ["Ines started at Nordlicht in 2019"],
            [
                ("supersede", "employer of Ines", "Ines moved to Halden in 2021"),
                ("supersede", "employer of Ines", "Ines has been at Brimo since 2024"),
            ],
            "Where does Ines work?", ["Brimo"], ["Nordlicht", "Halden"],
        ),
        Case(
            ["the office is in Kanalgatan 4"],
            [
                ("supersede", "address of the office", "the office is in Hamngatan 9"),
                ("supersede", "address of the office", "the office is in Torget 1"),
            ],
            "Where is the office?", ["Torget"], ["Kanalgatan", "Hamngatan"],
        ),
        Case(
            ["the favourite colour of Ines is teal"],
            [
                ("supersede", "favourite colour of Ines", "Ines likes ochre best"),
                ("supersede", "colour that Ines likes best", "Ines likes plum best"),
            ],
            "Which colour does Ines like?", ["plum"], ["teal", "ochre"],
        ),
        Case(
            ["version 1 of the plan is in force"],
            [
                ("supersede", "version of the plan", f"version {n} of the plan is in force")
                for n in range(2, 7)
            ],
            "Which version of the plan is in force?", ["version 6"],
            [f"version {n} " for n in range(1, 6)],
        ),
    ),
}  # fmt: skip
ADVERSARIAL: Final[dict[str, tuple[Case, ...]]] = {
    "substring trap": (
        Case(
            ["Pike sails on Sundays", "the pike in the pond weighs four kilos", "Svea sails, too"],
            [("supersede", "when does Pike sail", "Pike sails on Mondays")],
            "When does Pike sail?", ["Mondays", "pond"], ["Pike sails on Sundays"],
        ),
        Case(
            ["the safe opens with lark88", "a lark nests behind the barn"],
            [("purge", "lark88")],
            "What about the lark?", ["barn"], ["lark88"],
        ),
        Case(
            ["Mark is allergic to nuts", "the benchmark runs at night", "Svea eats nuts"],
            [("release", "everything about Mark")],
            "Who may eat nuts? When does the benchmark run?", ["benchmark", "Svea"], ["Mark is"],
        ),
    ),
    "prefix collision": (
        Case(
            ["bo@north.example pays yearly", "bo.ek@north.example pays monthly"],
            [("purge", "bo@north.example")],
            "Who pays how?", ["bo.ek@north.example"], [" bo@north", "yearly"],
        ),
        Case(
            ["order A-17 is open", "order A-170 is closed"],
            [("purge", "A-17")],
            "Which orders are there?", ["A-170"], ["A-17 is"],
        ),
        Case(
            ["/srv/app/conf is in use", "/srv/app/conf.old is a copy"],
            [("purge", "/srv/app/conf")],
            "Which files are there?", ["conf.old"], ["conf is"],
        ),
        Case(
            ["Jon Berg takes iron", "Jon Bergman takes zinc"],
            [("purge", "Jon Berg")],
            "Who takes what?", ["zinc"], ["iron"],
        ),
    ),
    "paraphrased supersession": (
        Case(
            ["Ines resides in Turku"],
            [("supersede", "hometown of Ines", "Ines has packed up for the sea in Kotka")],
            "Where is Ines at home?", ["Kotka"], ["Turku"],
        ),
        Case(
            ["Ines commutes by bicycle"],
            [("supersede", "how Ines gets to the office", "Ines takes the tram every morning")],
            "How does Ines get to work?", ["tram"], ["bicycle"],
        ),
        Case(
            ["Ines is single"],
            [("supersede", "is Ines married", "Ines and Otso tied the knot")],
            "Is Ines married?", ["Otso"], ["single"],
        ),
    ),
    "negation": (
        Case(
            ["Ines does not own a car", "Malte owns a car"],
            [("release", "Ines does not own a car")],
            "Who owns a car?", ["Malte"], ["Ines"],
        ),
        Case(
            ["Ines never worked at Halden"],
            [("supersede", "did Ines work at Halden", "Ines worked at Halden for a year")],
            "Did Ines work at Halden?", ["for a year"], ["never"],
        ),
        Case(
            ["Ines likes jazz", "Ines does not like opera"],
            [("supersede", "what Ines does not like", "Ines does not like brass bands")],
            "Which music does Ines like?", ["jazz", "brass"], ["opera"],
        ),
    ),
    "dates": (
        Case(
            ["in 2020 Ines lived in Turku", "in 2022 Ines lived in Kotka"],
            [("supersede", "where did Ines live in 2022", "in 2022 Ines lived in Vaasa")],
            "Where did Ines live over the years?", ["Turku", "Vaasa"], ["Kotka"],
        ),
        Case(
            ["the fee was 10 in 2021", "the fee is 12 in 2023"],
            [("release", "the fee in 2021")],
            "What is the fee?", ["12"], ["10 in 2021"],
        ),
        Case(
            ["Ines was head of sales until 2019", "Ines is head of design since 2023"],
            [("supersede", "what is Ines head of since 2023", "Ines heads nothing since 2025")],
            "What is Ines head of?", ["sales", "nothing"], ["design"],
        ),
    ),
    "shared attribute": (
        Case(
            ["Malte works in Lund", "Svea works in Lund"],
            [("release", "everything about Malte")],
            "Who works in Lund?", ["Svea works in Lund"], ["Malte"],
        ),
        Case(
            ["Malte and Svea speak Finnish", "Svea speaks Sami"],
            [("release", "everything about Malte")],
            "Who speaks what?", ["Svea speaks Sami"], ["Malte"],
        ),
        Case(
            ["Malte has cat Pim", "Svea has cat Pom"],
            [("purge", "Pim")],
            "Who has which cat?", ["Pom"], ["Pim"],
        ),
    ),
    "compound fact, superseded": (
        Case(
            ["Ines lives in Turku and works at Halden"],
            [("supersede", "home town of Ines", "Ines lives in Vaasa")],
            "What is known of Ines?", ["Vaasa", "Halden"], ["Turku"],
        ),
        Case(
            ["Ines is married to Otso and drives a van"],
            [("supersede", "what does Ines drive", "Ines drives a lorry")],
            "What is known of Ines?", ["Otso", "lorry"], ["van"],
        ),
    ),
    "compound fact, forgotten in words": (
        Case(
            ["Ines lives in Turku and works at Halden", "Ines lives in Turku."],
            [("forget", "Ines lives in Turku")],
            "What is known of Ines?", ["Halden"], ["Turku"],
        ),
        Case(
            ["Otso snores. Otso works nights. Otso is kind.", "Otso works nights"],
            [("forget", "otso works nights!")],
            "What is known of Otso?", ["snores", "kind"], ["nights"],
        ),
    ),
    "identifier in other spellings": (
        Case(
            ["orla@quist.example has a loan", "ORLA@Quist.Example has a pension"],
            [("purge", "orla@quist.example")],
            "Who has a loan or a pension?", [], ["quist"],
        ),
        Case(
            ['the token is "zt-4410"', "token  ZT-4410  expires in May"],
            [("purge", "zt-4410")],
            "Which tokens are there?", [], ["4410"],
        ),
        Case(
            ["call Orla at 040-555-0133", "Orla answers at 0405550133"],
            [("purge", "040-555-0133")],
            "What is the number of Orla?", [], ["0133"],
        ),
        Case(
            ["@orlaq posts on Mondays", "orlaq posts pictures of boats"],
            [("purge", "@orlaq")],
            "Who posts what?", [], ["orlaq"],
        ),
    ),
    "identifier in another script": (
        Case(
            ["Dmitri Orlov has an account", "Дмитрий Орлов has a card"],
            [("purge", "Dmitri Orlov")],
            "Who has an account or a card?", [], ["orlov", "Орлов"],
        ),
        Case(
            ["Zoë Müller has an account", "Zoe Mueller has a card"],
            [("purge", "Zoë Müller")],
            "Who has an account or a card?", [], ["Müller", "Mueller"],
        ),
    ),
    "back to an earlier state": (
        Case(
            ["Ines works at Nordlicht"],
            [
                ("supersede", "employer of Ines", "Ines works at Halden"),
                ("supersede", "employer of Ines", "Ines works at Nordlicht"),
            ],
            "Where does Ines work?", ["Nordlicht"], ["Halden"],
        ),
        Case(
            ["the theme is Solaris"],
            [
                ("supersede", "the theme", "the theme is Ember"),
                ("supersede", "the theme", "the theme is Solaris"),
                ("supersede", "the theme", "the theme is Ember"),
            ],
            "Which theme is set?", ["Ember"], ["Solaris"],
        ),
    ),
}  # fmt: skip
CASES: Final = TEMPLATES | ADVERSARIAL
