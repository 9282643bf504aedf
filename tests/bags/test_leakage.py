"""Nearly the same bag in two groups: found however it was saved, and nothing else is."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest
from sklearn.datasets import load_digits

import sparsetoken as st
from sparsetoken.bags import leakage
from sparsetoken.bags.leakage import _CODES
from sparsetoken.cli import main
from sparsetoken.support.errors import InvalidInput

RNG = np.random.default_rng(0)


def bfloat16(tokens):
    """The eight leading bits of each number, rounded."""
    bits = tokens.astype(np.float32).view(np.uint32)
    return ((bits + 0x8000) & 0xFFFF0000).view(np.float32)


COPIES = {
    "exact": lambda tokens: tokens,
    "single": lambda tokens: tokens.astype(np.float32),
    "half": lambda tokens: tokens.astype(np.float16),
    "brain": bfloat16,
    "shuffled": lambda tokens: RNG.permutation(tokens),
    "part": lambda tokens: RNG.permutation(tokens)[: int(0.9 * len(tokens))].astype(np.float16),
    "more": lambda tokens: np.concatenate([tokens, RNG.standard_normal((4, tokens.shape[1]))]),
    "third": lambda tokens: tokens[: len(tokens) // 3],
}


def pairs(bags, groups=None, **settings):
    table = st.find_duplicates(bags, groups, **settings)
    return list(zip(table.bag, table.other, strict=True))


@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize(("dim", "offset"), [(2, 0.0), (8, 3.0), (300, 0.5)])
def test_copies_are_found(copy, dim, offset):
    slides = [offset + RNG.standard_normal((60, dim)) for _ in range(30)]
    assert pairs(slides) == []
    slides[17] = COPIES[copy](slides[5])
    assert pairs(slides) == [(5, 17)]


def test_units_and_offsets_of_coordinates_do_not_matter():
    units = np.geomspace(1e-6, 1e6, 10)
    slides = [units * (RNG.standard_normal((40, 10)) + 1) for _ in range(30)]
    assert pairs(slides) == []
    slides[3] = RNG.permutation(slides[20]).astype(np.float32)
    assert pairs(slides) == [(3, 20)]


def test_long_bags_are_known_by_some_of_their_tokens():
    slides = [RNG.standard_normal((4 * _CODES, 6)).astype(np.float32) for _ in range(12)]
    slides[7] = RNG.permutation(slides[2])[:_CODES].astype(np.float16)  # a quarter
    assert pairs(slides) == [(2, 7)]
    strange = RNG.standard_normal((_CODES, 6))
    slides[7] = np.concatenate([slides[2][: 3 * _CODES // 5], strange])
    assert pairs(slides) == []  # 3 of 8 tokens
    assert pairs(slides, share=0.3) == [(2, 7)]


def test_bags_of_one_group_may_be_the_same():
    slides = [RNG.standard_normal((30, 5)) for _ in range(10)]
    slides[4] = slides[8] = slides[1]
    names = ["ann" if bag in (1, 4) else f"other {bag}" for bag in range(10)]
    table = st.find_duplicates(slides, names)
    assert list(zip(table.bag, table.other, strict=True)) == [(1, 8), (4, 8)]
    assert table.group.tolist() == ["ann", "ann"] and table.other_group.tolist() == ["other 8"] * 2
    assert table.name.tolist() == ["1", "4"] and np.all(table.shared == 1.0)


def strangers():
    """Collections without copies, some of whose tokens occur in many bags."""
    images, _ = load_digits(return_X_y=True)
    rng = np.random.default_rng(3)
    background = rng.standard_normal((200, 16))
    words = rng.standard_normal((50, 16))
    yield "model", list(st.Task(10, 2, 3.0).sample(300, 12, rng=0).tokens)
    yield "no signal", list(st.Task(3, 1, 0.0).sample(300, 1, rng=0).tokens)
    yield "one number", [1000 + rng.standard_normal((30, 1)) for _ in range(60)]
    yield "digits", list(images[rng.choice(len(images), (300, 10))])
    yield "many digits", list(images[rng.choice(len(images), (100, 300))])
    yield "few different digits", list(images[rng.choice(20, (200, 8))])
    yield "constant", [np.ones((5, 3))] * 20
    yield "two kinds of constants", [np.full((5, 3), bag % 2, dtype=float) for bag in range(20)]
    yield "pairs of constants", [np.full((5, 3), bag // 2, dtype=float) for bag in range(20)]
    yield (
        "background",
        [
            np.concatenate([background[rng.permutation(200)[:180]], rng.standard_normal((20, 16))])
            for _ in range(40)
        ],
    )
    yield (
        "padding",
        [
            np.concatenate([np.zeros((90, 16)), rng.standard_normal((rng.integers(1, 10), 16))])
            for _ in range(40)
        ],
    )
    yield "words", [words[rng.zipf(1.5, 12) % 50] for _ in range(200)]
    yield "scaled", [(1 + 0.05 * bag) * background[:50] for bag in range(5)]
    yield "one bag", [background]


def test_strangers_are_not_found():
    for name, bags in strangers():
        assert pairs(bags) == [], name


def test_no_false_alarm_in_many_collections():
    """Digits drawn with replacement, from fewer and fewer images."""
    images, _ = load_digits(return_X_y=True)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        pool = images[: int(rng.choice([30, 100, 500]))]
        assert pairs(list(pool[rng.choice(len(pool), (80, 12))])) == []


class Stored:
    def __init__(self, tokens):
        self.stored, self.read = tokens, []

    def tokens(self, key):
        self.read.append(key)
        return self.stored[key]

    def coordinates(self, key):
        return None


def test_bags_on_disk_are_read_once_but_for_a_few():
    tokens = {f"slide {bag}": RNG.standard_normal((20, 4)) for bag in range(100)}
    tokens["slide 70"] = tokens["slide 9"][::-1].astype(np.float16)
    stored = Stored(tokens)
    source = st.BagSource(tuple(tokens), np.full(100, 20), 4, tuple(tokens), stored)
    table = st.find_duplicates(source)
    assert table[["name", "other_name"]].values.tolist() == [["slide 9", "slide 70"]]
    assert len(stored.read) == 100 + 16 + 2  # all, those that say the units, those suspected


def test_what_cannot_be_asked():
    bags = np.ones((3, 2, 2))
    with pytest.raises(InvalidInput, match="share must be a number above 0 and at most 1"):
        st.find_duplicates(bags, share=0.0)
    with pytest.raises(InvalidInput, match="find_duplicates: groups must have one name"):
        st.find_duplicates(bags, [1, 2])


def test_fit_warns_of_copies_by_name(tmp_path, capsys):
    sample = st.Task(20, 1, 4.0).sample(12, 4, rng=0)
    sample.tokens[7] = sample.tokens[2][::-1].astype(np.float16)
    path, words = tmp_path / "bags.npz", np.array([f"p{bag // 2}" for bag in range(12)])
    np.savez(path, X=sample.tokens, y=np.arange(12) % 2, patient=words)
    arguments = ["fit", str(path), "--poolings", "pooled", "--folds", "2", "--no-progress"]
    assert main([*arguments, "--group", "patient"]) == 0
    assert (
        "Warning: bags 2 and 7 of groups p1 and p3 are nearly the same" in capsys.readouterr().out
    )
    assert main(arguments) == 0
    assert "Warning: bags 2 and 7 are nearly the same, 100% of" in capsys.readouterr().out


@pytest.mark.slow
def test_thousands_of_bags_take_seconds():
    bags = [RNG.standard_normal((1000, 64)).astype(np.float32) for _ in range(2000)]
    bags[1500] = RNG.permutation(bags[30]).astype(np.float16)
    start = time.perf_counter()
    assert pairs(bags) == [(30, 1500)]
    assert time.perf_counter() - start < 120


def test_units_are_told_by_some_tokens_of_one_bag_at_a_time(monkeypatch):
    """As from all tokens, in the memory of one bag."""
    slides = [RNG.standard_normal((20_000, 4)) * [1, 2, 3, 0] + [0, 9, 0, 5] for _ in range(16)]
    bags = st.Bags.of(slides)
    tracemalloc.start()
    coder = leakage._Coder.of(bags)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * slides[0].nbytes
    tokens = np.concatenate(slides)
    np.testing.assert_allclose(coder.centre, tokens.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(coder.per_deviation[:3], 1 / tokens.std(axis=0)[:3], rtol=0.05)
    assert coder.per_deviation[3] == 0
    monkeypatch.setattr(leakage, "_LOOKED_AT", 20_000)
    exact = leakage._Coder.of(bags)
    np.testing.assert_allclose(exact.centre, tokens.mean(axis=0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(exact.per_deviation[:3], 1 / tokens.std(axis=0)[:3], rtol=1e-9)


def test_looking_for_copies_shows_a_bar(capsys):
    slides = [RNG.standard_normal((30, 5)) for _ in range(4)]
    st.find_duplicates(slides, progress=True)
    assert "copies" in capsys.readouterr().err
    st.find_duplicates(slides)
    assert capsys.readouterr().err == ""
