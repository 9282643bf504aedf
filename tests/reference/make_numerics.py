"""The reference values of this version of the numerics: public results of every kind.

    python tests/reference/make_numerics.py

writes numerics.json beside it. Run it after `NUMERICS` was raised, and only then: the test
`tests/theory/test_numerics.py` fails if values moved and the version did not.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import sparsetoken as st
from sparsetoken.support.numerics import NUMERICS

PATH = Path(__file__).parent / "numerics.json"

# Relative tolerances: what processors and numeric libraries share. Exact laws are solved to 1e-9;
# clouds of draws are compressed and summed in other orders; a simulation draws other numbers where
# a chi-square's rejection meets another last digit, which is why it has one repeat of few samples.
EXACT, DRAWN = 1e-7, 2e-5

TASK = st.Task(10, 1, 5.0)
RARE = st.Task(20, 2, 3.0, 0.2)
BEYOND = st.Task(12, st.Discrete([1, 3]), st.Discrete([3.0, 5.0]), 0.4)
PROTOCOL = st.Protocol(2.0, 4.0, ridge=1e-2)


def questions() -> dict[str, tuple[float, Callable[[], float]]]:
    """Name → (tolerance, computation)."""
    found: dict[str, tuple[float, Callable[[], float]]] = {}

    def ask(name: str, tolerance: float, compute: Callable[[], float]) -> None:
        found[name] = (tolerance, compute)

    for loss in (st.Square(), st.Logistic(), st.SquaredHinge(), st.Huber()):
        protocol = st.Protocol(2.0, 4.0, loss, 1e-2)
        for task, word in ((TASK, "even"), (RARE, "rare")):
            for classifier in (st.Pooled(), st.Vectorized(), st.Attention()):
                tolerance = DRAWN if classifier == st.Attention() else EXACT
                name = f"{type(classifier).__name__} {type(loss).__name__} {word}"
                for metric in ("test_error", "train_loss", "auc"):
                    ask(
                        f"predict {name} {metric}",
                        tolerance,
                        lambda t=task, c=classifier, p=protocol, m=metric: getattr(
                            st.predict(t, c, p), m
                        ),
                    )
            ask(
                f"align {type(loss).__name__} {word}",
                EXACT,
                lambda t=task, p=protocol: st.align(t, p).cosine,
            )
    for weighting in (st.HardMax(), st.TopK(3), st.Sparsemax()):
        ask(
            f"predict {weighting!r}",
            DRAWN,
            lambda w=weighting: st.predict(TASK, st.Attention(weighting=w), PROTOCOL).test_error,
        )
    ask("predict beyond", DRAWN, lambda: st.predict(BEYOND, st.Attention(), PROTOCOL).test_error)
    for classifier in (st.Pooled(), st.Vectorized()):
        name = type(classifier).__name__
        ask(f"capacity {name}", EXACT, lambda c=classifier: st.capacity(TASK, c))
        ask(f"oracle {name}", EXACT, lambda c=classifier: st.oracle_error(TASK, c))
        ask(
            f"predict at 100 {name}",
            DRAWN,
            lambda c=classifier: st.predict(TASK, c, PROTOCOL, dim=100).test_error,
        )
    ask("capacity attention", DRAWN, lambda: st.capacity(TASK, st.Attention(0.9, 1.5)))
    ask("oracle attention", DRAWN, lambda: st.oracle_error(TASK, st.Attention()))
    ask("bayes", DRAWN, lambda: st.bayes_error(TASK))
    ask("bayes rare", DRAWN, lambda: st.bayes_error(RARE))
    ask("steps", EXACT, lambda: st.best_steps(RARE, st.Logistic(), 2.0).cosine)
    for classifier in (st.Pooled(), st.Attention()):
        ask(
            f"simulate {type(classifier).__name__}",
            DRAWN,
            lambda c=classifier: st.simulate(TASK, c, PROTOCOL, 30, 1, seed=3).test_error[0],
        )
    ask(
        "simulate one class",
        EXACT,
        lambda: st.simulate(st.Task(5, 1, 4.0, 1e-6), st.Pooled(), PROTOCOL, 30, 1).test_error[0],
    )
    return found


def main() -> None:
    values = {name: float(compute()) for name, (_, compute) in questions().items()}
    PATH.write_text(json.dumps({"numerics": NUMERICS, "values": values}, indent=1) + "\n")
    print(f"{len(values)} values of version {NUMERICS}")


if __name__ == "__main__":
    main()
