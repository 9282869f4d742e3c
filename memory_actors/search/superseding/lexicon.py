"""Words that the rules know. English; a word too few is a change that is missed, and no more."""

from typing import Final


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


SELF: Final = word_set("i we me us my our user")
PRONOUNS: Final = word_set("he she they it this that these those you there his her their its your")
NOW: Final = word_set("now currently nowadays presently today meanwhile new newly finally")
"""Said of what was not so before."""
PASSING: Final = word_set(
    "now currently nowadays presently today meanwhile finally again anymore instead already "
    "just recently still actually really usually normally always mostly probably officially "
    "then later only about around roughly approximately exactly nearly almost long-term "
    "permanently soon"
)
"""Says nothing of what is said, only of when and how surely."""
BESIDES: Final = word_set(
    "also too another second additional besides both either part-time freelance sometimes "
    "occasionally twice-weekly side secondary extra other others"
)
"""Says that something holds beside something else."""
BE: Final = word_set("am is are was were be been being becomes became become")
DETERMINERS: Final = word_set("a an the my our his her their its some any this that one's own")
NEW: Final = word_set("new current latest present newest old previous former only main primary")
"""Words that tell one thing at two times apart, and name no other thing."""

SINGLE: Final = word_set("current main primary favourite preferred default go-to usual present")
"""Words for the only one of its kind among many things."""
CHOICES: Final = word_set(
    "favourite preferred default go-to usual status diet size level type religion nationality "
    "citizenship timezone major password mode"
)
"""Nouns whose value may be any word: "my favourite food is ramen"."""
OFFICES: Final = word_set(
    "ceo cto cfo coo cmo president chairman chairwoman captain head lead owner mayor boss landlord "
    "manager director principal coach minister editor treasurer"
)

MONTHS: Final = word_set(
    "january february march april may june july august september october november december "
    "jan feb mar apr jun jul aug sep sept oct nov dec"
)
WEEKDAYS: Final = word_set(
    "monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays "
    "thursdays fridays saturdays sundays weekday weekdays weekend weekends"
)
NUMBERS: Final = word_set(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy "
    "eighty ninety hundred thousand million half dozen once twice thrice"
)
ORDINALS: Final = word_set(
    "first second third fourth fifth sixth seventh eighth ninth tenth ground top"
)
MONEY: Final = word_set(
    "$ € £ ¥ euro euros eur dollar dollars usd pound pounds gbp franc francs chf yen yuan kr "
    "bucks rupees crowns"
)
PERIODS: Final = word_set(
    "month months year years week weeks day days night nights hour hours monthly yearly "
    "weekly daily annually each every per a"
)

MANY: Final = word_set(
    "friend friends sister sisters brother brothers sibling siblings child children kid kids "
    "son sons daughter daughters cousin cousins aunt uncle niece nephew grandchild grandson "
    "granddaughter colleague colleagues coworker co-worker classmate neighbour neighbours "
    "neighbor flatmate roommate housemate twin parent parents grandparent grandmother "
    "grandfather grandma grandpa dog dogs cat cats pet pets horse rabbit hamster bird fish "
    "parrot plant hobby hobbies interest interests skill skills languages allergy allergies "
    "fear fears book books film films movie movies song songs game games idea ideas trip "
    "trips holiday meeting meetings appointment appointments event events task tasks project "
    "projects client clients customer customers student students patient patients friend's "
    "note notes fact item items thing things problem issue issues reason reasons point points "
    "lesson lessons course courses exam exams class classes memory symptom symptoms "
    "medication medicine dream photo photos recipe recipes visit session sessions example "
    "question tip rule rules"
)
"""Things that people have several of: another one says nothing of the first."""
PROFESSIONS: Final = word_set(
    "accountant actor actress analyst architect artist attorney baker banker barber barista "
    "bartender biologist bookkeeper builder butcher carpenter cashier chef chemist cleaner "
    "clerk coach composer consultant cook dancer dentist designer developer director doctor "
    "driver editor electrician engineer farmer firefighter freelancer gardener geologist "
    "guide hairdresser illustrator intern janitor joiner journalist judge lawyer lecturer "
    "librarian manager mechanic midwife musician nanny nurse officer optician painter "
    "paramedic pharmacist photographer physicist physiotherapist pilot plumber principal "
    "producer professor programmer psychologist receptionist recruiter reporter researcher "
    "roofer salesman salesperson scientist secretary singer soldier solicitor statistician "
    "strategist surgeon surveyor tailor teacher technician tester therapist trainer "
    "translator tutor vet veterinarian waiter waitress welder writer assistant administrator "
    "supervisor executive entrepreneur student apprentice trainee"
)

COUNTRIES: Final = word_set(
    "afghanistan albania algeria andorra angola argentina armenia australia austria "
    "azerbaijan bangladesh belarus belgium bolivia bosnia botswana brazil britain bulgaria "
    "cambodia cameroon canada chile china colombia croatia cuba cyprus czechia denmark "
    "ecuador egypt england estonia ethiopia europe finland france georgia germany ghana "
    "greece guatemala haiti honduras hungary iceland india indonesia iran iraq ireland israel "
    "italy jamaica japan jordan kazakhstan kenya korea kuwait latvia lebanon libya "
    "liechtenstein lithuania luxembourg madagascar malaysia malta mexico moldova mongolia "
    "montenegro morocco mozambique myanmar namibia nepal netherlands nicaragua nigeria norway "
    "oman pakistan panama paraguay peru philippines poland portugal qatar romania russia "
    "rwanda scotland senegal serbia singapore slovakia slovenia somalia spain sudan sweden "
    "switzerland syria taiwan tanzania thailand tunisia turkey uganda ukraine uruguay usa us "
    "uk uae venezuela vietnam wales yemen zambia zimbabwe america asia africa scandinavia "
    "california texas florida bavaria catalonia ontario quebec andalusia tuscany brittany "
    "saxony alaska hawaii arizona colorado oregon nevada ohio michigan virginia illinois "
    "massachusetts states kingdom republic emirates zealand"
)
"""Places that have cities in them."""
DWELLINGS: Final = word_set(
    "flat apartment house studio cottage bungalow loft room dormitory dorm condo villa farm "
    "farmhouse houseboat boat caravan van cabin mansion penthouse maisonette townhouse duplex "
    "hostel building place home tent"
)
DIETS: Final = word_set("vegan vegetarian pescatarian flexitarian omnivore carnivore")
ANIMAL_FOOD: Final = word_set(
    "meat fish chicken beef pork lamb bacon salmon tuna steak seafood sausage sausages "
    "burgers ham turkey eggs egg cheese dairy milk honey poultry"
)
STOP: Final = word_set(
    "a an the my our his her their its of to in on at for from with by as and or is am are "
    "was were be been do does did has have had i we user he she they it that this which who s "
    "will would someone somebody doing having being going called named something there not very "
    "so some any per each every go goes going went get gets got"
)
PAST: Final = word_set(
    "was were had did ran went got took came gave made met ate drank slept spent won lost wrote "
    "flew drove swam saw heard told said bought sold paid read put cut hit set let left sent "
    "built caught rode sang stood thought threw woke wore began broke chose fell felt found "
    "forgot held kept knew led lent rose taught understood beat cost"
)
