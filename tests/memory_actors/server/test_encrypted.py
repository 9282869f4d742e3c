"""The server over an encrypted store."""

from pathlib import Path

from eventlog import stream_id
from tests.memory_actors.server.helpers import ALICE, BOB, SECRET, problem, serving


def test_it_serves_as_ever_and_says_whose_key_is_gone(tmp_path: Path) -> None:
    directory = tmp_path / "memory"
    with serving(directory, encrypt=True) as service:
        for user_id, key in ((ALICE, service.alice), (BOB, service.bob)):
            path = f"/v1/users/{user_id}/memories"
            assert service("POST", path, key, json={"content": SECRET}).status_code == 201
            assert service("GET", path, key).json()
        service.memory._log._files.keys.forget(stream_id(f"user:{ALICE}"))
        service.call(lambda: service.memory._services.runtime._passivate(f"user:{ALICE}"))

        told = problem(
            service("GET", f"/v1/users/{ALICE}/memories", service.alice), 410, "key-gone"
        )
        assert ALICE not in told["detail"]
        assert service("GET", f"/v1/users/{BOB}/memories", service.bob).json()
    assert not any(
        SECRET.encode() in path.read_bytes() for path in directory.rglob("*") if path.is_file()
    )
