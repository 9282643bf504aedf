"""What the site's pages say: their code with its output, their prose, and the numbers in both."""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
NUMBER = re.compile(r"(?<![\w.])[-−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?(?![\d\w])")
TOLERANCE = re.compile(r"# ± ([\d.]+)")


def value(text: str) -> float:
    """Of a number as it is written: 5,000 and −0.23."""
    return float(text.replace(",", "").replace("−", "-"))


def last_place(text: str) -> float:
    """One unit of the last digit that is written: 0.01 for 0.23, 10 for 170, 1 for 7."""
    digits = text.replace(",", "").lstrip("-−")
    if "e" in digits:
        mantissa, exponent = digits.split("e")
        return last_place(mantissa) * 10 ** int(exponent)
    if "." in digits:
        return 10.0 ** -len(digits.split(".")[1])
    return 10.0 ** (len(digits) - len(digits.rstrip("0"))) if digits.strip("0") else 1.0


class NumberChecker(doctest.OutputChecker):
    """Output as it is written, its numbers to a unit of their last digit: other processors round
    otherwise. A comment `# ± 20` in the code allows more, and is read by who reads the page."""

    def __init__(self, allowed: float = 0.0) -> None:
        self.allowed = allowed

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        expected, printed = NUMBER.findall(want), NUMBER.findall(got)
        words = [" ".join(NUMBER.sub("#", text).split()) for text in (want, got)]
        return (
            words[0] == words[1]
            and len(expected) == len(printed)
            and all(
                abs(value(a) - value(b)) <= max(self.allowed, 1.01 * step(a))
                for a, b in zip(expected, printed, strict=True)
            )
        )


def step(text: str) -> float:
    """What a printed number may be off: a unit of its last decimal; whole numbers are exact."""
    return last_place(text) if "." in text or "e" in text else 0.0


def run(page: Path) -> doctest.TestResults:
    """All code of a page, in order, with its tolerances."""
    test = doctest.DocTestParser().get_doctest(page.read_text(), {}, page.name, str(page), 0)
    runner = doctest.DocTestRunner(NumberChecker())
    checker = runner._checker  # type: ignore[attr-defined]
    results, examples = doctest.TestResults(0, 0), test.examples
    for example in examples:
        stated = TOLERANCE.search(example.source)
        checker.allowed = float(stated[1]) if stated else 0.0
        test.examples = [example]
        outcome = runner.run(test, clear_globs=False)
        results = doctest.TestResults(results.failed + outcome.failed, results.attempted + 1)
    return results


def sections(page: Path) -> Iterator[tuple[str, str, str]]:
    """Title, prose and code (with its output) of each section of a page."""
    for part in re.split(r"^(?=## )", page.read_text(), flags=re.MULTILINE):
        title = part.splitlines()[0].strip("# ")
        blocks = re.findall(
            r"^```(?:python|console)\n(.*?)^```", part, flags=re.MULTILINE | re.DOTALL
        )
        prose = re.sub(r"^```.*?^```", "", part, flags=re.MULTILINE | re.DOTALL)
        prose = re.sub(r"^:.*$", "", prose, flags=re.MULTILINE)  # how cards are laid out
        commands = re.findall(r"^    .*$", prose, flags=re.MULTILINE)
        prose = re.sub(r"^    .*$", "", prose, flags=re.MULTILINE)
        prose = re.sub(r"^\d+\. ", "", prose, flags=re.MULTILINE)  # of lists
        named = re.findall(r"`[^`]*`", prose)  # names and values of parameters
        prose = re.sub(r"`[^`]*`", " ", prose)
        prose = re.sub(r"\]\([^)]*\)", "] ", prose)  # where links go
        yield title, prose, "\n".join([*blocks, *commands, *named])


def unfounded(prose: str, code: str) -> list[str]:
    """Numbers of the prose that its code neither takes nor prints, as they are or as percent."""
    known = [value(text) for text in NUMBER.findall(code.replace("_", ""))]
    wrong = []
    for match in NUMBER.finditer(prose):
        text = match[0]
        scale = 100 if prose[match.end() :].lstrip().startswith("%") else 1
        near = 0.51 * last_place(text)
        if not any(abs(value(text) - scale * each) <= near for each in known):
            wrong.append(text)
    return wrong
