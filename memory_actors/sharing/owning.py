"""Opening a store in this process, and serving it to others.

What is imported here is all of the engine: a client does so only when it becomes the owner.
"""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from memory_actors.api.opening import opened
from memory_actors.api.past import PastMemory
from memory_actors.api.system import MemorySystem
from memory_actors.api.user import UserMemory
from memory_actors.api.user_context import UserContext
from memory_actors.sharing import remote
from memory_actors.sharing.choices import Choices
from memory_actors.sharing.serving import Server
from memory_actors.users.handles.context_document import ContextDocument
from memory_actors.users.handles.documents import Documents
from memory_actors.users.handles.entities import EntityGraph
from memory_actors.users.handles.episodes import Episodes
from memory_actors.users.handles.short_term import ShortTermMemory
from memory_actors.users.handles.working import WorkingMemory
