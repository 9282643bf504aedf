r"""`KmerEncoder`: sequences of amino acids as frequencies of k-mers over six kinds of them.

Dayhoff's kinds are amino acids that replace each other in evolution: small AGPST, cysteine C,
acids and their amides DENQ, bases HKR, aliphatic ILMV, aromatic FWY. A sequence of m letters has
m − k + 1 k-mers; coordinate j is the share of them that are the j-th of 6^k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.checks import settle, whole
from sparsetoken.support.errors import InvalidInput

_KINDS = ("AGPST", "C", "DENQ", "HKR", "ILMV", "FWY")
_CODES = {letter: code for code, kind in enumerate(_KINDS) for letter in kind}
_LONGEST = 4  # 1296 coordinates; one more would be 7776


@dataclass(frozen=True)
class KmerEncoder:
    """Frequencies of k-mers of six kinds of amino acids: 6^k numbers a sequence.

    Nothing is learned: an embedding of a trained model will tell more.

    >>> KmerEncoder(k=1)(["CASS", "FYFC"]).tolist()
    [[0.75, 0.25, 0.0, 0.0, 0.0, 0.0], [0.0, 0.25, 0.0, 0.0, 0.0, 0.75]]
    """

    k: int = 3

    def __post_init__(self) -> None:
        settle(self, k=whole(KmerEncoder, "k", self.k, least=1, most=_LONGEST))

    def __call__(self, sequences: list[str]) -> FloatArray:
        """(L, 6^k) of L sequences, float32."""
        frequencies = np.zeros((len(sequences), len(_KINDS) ** self.k), np.float32)
        base = len(_KINDS) ** np.arange(self.k)[::-1]
        for row, sequence in enumerate(sequences):
            try:
                codes = np.array([_CODES[letter] for letter in sequence], dtype=np.int64)
            except KeyError as error:
                raise InvalidInput(
                    f"KmerEncoder: sequences must have letters of the 20 amino acids, got "
                    f"{error.args[0]!r} in {sequence[:40]!r}"
                ) from None
            if len(codes) < self.k:
                raise InvalidInput(
                    f"KmerEncoder: sequences must have at least k={self.k} letters, got "
                    f"{sequence!r}"
                )
            words = np.lib.stride_tricks.sliding_window_view(codes, self.k) @ base
            np.add.at(frequencies[row], words, np.float32(1 / len(words)))
        return frequencies
