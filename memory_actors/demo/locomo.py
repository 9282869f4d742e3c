"""The demonstration on a LoCoMo file: how much of the evidence is found, over all questions."""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import batched
