"""Facts from conversations, over HTTP."""

from typing import Any

from tests.memory_actors.server.helpers import ALICE, Service, problem

USER = f"/v1/users/{ALICE}"


def say(service: Service, text: str) -> None:
    async def work() -> None:
        await service.memory.user(ALICE).short_term.add_message(text, role="user", session_id="s")

    service.call(work)


def extract(service: Service, **body: Any) -> dict[str, Any]:
    answer = service("POST", f"{USER}/extract", service.alice, json=body)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def test_facts_are_tried_extracted_listed_and_undone(service: Service) -> None:
    say(service, "I like tea")
    tried = extract(service, dry_run=True)
    assert [fact["content"] for fact in tried["facts"]] == ["I LIKE TEA"]
    assert tried["extraction_id"] is None
    found = extract(service, session_id="s")
    (fact,) = found["facts"]
    memory = service("GET", f"{USER}/memories/{fact['memory_id']}", service.alice).json()
    assert memory["content"] == "I LIKE TEA"
    listed = service("GET", f"{USER}/extractions", service.alice).json()["extractions"]
    assert listed == [found]
    body = {"extraction_id": found["extraction_id"]}
    undone = service("POST", f"{USER}/undo", service.alice, json=body).json()
    assert undone["gone"] == [fact["memory_id"]]
    problem(service("GET", f"{USER}/memories/{fact['memory_id']}", service.alice), 404, "not-found")
    assert extract(service)["message_ids"] == []
