"""From 384 dimensions of a token state to 64: a projection learnt from general text.

Theory. Token states of one model fill their space unevenly: half their variance lies in 64
directions. The projection keeps those (principal components) and evens them out a little, by
`variance ** -0.3`, so that the few strongest, which are the same for every word in a text, do not
decide alone. It is learnt from the token states of 400 sentences about nothing in particular
(`general_text.txt` beside this file), never from the memories or a benchmark, in 0.1 s.

Measured on five LoCoMo conversations (997 questions), turn recall@10 of states in 8 bits:

    projection                                 MaxSim alone   whole ranking (cross-validated)
    none, 384 dimensions, float                0.803          0.851
    64, components of general text             0.756          0.848
    64, the same evened out: this one          0.765          0.851
    64, components of the word embeddings      0.775          0.844
    64, a random rotation                      0.744
    128 in 4 bits each, of general text        0.798          0.853     no smaller, twice the work

The components' signs are fixed, so two machines agree but for rounding. States of two projections
must not meet: keep the projection with the model, and name it in what is stored.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from memory_actors.search.embedding.protocol import Vectors

DIMENSIONS: Final = 64
EVENING: Final = 0.3
RECIPE: Final = "general-text/64/0.3"
"""Names what `learn_projection` does: states of another recipe cannot be compared."""
_TINY: Final = 1e-9

Components = npt.NDArray[np.float64]


def learn_projection(states: Vectors, dimensions: int = DIMENSIONS) -> Vectors:
    """Return a projection, float32 `[width, dimensions]`, from token states `[tokens, width]`.

    `states` are those of general text, special tokens left out, at least a few thousand.
    """
    unit = states / np.maximum(np.linalg.norm(states, axis=1, keepdims=True), _TINY)
    centred = (unit - unit.mean(axis=0)).astype(np.float64)
    variances, components = np.linalg.eigh(centred.T @ centred / len(centred))
    strongest = slice(None, -dimensions - 1, -1)  # eigh sorts upwards
    evened = np.maximum(variances[strongest], _TINY) ** -EVENING
    projection: Vectors = (_signed(components[:, strongest]) * evened).astype(np.float32)
    return projection


def _signed(components: Components) -> Components:
    """Return the components with their largest entry positive: eigenvectors have no sign."""
    largest = np.abs(components).argmax(axis=0)
    signed: Components = components * np.sign(components[largest, range(components.shape[1])])
    return signed
