"""What is in a user's bags and what more of them would give, in the words of a command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import sparsetoken as st
from sparsetoken.cli.output import Row, Voice, note
from sparsetoken.support.errors import InvalidInput

if TYPE_CHECKING:
    from sparsetoken.cli.reading import Walked

_MORE = (1, 2, 4, 8)  # times as many labelled bags
_FEWER = 0.4  # of the bags: what the smaller of two measurements learns from
_PILOT = 1 << 28  # numbers of bags from which a signal is estimated, where not all fit: 2 GiB
_LEAST_DIM = 3  # of a plan


class Labelled(NamedTuple):
    """Bags, what they are labelled, and their groups if they have any."""

    bags: Walked
    labels: NDArray[Any]
    groups: NDArray[Any] | None

    def loaded(self, seed: int) -> Labelled:
        """All of them in memory; as many as it has room for, drawn at random."""
        bags = self.bags
        if bags.fits:
            return self._replace(bags=bags.load())
        order = np.random.default_rng(seed).permutation(len(bags))
        count = int(np.sum(np.cumsum(bags.lengths[order]) * bags.dim <= _PILOT))
        note(f"what is in the bags is estimated from {count} of them, which memory has room for")
        places = np.sort(order[:count])
        groups = None if self.groups is None else self.groups[places]
        return Labelled(bags[places].load(), self.labels[places], groups)


def signal_tokens(
    labelled: Labelled, signal: Any, seed: int, voice: Voice
) -> st.TokenPosterior | None:
    """Which tokens carry the signal, for maps; None where that cannot be told."""
    if signal is None:
        note("no maps of tokens (score --maps) for several labels; --positive LABEL has them")
        return None
    voice.doing("learning which tokens carry the signal")
    try:
        bags, labels, groups = labelled.loaded(seed)
        tokens = st.TokenPosterior(positive=signal).fit(bags, labels, groups=groups)
    except (InvalidInput, st.ConvergenceError) as error:
        note(f"no maps of tokens (score --maps): {error}")
        return None
    if not tokens.found_:
        note(
            "no maps of tokens (score --maps): no signal along one direction, evidence "
            f"{tokens.evidence_:.1f} standard errors"
        )
        return None
    return tokens


def subsampling_cost(
    labelled: Labelled, signal: Any, max_tokens: int, seed: int, voice: Voice
) -> str:
    """What it costs to keep some tokens of each bag, by the task that whole ones come from."""
    voice.doing("estimating what is in whole bags, for what --max-tokens costs")
    try:
        bags, labels, groups = labelled.loaded(seed)
        pilot = st.estimate_task(bags, labels == signal, groups=groups, measure=False)
        if pilot.task is None:
            raise InvalidInput("no signal was found in whole bags")
        dim = max(_LEAST_DIM, round(pilot.effective_dim))
        samples = len(labelled.bags)
        cost = st.max_tokens_cost(pilot.task, max_tokens, dim=dim, samples=samples, seed=seed)
        words = f"by theory alone: {cost}"
    except (InvalidInput, st.ConvergenceError) as error:
        words = f"what --max-tokens costs cannot be told: {error}"
    voice.say(f"{words[:1].upper()}{words[1:].removesuffix('.')}.")
    return words


def pilot_of(labelled: Labelled, signal: Any, seed: int, voice: Voice) -> st.Pilot:
    """What is in the bags."""
    voice.doing("estimating what is in the bags")
    bags, labels, groups = labelled.loaded(seed)
    pilot = st.estimate_task(bags, labels == signal, groups=groups)
    voice.say("\n" + pilot.summary())
    return pilot


def plans_of(
    pilot: st.Pilot, targets: Mapping[str, float | None], remark: str, voice: Voice
) -> Row:
    """What more bags like these would give, and how many reach a target."""
    sizes = [factor * pilot.bags for factor in _MORE]
    voice.doing(f"planning for {', '.join(map(str, sizes))} bags")
    plans = [pilot.plan(samples=size) for size in sizes]
    voice.say(f"Errors with more labelled bags, with {pilot.level:.0%} intervals:")
    voice.show([plan.row() for plan in plans])
    voice.say(f"Forecasts are for attention and pooled; {remark}.")
    answer: Row = {"plans": plans}
    meant: dict[int | str, st.PilotPlan] = dict(zip(sizes, plans, strict=True))
    if any(target is not None for target in targets.values()):
        answer["target"] = meant["the target"] = pilot.plan(**targets)
        voice.say(answer["target"].headline)
    for warning in warnings_once(meant):
        voice.say(f"Warning for {warning}.")
    return answer


def plan_for_fewer(pilot: st.Pilot) -> st.PilotPlan:
    """What should have come of fewer bags, which a report shows beside what came."""
    return pilot.plan(samples=round(_FEWER * pilot.bags))


def warnings_once(plans: Mapping[int | str, st.PilotPlan]) -> list[str]:
    """Warnings of plans for so many bags, or for "the target": each once, after all it is for."""
    sizes_of: dict[str, list[int | str]] = {}
    for size, plan in plans.items():
        for warning in plan.warnings:
            sizes_of.setdefault(warning, []).append(size)
    sentences = []
    for warning, sizes in sizes_of.items():
        numbers = [str(size) for size in sizes if isinstance(size, int)]
        words = [f"{', '.join(numbers)} bags"] if numbers else []
        words += [size for size in sizes if isinstance(size, str)]
        sentences.append(f"{' and '.join(words)}: {warning}")
    return sentences
