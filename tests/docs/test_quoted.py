"""Figures quoted on pages without code: each is compared with the file its command has written.

What a figure may be off is half a unit of the last digit that the page writes.
"""

from __future__ import annotations

import json
import math
import re
import runpy
import sys

import pandas as pd
import pytest

import sparsetoken as st
import sparsetoken.planning.ridges as ridges
from pages import DOCS, NUMBER, last_place, value
from sparsetoken.model.attention import white_pooling
from sparsetoken.theory.capacity import separability_threshold

ROOT = DOCS.parent
RESULTS = ROOT / "benchmarks" / "results"
REPRODUCTION = DOCS / "reproduction"
MEASURED = (DOCS / "measured.md").read_text()
TRUST = (DOCS / "trust.md").read_text()


def close(quoted: str, true: float) -> None:
    assert abs(value(quoted) - true) <= 0.501 * last_place(quoted), (quoted, true)


def row(page: str, words: str) -> list[str]:
    """Numbers of the one line of a table that has these words, in order."""
    (line,) = (line for line in page.splitlines() if words in line and line.startswith("|"))
    return NUMBER.findall(re.sub(r"\]\([^)]*\)|`[^`]*`|[₀-₉]", " ", line))


def rows_of(page: str, heading: str) -> list[list[str]]:
    """Cells of the table below the line that begins so."""
    table = page[page.index(heading) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in table]


def test_the_gpu():
    result = json.loads((RESULTS / "gpu.json").read_text())
    seconds = {(each["loss"], each["by"][:8]): each for each in result["timings"]}
    (dim, samples, square, logistic, share, other, *_) = row(MEASURED, "GPU (H200")
    assert f"--dim {dim.replace(',', '')} --samples {samples.replace(',', '')}" in result["command"]
    close(square, seconds["Square()", "conjugat"]["sampling and fit (s)"])
    close(logistic, seconds["Logistic()", "conjugat"]["sampling and fit (s)"])
    close(share, 100 * seconds["Square()", "Cholesky"]["share of the matrix product"])
    close(other, 100 * seconds["Logistic()", "Cholesky"]["share of the matrix product"])


def test_the_table_of_the_guide_to_simulation():
    """Seconds, rates and pieces of the fit on the GPU."""
    page = (DOCS / "simulation.md").read_text()
    result = json.loads((RESULTS / "gpu.json").read_text())
    seconds = {(each["loss"], each["by"][:8]): each for each in result["timings"]}
    ceilings, pieces = result["ceilings"], result["pieces of the square loss"]
    product = ceilings["matrix product 8192³ (TFLOP/s)"]
    quoted = {
        name: NUMBER.findall(re.sub(r"2np² \+ p³/3", "", line))
        for name in ("square", "logistic")
        for line in page.splitlines()
        if line.startswith(f"| {name} |")
    }
    for name, loss in (("square", "Square()"), ("logistic", "Logistic()")):
        by = seconds[loss, "Cholesky"]
        expected = [seconds[loss, "conjugat"]["sampling and fit (s)"], by["sampling and fit (s)"]]
        expected += [by["rate (TFLOP/s)"], 100 * by["share of the matrix product"]]
        if name == "square":
            expected += [product]
        else:
            expected.insert(2, by["steps"])
        for text, each in zip(quoted[name], expected, strict=True):
            close(text, each)
    both = [seconds[loss, "Cholesky"] for loss in ("Square()", "Logistic()")]
    words = r"(\d+) and (\d+) TFLOP/s are executed \((\d+) % and (\d+) %\)"
    executed = [each["executed rate (TFLOP/s)"] for each in both]
    executed += [100 * each["executed share of the matrix product"] for each in both]
    for text, each in zip(re.search(words, page).groups(), executed, strict=True):
        close(text, each)
    words = (
        r"half the Gram matrix (\d+) ms \(the card's own rate on that shape is (\d+), not (\d+) "
        r"TFLOP/s\), coordinates on the CPU (\d+) ms, the Cholesky factor (\d+) ms, "
        r"normals (\d+) ms"
    )
    expected = [
        1000 * pieces["half of the Gram matrix (s)"],
        ceilings["plain Gram product of the size below (TFLOP/s)"],
        product,
        1000 * pieces["coordinates, on the CPU (s)"],
        1000 * pieces["Cholesky factor (s)"],
        1000 * pieces["normals and scaling (s)"],
    ]
    for text, each in zip(re.search(words, page).groups(), expected, strict=True):
        close(text, each)
    learned = result["message passing"]
    words = (
        r"in (\d+) dimensions, token by token, takes ([\d.]+) s a run of (\d+) rounds, ([\d.]+) s"
    )
    expected = [learned[key] for key in ("dim", "a repeat (s)", "rounds", "a repeat by NumPy (s)")]
    for text, each in zip(re.search(words, page).groups(), expected, strict=True):
        close(text, each)


def test_the_page_of_the_gallery_on_the_gpu(tmp_path, monkeypatch, capsys):
    """It runs anywhere, so that its numbers stand in it: they are those that were measured."""
    monkeypatch.chdir(tmp_path)
    page = runpy.run_path(str(ROOT / "examples" / "gallery" / "plot_10_gpu.py"))
    result = json.loads((RESULTS / "gpu.json").read_text())
    assert (page["command"], page["machine"]) == (result["command"], result["machine"])
    assert len(page["measured"]) == len(result["timings"])
    for each in result["timings"]:
        loss = each["loss"].lower().removesuffix("()")
        seconds, certificate = page["measured"][f"{loss}, {each['by'].split(' (')[0]}"]
        close(str(seconds), each["sampling and fit (s)"])
        assert abs(certificate / each["certificate"] - 1) < 0.05
        if "theory" in each:
            close(str(page["errors"][loss][0]), each["test error"])
            close(str(page["errors"][loss][1]), each["theory"])
    bags = json.loads((RESULTS / "gpu_bags.json").read_text())
    for name, quoted in page["bags"].items():
        close(str(quoted), bags[name])
    assert "1000 bags of 5000 tokens" in capsys.readouterr().out


def test_bags_on_a_gpu():
    result = json.loads((RESULTS / "gpu_bags.json").read_text())
    bags, tokens, dim, *_ = numbers = row(MEASURED, "from disk, 5.1 GB")
    assert [value(text) for text in (bags, tokens, dim)] == [
        result[name] for name in ("bags", "tokens", "dim")
    ]
    assert f"{result['passes']} passes" in MEASURED and result["passes"] == value(numbers[4])
    close(re.search(r"one H200 (\d+) s", MEASURED)[1], result["seconds"])


def test_given_values_that_are_wrong():
    """The table is what the command prints."""
    sys.path.insert(0, str(ROOT / "tests" / "reference"))
    from make_bayes_learning import PATH, deviations

    rows = json.loads(PATH.read_text())["rows"]
    table = rows_of(MEASURED, "| L | R | θ |")
    for cells, (number, name, given, right, error) in zip(table, deviations(rows), strict=True):
        names = ("length", "sparsity", "strength", "prevalence", "samples")
        assert [float(cell) for cell in cells[:5]] == [rows[number][name] for name in names]
        assert cells[5].replace(", ", "_") == name
        for cell, true in zip(cells[6:], (given, right, error), strict=True):
            close(cell, true)


def test_architectures():
    page = (DOCS / "architectures.md").read_text()
    folder = RESULTS / "architectures"
    timings = json.loads((folder / "timings.json").read_text())
    close(row(MEASURED, "six architectures")[3], timings["training (s)"])
    close(re.search(r"; (\d+) s on one H200, checks included", page)[1], timings["all (s)"])
    table = pd.read_csv(DOCS / "reproduction" / "architectures.csv")
    table = table[table.panel == "test error"]
    exact = table[table.series == "exact: attention, four stages"].set_index("x").theory
    attention_alone = []
    for name, *ratios, _ in rows_of(page, "| samples per dimension | 2"):
        measured = table[table.series == name].set_index("x").simulation
        true = [measured[x] / exact[x] for x in (2.0, 4.0, 8.0, 16.0, 32.0)]
        for quoted, each in zip(ratios, true, strict=True):
            close(quoted, each)
        if name in ("simple attention", "query, key and value", "several heads"):
            attention_alone += true
    low, high = re.search(r"error ([\d.]+) to ([\d.]+) times the exact curve", MEASURED).groups()
    close(low, min(attention_alone))
    close(high, max(attention_alone))


def test_random_plans():
    page, plans = (DOCS / "plans.md").read_text(), pd.read_csv(DOCS / "plans.csv")
    answered = plans.dropna(subset=["beyond"])
    assert f"{len(plans)} random plans" in page and f"of {len(answered)} |" in page
    for line, count in (
        ("more than 4 standard errors + 2/d |", (answered.beyond > 4).sum()),
        ("worse than an even split", (answered.worse_than_even_split > 2).sum()),
        ("limit of many dimensions in place", (answered.limit_beyond > 4).sum()),
    ):
        (found,) = re.findall(rf"^\|[^|]*{re.escape(line)}?[^|]*\|? ?(\d+) of", page, re.M)
        assert int(found) == count, line


@pytest.mark.slow
def test_solves_of_plans(monkeypatch):
    """How many a plan takes at your size; last digits of another processor move a few of them."""
    monkeypatch.setattr(ridges, "solve_many", ridges.solve_many)  # the script counts its calls
    planner = runpy.run_path(str(ROOT / "benchmarks" / "planner.py"))
    counts = []
    for name, (task, dim, question) in planner["QUESTIONS"].items():
        if name.startswith("forward"):
            planner["SOLVES"].clear()
            st.plan(task, dim, **question)
            counts.append(sum(planner["SOLVES"]))
    quoted = re.search(r"everything tuned; (\d+) to (\d+) solves", MEASURED).groups()
    for text, count in zip(quoted, (min(counts), max(counts)), strict=True):
        assert abs(value(text) / count - 1) < 0.03, counts


def test_forecasts():
    table = (ROOT / "benchmarks" / "real" / "results" / "planning.md").read_text()
    heads = "| classifier | forecasts | forecast: error"
    attention, pooled = rows_of(table, heads)[:2]
    guide = (DOCS / "bags.md").read_text()
    for words, cells in (("| attention | 0.", attention), ("| mean pooling | 0.", pooled)):
        (line,) = (line for line in guide.splitlines() if line.startswith(words))
        quoted = NUMBER.findall(line)
        # error and factor of forecast, theory alone, cross-validated error, power law; coverage
        for text, cell in zip(quoted, [*cells[2:10], cells[-1].rstrip("%")], strict=True):
            close(text, float(cell))
    # what no better constants, no bias, and no error of the curve would leave
    (line,) = (line for line in guide.splitlines() if line.startswith("True errors go"))
    pairs = re.findall(r"(0\.\d+) and (0\.\d+)", line)
    few = {tuple(cells[:2]): cells[3] for cells in rows_of(table, "| classifier | pilot")}
    true = [(attention[place], pooled[place]) for place in (12, 11, 10)]
    true += [(few["attention", size], few["pooled", size]) for size in ("200", "100")]
    for pair, cells in zip(pairs, true, strict=True):
        for text, cell in zip(pair, cells, strict=True):
            close(text, float(cell))
    model = rows_of(table[table.index("## Bags of the model itself") :], "| classifier | forecasts")
    (pair,) = re.findall(r"(\d+) ± \d+ % and (\d+) ± \d+ % too good", line)
    for text, cells in zip(pair, model, strict=True):
        close(text, -float(cells[13].split("%")[0]))
    quoted = row(MEASURED, "forecasts from 150 pilots")
    for cells, places in ((attention, (6, 8, 10)), (pooled, (7, 9, 11))):
        for place, cell in zip(places, (cells[2], cells[3], cells[-1].rstrip("%")), strict=True):
            close(quoted[place], float(cell))


def test_bags_of_digits():
    """The guide's table: its rows are those of the run that is kept, and so is what it says."""
    guide = (DOCS / "bags.md").read_text()
    *cases, means = rows_of(guide, "| images in a bag | bags | mean pooling")
    true = [sum(float(case[k]) for case in cases) / len(cases) for k in range(2, 7)]
    for quoted, each in zip(means[2:7], true, strict=True):
        close(quoted, each)
    mean, two, posterior, joint, trained = means[2:7]
    quoted = row(MEASURED, "bags of digits, accuracy")
    assert quoted[:5] == [two, posterior, joint, trained, mean]
    result = json.loads((RESULTS / "digits.json").read_text())
    assert f"`{result['command']}`" in guide
    kept = {(str(r["length"]), str(r["bags"]), r["classifier"]): r for r in result["rows"]}
    assert all(len(each["accuracies"]) == 10 for each in kept.values())
    names, ahead, times = ("mean pooling", "two-step", "posterior", "joint"), [], []
    for length, bags, *cells in cases:
        own = [kept.pop((length, bags, name)) for name in names]
        _, before, learned, _ = own
        for cell, each in zip(cells, own, strict=False):
            close(cell, each["accuracy"])
        for cell, each in zip(cells[6:9], own[1:], strict=True):
            close(cell, each["median_seconds"])
        gain, doubt = cells[5].lstrip("+").split(" ± ")
        close(gain, learned["more_accurate_by"])
        close(doubt, learned["more_accurate_standard_error"])
        ahead.append(learned["more_accurate_by"] / learned["more_accurate_standard_error"])
        times.append(learned["median_seconds"] / before["median_seconds"])
    assert not kept and min(ahead) > 1  # in each size by more than one standard error
    (words,) = re.findall(r"in (\d\.\d) to (\d\.\d) times its time", guide)
    for page in (words, quoted[5:7]):
        for text, ratio in zip(page, (min(times), max(times)), strict=True):
            close(text, ratio)
    assert max(times) < 3


def test_nothing_is_below_the_floor():
    result = json.loads((RESULTS / "floors.json").read_text())
    above = {
        (name, case["setting"]): (error - case["floor"][0]) / math.hypot(doubt, case["floor"][1])
        for case in result["rows"]
        for name, (error, doubt) in case["learners"].items()
    }
    learners, cases, least = row(MEASURED, "all that learns here against the floor")[:3]
    assert int(learners) * int(cases) == len(above) and int(cases) == len(result["rows"])
    assert f"`{result['command']}`" in MEASURED
    lowest = min(above, key=above.__getitem__)
    assert lowest[0] == "message passing" and above[lowest] > -3
    close(least, -above[lowest])


def test_the_explorer():
    """What scripts/record explorer has written; and that every target is met."""
    printed = (RESULTS / "explorer.txt").read_text()

    def numbers(words):
        (line,) = (line for line in printed.splitlines() if line.startswith(words))
        return [value(number) for number in NUMBER.findall(line.removeprefix(words))]

    size, curves, _ = numbers("first load:")
    median, _, late = numbers("slider step:")
    _, repaints, pause = numbers("drag:")
    one, _, none_refused = numbers("one link:")
    many, last, none_of_many_refused = numbers("40 states:")
    moves = value(NUMBER.findall(printed[printed.index("--minutes 10") + 12 :])[0])
    before, after = numbers("memory of the server:")
    assert "in 10 minutes, 0 errors" in printed and none_refused == none_of_many_refused == 0
    rows = {
        "| first load;": [size, curves, 400, 1.5],
        "| from a slider's event": [95, median, late, 60, 120],
        "| a real drag": [repaints, pause, 12, 250],
        "| a lecture": [40, 40, one, many, last, 4, 20],
        "| ten browsers for ten minutes": [moves, 0, before, after],
    }
    for words, true in rows.items():
        for quoted, number in zip(row(MEASURED, words), true, strict=True):
            close(quoted, number)
    for measured, target in ((size, 400), (curves, 1.5), (median, 60), (late, 120), (pause, 250)):
        assert measured < target
    assert repaints > 12 and one < 4 and last < 20


def test_probabilities_of_tokens():
    """The table of the guide is what its command printed: scripts/record tokens."""
    heading = "| bags | 0 to 0.1 | "
    quoted = rows_of((DOCS / "bags.md").read_text(), heading)
    for cells, true in zip(
        quoted, rows_of((RESULTS / "tokens.txt").read_text(), heading), strict=True
    ):
        assert cells[0] == true[0].replace("; 400 bags", "")
        for cell, other in zip(cells[1:], true[1:], strict=True):
            for text, number in zip(NUMBER.findall(cell), NUMBER.findall(other), strict=True):
                close(text, value(number))


def test_bags_of_images():
    table = pd.read_csv(ROOT / "benchmarks" / "real" / "results" / "accuracy.csv")
    guide = (DOCS / "bags.md").read_text()
    for source, size, mapped, network, difference, *_ in rows_of(guide, "| source | bags | mapped"):
        case = table[(table.source == source) & (table["size"] == int(size))]
        means = case.groupby("method").accuracy.mean()
        close(mapped, means["attention mapped"])
        close(network, means["mil hidden"])
        close(
            difference.strip("*+").split(" ±")[0], means["attention mapped"] - means["mil hidden"]
        )


def test_how_long_the_record_takes():
    """In words, of scripts/record and of the page on trust, against what each claim has noted."""
    notes = {path.stem: json.loads(path.read_text()) for path in REPRODUCTION.glob("*.json")}
    script = (ROOT / "scripts" / "record").read_text()
    minutes = re.search(r"paper's sizes \((\d+) minutes", script)[1]
    close(minutes, sum(note["seconds"] for note in notes.values()) / 60)
    minutes = re.search(r"\((\d+) minutes on two cores", TRUST)[1]
    close(minutes, notes["universality"]["seconds"] / 60)


@pytest.mark.slow
def test_scrambles_of_the_cloud():
    """How far they move what attention's law gives, in section 5 of the mathematics."""
    task = st.Task(length=10, sparsity=1, strength=5.0)
    protocol = st.Protocol(query_samples=2.0, readout_samples=4.0, ridge=1e-2)
    query = st.align(task, protocol)
    rows = []
    for seed in range(16):
        pooling = white_pooling(task, query.cosine, query.sharpness)
        fit = st.solve(pooling.law(seed), protocol.loss, protocol.ridge, protocol.readout_samples)
        tail = separability_threshold(pooling.tail_law(seed))
        rows.append((fit.test_error, fit.train_loss, float(tail)))
    table = pd.DataFrame(rows)
    page = (DOCS / "theory.md").read_text()
    words = r"error spreads by (\S+) of itself, the training loss by (\S+), the capacity by (\S+)\."
    for text, spread in zip(
        re.search(words, page).groups(), table.std() / table.mean(), strict=True
    ):
        close(text, spread)
    error = re.search(
        r"moves a test error by (\S+) of itself", (DOCS / "simulation.md").read_text()
    )
    close(error[1], table[0].std() / table[0].mean())


@pytest.mark.slow
def test_strengths_of_the_theory():
    """The strength that 1 % error takes, in section 8 of the mathematics."""
    page = (DOCS / "theory.md").read_text()
    quoted = re.search(r"1 % error is ([\d., ]+) at L = 10, 10², 10⁴, 10⁶", page)[1].split(", ")
    for text, length in zip(quoted, (10, 100, 10**4, 10**6), strict=True):
        needed = st.signal_threshold(st.Task(length, 1, 1.0), st.Attention(), error=0.01)
        assert abs(value(text) - float(needed)) < 0.011 + 4 * needed.standard_error
    pooled = st.signal_threshold(st.Task(100, 1, 1.0), st.Pooled(), error=0.01)
    close(re.search(r"`Pooled` needs ([\d.]+) √L", page)[1], float(pooled) / 10)


def test_the_readme_and_the_mathematics_agree():
    """Figures of the first page and of the README are those of one call."""
    exact = float(st.bayes_error(st.Task(length=10, sparsity=1, strength=5.0)))
    close(re.search(r"# (0\.\d+): the floor", (ROOT / "README.md").read_text())[1], exact)
    start = (DOCS / "start.md").read_text()
    close(re.search(r"no test whatever does better than (0\.\d+)", start)[1], exact)
