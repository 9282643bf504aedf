"""The pool: newest wishes, shared work, fairness, deaths."""

from __future__ import annotations

import asyncio
import time

import pytest

import process_tasks
from sparsetoken.app.workers import Outdated, Pool
from sparsetoken.support.errors import WorkerDied


def with_pool(story, workers=1):
    pool = Pool(workers)
    try:
        return asyncio.run(story(pool))
    finally:
        pool.close()


async def begun(*wishes):
    """Wishes in order, each under way before the next."""
    tasks = []
    for wish in wishes:
        tasks.append(asyncio.ensure_future(wish))
        await asyncio.sleep(0.02)
    return tasks


def test_the_newest_wish_of_a_page_counts():
    async def story(pool):
        tasks = await begun(
            pool.ask(("a", "kind"), process_tasks.nap, 1),
            pool.ask(("a", "kind"), process_tasks.echo, 2),
            pool.ask(("b", "kind"), process_tasks.echo, 3),
            pool.ask(("a", "kind"), process_tasks.echo, 4),
        )
        start = time.monotonic()
        with pytest.raises(Outdated):
            await tasks[1]
        assert time.monotonic() - start < 1  # at once
        return [await tasks[k] for k in (0, 2, 3)]

    assert with_pool(story) == [{"done": "nap"}, {"done": 3}, {"done": 4}]


def test_work_is_shared_and_kept():
    async def story(pool):
        start = time.monotonic()
        tasks = await begun(*(pool.ask((str(k), "kind"), process_tasks.nap, 1) for k in range(20)))
        found = await asyncio.gather(*tasks)
        found.append(await pool.ask(("late", "kind"), process_tasks.nap, 1))
        return found, time.monotonic() - start

    found, took = with_pool(story)
    assert found == [{"done": "nap"}] * 21 and took < 3.9  # one nap of two seconds


def test_urgent_work_comes_first_and_then_who_was_served_longest_ago():
    order = []

    async def story(pool):
        async def ask(page, argument, urgency=0):
            await pool.ask((page, f"{argument}"), process_tasks.echo, argument, urgency=urgency)
            order.append(argument)

        nap = asyncio.ensure_future(pool.ask(("greedy", "nap"), process_tasks.nap, 0))
        await asyncio.sleep(0.05)
        tasks = await begun(ask("greedy", 1), ask("greedy", 2), ask("other", 3),
                            ask("greedy", 4, urgency=-1))  # fmt: skip
        await asyncio.gather(nap, *tasks)

    with_pool(story)
    assert order[:2] == [4, 3] and sorted(order) == [1, 2, 3, 4]


def test_long_work_leaves_a_process_to_others_and_ends_when_nobody_waits():
    async def story(pool):
        long = await begun(
            *(pool.ask((str(k), "plan"), process_tasks.nap, k, long=True) for k in range(3))
        )
        start = time.monotonic()
        assert await pool.ask(("x", "kind"), process_tasks.echo, 9) == {"done": 9}
        assert time.monotonic() - start < 1.5
        for task in long:
            task.cancel()
        await asyncio.gather(*long, return_exceptions=True)
        assert not pool._waiting
        while pool._begun:
            await asyncio.sleep(0.05)
        return await pool.ask(("x", "kind"), process_tasks.echo, 10)

    assert with_pool(story, workers=2) == {"done": 10}


def test_a_process_that_dies_is_said_and_replaced():
    async def story(pool):
        with pytest.raises(WorkerDied):
            await pool.ask(("a", "kind"), process_tasks.die, 0)
        return await pool.ask(("a", "kind"), process_tasks.echo, 6)

    assert with_pool(story) == {"done": 6}


def test_errors_reach_everybody_who_waits_and_are_not_kept():
    async def story(pool):
        tasks = await begun(*(pool.ask((p, "kind"), process_tasks.echo) for p in "ab"))
        for found in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(found, TypeError)
        return await pool.ask(("a", "kind"), process_tasks.echo, 1)

    assert with_pool(story) == {"done": 1}


def test_who_goes_away_is_not_waited_for():
    async def story(pool):
        nap, gone = await begun(
            pool.ask(("a", "nap"), process_tasks.nap, 0),
            pool.ask(("b", "kind"), process_tasks.die, 1),
        )
        gone.cancel()
        await nap
        return await pool.ask(("c", "kind"), process_tasks.echo, 2)  # the deadly one never began

    assert with_pool(story) == {"done": 2}
