r"""Bags that stay where they are: a `BagSource` knows what there is and reads a bag when asked.

A reader of a layout makes one from a folder or a file: the names of bags, how many tokens each has
(from headers, nothing else is read), and a `BagFormat` that finds the tokens of one bag by its key.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.bags import Bags
from sparsetoken.support.arrays import FloatArray, IntArray
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.memory import machine_memory


class BagFormat(Protocol):
    """How one bag is read. Objects travel to other processes: they hold paths, no open files.

    What cannot be read is `InvalidInput`, without the name of the bag.
    """

    def tokens(self, key: Any) -> NDArray[Any]:
        """(L, d), in the precision in which they are stored."""
        ...

    def coordinates(self, key: Any) -> FloatArray | None:
        """Where each token is (L, 2), as x and y; None where that is not known."""
        ...


class Problem(NamedTuple):
    """A bag that cannot be taken, and why."""

    bag: str
    problem: str  # missing, doubled, unlabelled or unreadable
    explanation: str


@dataclass(frozen=True, eq=False)
class BagSource:
    """Bags on disk, read one at a time.

    >>> class Ones:
    ...     def tokens(self, key):
    ...         return np.ones((key, 3))
    ...     def coordinates(self, key):
    ...         return None
    >>> source = BagSource(("a", "b"), np.array([2, 1]), 3, (2, 1), Ones())
    >>> len(source), source[1:].names, source.load().lengths.tolist()
    (2, ('b',), [2, 1])
    """

    names: tuple[str, ...]
    lengths: IntArray  # tokens of each bag (n,)
    dim: int
    keys: tuple[Any, ...]  # by which the format finds each bag
    format: BagFormat
    problems: tuple[Problem, ...] = ()  # bags that were met and are not among these

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, chosen: Any) -> BagSource:
        """Some of the bags."""
        index = np.arange(len(self))[chosen]
        names, keys = (tuple(values[i] for i in index) for values in (self.names, self.keys))
        return replace(self, names=names, lengths=self.lengths[index], keys=keys)

    def read(self, bag: int) -> Bags:
        """One bag, of which there is what was promised."""
        try:
            tokens = np.asarray(self.format.tokens(self.keys[bag]))
            if tokens.shape != (self.lengths[bag], self.dim):
                raise InvalidInput(
                    f"tokens have shape {tokens.shape}, not {(int(self.lengths[bag]), self.dim)}"
                )
            return Bags.of([tokens])
        except (InvalidInput, MemoryError) as error:
            raise InvalidInput(f"bag {self.names[bag]}: {error}") from error

    def coordinates(self, bag: int) -> FloatArray | None:
        """Where the tokens of one bag are (L, 2); None where that is not known."""
        try:
            places = self.format.coordinates(self.keys[bag])
            if places is not None and places.shape != (self.lengths[bag], 2):
                raise InvalidInput(
                    f"coordinates have shape {places.shape}, not {(int(self.lengths[bag]), 2)}"
                )
            return places
        except InvalidInput as error:
            raise InvalidInput(f"bag {self.names[bag]}: {error}") from error

    def load(self) -> Bags:
        """All bags, in memory, if they fit into half of it: they are copied once."""
        first = self.read(0)
        needed, room = int(self.lengths.sum()) * first.tokens[:1].nbytes, machine_memory() / 2
        if needed > room:
            raise InvalidInput(
                f"{len(self)} bags take {needed / 2**30:.3g} GiB, half of the memory is "
                f"{room / 2**30:.3g} GiB"
            )
        parts = [self.read(bag).tokens for bag in range(1, len(self))]
        return Bags.of([first.tokens, *parts])
