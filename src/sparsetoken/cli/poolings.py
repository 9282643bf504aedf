"""Poolings as a command compares them: which take too long, which do not suit, which is best."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

import sparsetoken as st
from sparsetoken.cli.output import Voice, note
from sparsetoken.support.errors import InvalidInput

if TYPE_CHECKING:
    import pandas as pd

    from sparsetoken.cli.reading import Walked

_LARGE = 1 << 21  # numbers in all tokens, below which no pooling takes a minute
# A pooling dominates that takes more than a minute, and twice as long as all others together. A
# choice: joint training of 200 bags of 1000 tokens in 512 dimensions takes 3.6 times as long.
_MOST_SECONDS, _MOST_TIMES = 60.0, 2.0


def quick_poolings(
    bags: Walked,
    labels: NDArray[Any],
    groups: NDArray[Any] | None,
    folds: int,
    wanted: str,
    voice: Voice,
) -> list[str] | None:
    """All that suit the bags but those that take by far the most time; None for all of them."""
    if int(bags.lengths.sum()) * bags.dim < _LARGE:
        return None
    voice.doing("estimating how long each pooling will take (--poolings chooses them)")
    seconds = st.rehearse_poolings(bags, labels, folds=folds, groups=groups)
    say_absent(seconds, voice)
    kept = {
        name
        for name in seconds
        # from disk, rounds of the posterior are more passes than all else together
        if name == wanted
        or not (dominates(name, seconds) or (name == "posterior" and not bags.fits))
    }
    note(
        ", ".join(
            f"{name} about {_duration(spent)}"
            + ("" if name in kept else f": left out; --poolings {name} to have it")
            for name, spent in seconds.items()
        )
    )
    return [name for name in seconds if name in kept]


def say_absent(suited: Iterable[str], voice: Voice) -> None:
    """A line on the poolings that do not suit the bags, and why."""
    absent = [name for name in st.ESTIMATORS if name not in set(suited)]
    words = []
    if names := [name for name in absent if name != "vectorized"]:
        words.append(f"{' and '.join(names)} would need all bags in memory")
    if "vectorized" in absent:
        words.append("vectorized needs bags of one length, not too many")
    if words:
        voice.say(f"(left out: {'; '.join(words)})")


def show_comparison(comparison: st.Comparison, voice: Voice) -> None:
    """The table, and why a pooling has no numbers in it."""
    hidden = ["error_se", "auc_se", "failure", "best"]
    rows: Any = comparison.table.drop(columns=hidden).to_dict("records")
    voice.show(rows)
    for row in comparison.rows:
        if row["failure"]:
            voice.say(f"{row['pooling']} has no numbers: {row['failure']}.")


def chosen_pooling(table: pd.DataFrame, wanted: str) -> str:
    """The one that is wanted, by its name or as the best."""
    names = list(table.pooling[1:])
    if wanted == "best":
        if not table.best.any():
            why = "; ".join(table.failure[1:])
            raise st.ConvergenceError(f"fit: no pooling arrives: {why}")
        return str(table.pooling[table.best].iloc[0])
    check_pooling(names, wanted)
    return wanted


def check_pooling(names: list[str], wanted: str) -> None:
    """That the one to save is among those compared."""
    if wanted not in names:
        raise InvalidInput(
            f"fit: pooling must be one of {', '.join(names)} for these bags, got {wanted!r}"
        )


def dominates(name: str, seconds: dict[str, float]) -> bool:
    """Whether a pooling takes by far the most time."""
    others = sum(spent for other, spent in seconds.items() if other != name)
    return seconds[name] > max(_MOST_SECONDS, _MOST_TIMES * others)


def _duration(seconds: float) -> str:
    return "1 s" if seconds < 1 else f"{seconds:.2g} s" if seconds < 100 else f"{seconds:.0f} s"
