r"""Bags that stay where they are: a `BagSource` knows what there is and reads a bag when asked.

A reader of a layout makes one from a folder or a file: the names of bags, how many tokens each has
(from headers, nothing else is read), and a `BagFormat` that finds the tokens of one bag by its key.
Classifiers learn from a source as from `Bags`, in passes over its parts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsetoken.bags.bags import Arrays, Bags, Kernel, Walked, summary_of
from sparsetoken.bags.stacks import parts
from sparsetoken.bags.summary import BagSummary
from sparsetoken.bags.walking import Walking, fingerprint
from sparsetoken.support.arrays import FloatArray, IntArray
from sparsetoken.support.checks import refusal, whole
from sparsetoken.support.devices import check_device
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.memory import machine_memory
from sparsetoken.support.progress import byte_bar


class BagFormat(Protocol):
    """How one bag is read. Objects travel to other processes: they hold paths, no open files.

    What cannot be read is `InvalidInput`, without the name of the bag. Coordinates are the corners
    of patches where x and y are least, unless a format has `centres = True`, and in pixels, unless
    it has a method `in_micrometres(key)` that says they are not.
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
    walking: Walking = field(default_factory=Walking)
    groups: tuple[str, ...] | None = None  # of each bag, where the reader knows them
    notes: tuple[str, ...] = ()  # what the reader did not take for features

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, chosen: Any) -> BagSource:
        """Some of the bags."""
        index = np.arange(len(self))[chosen]
        names, keys = (tuple(values[i] for i in index) for values in (self.names, self.keys))
        groups = None if self.groups is None else tuple(self.groups[i] for i in index)
        some = replace(self, names=names, lengths=self.lengths[index], keys=keys, groups=groups)
        if "summary" in self.__dict__:  # a pass less
            some.__dict__["summary"] = self.summary[index]
        return some

    def walked(
        self,
        *,
        executor: Executor | int | None = None,
        device: str | None = None,
        memory: int = 1 << 30,
        kept_in: str | os.PathLike[str] | None = None,
        progress: bool = False,
    ) -> BagSource:
        """The same bags, gone over in another way; what is computed does not depend on it.

        Parameters
        ----------
        executor : None, int or Executor
            Who works on the parts: one thread a processor, so many processes (0: this thread
            alone), or any executor of `concurrent.futures`, such as Dask's (`dask_executor`).
        device : str, optional
            Torch's name of a device for the products, such as "cuda"; NumPy if not given.
        memory : int
            Bytes that features of bags may take: with less, passes are more.
        kept_in : path, optional
            A folder for the result of each pass. Whoever is stopped and begins again with the same
            bags, labels and settings goes on after the last one.
        progress : bool
            Show a bar for each pass on standard error.

        Returns
        -------
        BagSource

        Raises
        ------
        InvalidInput
            An executor without `submit`, a device that is not there, a memory below 1, or a folder
            that cannot be made.

        Examples
        --------
        >>> BagSource((), np.zeros(0, int), 3, (), None).walked(executor=2).walking.executor
        2
        """
        who = "BagSource.walked"
        if isinstance(executor, int):
            whole(who, "executor", executor, least=0)
        elif executor is not None and not hasattr(executor, "submit"):
            raise refusal(who, "executor", executor, "None, a number of processes, or an executor")
        if device is not None:
            check_device(who, device)
        folder = None if kept_in is None else Path(kept_in)
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise refusal(who, "kept_in", kept_in, f"a folder ({error.strerror})") from None
        memory = whole(who, "memory", memory, least=1)
        return replace(self, walking=Walking(executor, device, memory, folder, progress))

    def run(self, kernel: Kernel[Any]) -> Arrays:
        """One pass: what the kernel makes of the parts, put together in their order."""
        return self.walking.kept(
            lambda: fingerprint(kernel, self.names, self.keys, self.lengths),
            lambda: kernel.combined(self._walk(kernel)),
        )

    def _walk(self, kernel: Kernel[Any]) -> Iterator[tuple[slice, Any]]:
        spans = list(parts(self.lengths, self.dim))
        alone = replace(self, walking=Walking())  # an executor does not travel
        items = ((alone[span], kernel.of_part(span), self.walking.device) for span in spans)
        show, token = self.walking.progress, self.dim
        if show:
            token *= np.asarray(self.format.tokens(self.keys[0])).itemsize  # bytes
        with byte_bar(int(self.lengths.sum()) * token, kernel.words, show) as advance:
            for span, result in zip(spans, self.walking.results(_made, items), strict=True):
                advance(int(self.lengths[span].sum()) * token)
                yield span, result

    @cached_property
    def summary(self) -> BagSummary:
        """Range and moments of each bag."""
        return summary_of(self)

    @property
    def room(self) -> int:
        """Numbers that what is made of the bags together may take."""
        return self.walking.memory // 8

    @property
    def fits(self) -> bool:
        """Whether all bags can be in memory at once: as double precision in half of it."""
        return int(self.lengths.sum()) * self.dim * 8 <= machine_memory() / 2

    def count(self, weights: FloatArray) -> int:
        """Tokens of bags with a weight (n,)."""
        return int(self.lengths[weights > 0].sum())

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

    @property
    def centres(self) -> bool:
        """Whether coordinates are the centres of patches, not their corners."""
        return getattr(self.format, "centres", False)

    def in_micrometres(self, bag: int) -> bool:
        """Whether coordinates of one bag are in micrometres, not in pixels."""
        asked = getattr(self.format, "in_micrometres", None)
        try:
            return asked is not None and asked(self.keys[bag])
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
        tokens = [first.tokens, *(self.read(bag).tokens for bag in range(1, len(self)))]
        offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        return Bags(tokens[0] if len(tokens) == 1 else np.concatenate(tokens), offsets)


def _made(item: tuple[BagSource, Kernel[Any], str | None]) -> Any:
    """What a kernel makes of a part."""
    source, kernel, device = item
    return kernel(source.load(), device)


def as_bags(X: Any, mask: ArrayLike | None = None, n_tokens: int | None = None) -> Walked:
    """Bags of a source as they are; all else as `Bags.of` takes it."""
    if not isinstance(X, BagSource):
        return Bags.of(X, mask, n_tokens)
    if mask is not None:
        raise InvalidInput("mask must be None for a BagSource: leave out what does not count")
    return X
