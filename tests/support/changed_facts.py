"""Facts that people tell an assistant, and what they say about the same later.

A line has an older statement, a newer one, and a question about the present.
"""

from typing import Final

Told = list[list[str]]


def _told(lines: str) -> Told:
    return [line.strip().split(" | ") for line in lines.strip().splitlines()]


# ruff: noqa: E501
CHANGES: Final[tuple[Told, ...]] = (
    _told("""
    I've been driving a VW Golf since college, love that thing. | Picked up the keys to my Tesla today, the Golf went to my cousin. | What car do I drive?
    My gym is PureGym on Market Street, I go three times a week. | I signed up with the climbing hall and dropped my PureGym membership. | Where do I work out?
    I'm vegetarian, have been for ten years. | I eat chicken and fish again since the doctor talked to me about iron. | What is my diet?
    Our team uses Jira for tickets. | We moved all of our tickets over to Linear last week, finally. | Which tool does our team use for tickets?
    I work night shifts at the hospital. | They put me on days starting Monday, no more nights for me. | What shifts do I work?
    My daughter Emma goes to Hillcrest Elementary. | Emma started at Lincoln Middle School today, she was so nervous. | Which school does Emma attend?
    I take 50 mg of sertraline every morning. | Dr. Patel raised my sertraline to 100 mg. | How much sertraline do I take?
    We rent a flat in Camden. | We completed on the house in Walthamstow, we've got the keys! | Where do we live?
    My phone is an iPhone 12 with a cracked screen. | Finally got the Pixel 9, setting it up now. | What phone do I have?
    I'm dating Marcus, we met at a concert. | Marcus and I broke up. I've been seeing Daniel for a month. | Who am I dating?
    My manager is Carol. | Carol left and now I'm reporting to Dev. | Who is my manager?
    I'm learning French on Duolingo. | I gave up on French and switched to Italian for the trip. | Which language am I learning?
    We host the site on Heroku. | The site runs on Fly.io now after the Heroku price hike. | Where is our site hosted?
    I usually wake up at 7. | With the new commute I'm up at 5:30 every day. | What time do I get up?
    My favourite coffee place is Blue Bottle. | Blue Bottle closed, so Sightglass is my go-to now. | What is my favourite coffee place?
    I'm training for a 10k in June. | I've decided to go for the full marathon in October instead of the 10k. | What race am I training for?
    My dentist is Dr. Novak. | I changed dentists, it's Dr. Lim's practice from now on. | Who is my dentist?
    I pay 1,200 a month in rent. | The landlord put the rent up to 1,350. | How much rent do I pay?
    Our dog Rex sleeps in the kitchen. | Rex has moved into our bedroom, he howled in the kitchen. | Where does the dog sleep?
    I bank with Barclays. | Closed my Barclays account, everything's at Monzo these days. | Which bank am I with?
    """),
    _told("""
    I play the violin in a small orchestra. | I sold my violin and took up the cello instead. | Which instrument do I play?
    My trainer is called Steve. | Steve moved away, so I train with Anita now. | Who is my trainer?
    I read on a Kindle. | My Kindle died and I'm back to paper books. | How do I read books?
    My internet provider is Comcast. | We got fiber from Sonic installed, bye bye Comcast. | Who is my internet provider?
    I'm studying biology at university. | I switched my major to chemistry this term. | What am I studying?
    My son plays goalkeeper on his soccer team. | The coach moved my son to striker. | What position does my son play?
    I use Vim for everything. | After 15 years of Vim I've gone over to Zed for coding. | Which editor do I use?
    Lunch for me is a salad most days. | These days lunch is a bowl of ramen from the place downstairs. | What do I have for lunch?
    I commute by train. | I bought a bike and cycle to the office now, no more trains. | How do I commute?
    I have two cats, Milo and Otis. | We adopted a third cat, Luna. | How many cats do I have?
    My blood pressure is 140 over 90. | Blood pressure was 122 over 80 at the checkup. | What is my blood pressure?
    Our wedding is planned for May 14. | We had to push the wedding to September 3. | When is our wedding?
    I save 300 a month. | I've been able to put 500 a month into savings since the raise. | How much do I save each month?
    The project deadline is March 1. | They gave us until March 20 for the project. | What is the project deadline?
    My parents live in Ohio. | Mom and dad retired to Florida. | Where do my parents live?
    I'm allergic to peanuts. | Turns out the allergy test was wrong, peanuts are fine for me. | Am I allergic to peanuts?
    My car insurance is with Geico. | Progressive gave me a better quote, so my car's insured there from today. | Who insures my car?
    I wear size 10 running shoes. | The shop measured my feet again and I need size 11. | What shoe size do I wear?
    My roommate is Jonas. | Jonas moved out and Priya took his room. | Who is my roommate?
    I listen to music on Spotify. | Cancelled Spotify, I use Apple Music. | Where do I listen to music?
    Trabajo de camarero en un hotel. | Dejé el hotel y empecé como cocinero en un restaurante. | ¿De qué trabajo?
    Mi hermana vive en Sevilla. | Mi hermana se ha mudado a Bilbao. | ¿Dónde vive mi hermana?
    Ich fahre einen alten Opel. | Den Opel habe ich verkauft, ich fahre jetzt einen Skoda. | Welches Auto fahre ich?
    Mein Zahnarzt ist Dr. Klein. | Ich bin von Dr. Klein zu Dr. Vogel gewechselt. | Wer ist mein Zahnarzt?
    """),
)
"""The later turn replaces the earlier one. Each of the two is for a user of its own."""

REMARKS: Final = _told("""
    I drive a VW Golf. | The Golf needs new tyres before winter. | What car do I drive?
    My dentist is Dr. Novak. | Dr. Novak said my teeth look great. | Who is my dentist?
    Emma goes to Hillcrest Elementary. | Emma's class at Hillcrest is doing a play about pirates. | Which school does Emma attend?
    We rent a flat in Camden. | The heating in our flat broke again. | Where do we live?
    I play the violin in a small orchestra. | My violin string snapped during practice. | Which instrument do I play?
    My manager is Carol. | Carol liked the slides I made. | Who is my manager?
    I'm training for a 10k in June. | Training went badly, I had to walk half of it. | What race am I training for?
    I bank with Barclays. | Barclays sent me a new card because the old one expired. | Which bank am I with?
    We host the site on Heroku. | The site was down for an hour, Heroku had an outage. | Where is our site hosted?
    I'm learning French on Duolingo. | My French lesson was about the kitchen today. | Which language am I learning?
    Our dog Rex is a beagle. | Rex ate a whole stick of butter. | What breed is our dog?
    My parents live in Ohio. | My parents are coming to visit us for Thanksgiving. | Where do my parents live?
""")
"""The later turn changes nothing."""

ASIDES: Final = (
    "Can you suggest a recipe for dinner?",
    "The weather was awful today.",
    "I watched a film about whales last night.",
    "Remind me how to center a div.",
    "My sister visited over the weekend.",
    "What's a good book about history?",
    "I have a headache.",
    "Let's plan the garden, I want tomatoes.",
    "The meeting went on for three hours.",
    "I finished the puzzle with a thousand pieces.",
)
"""Remarks in between."""
