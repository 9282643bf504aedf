"""`export_story`: the story as one HTML file that asks nothing of anybody.

Modules and styles go into it as they are, joined in the order of their imports, and the data as
JSON; a policy inside names the hashes of that script and that style, and allows nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from pathlib import Path, PurePosixPath

from sparsetoken.app.story import story_data
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.whole_files import NotAFile, target_file, whole_file

STATIC = Path(__file__).parent / "static"
_IMPORT = re.compile(r'^import \{([^}]*)\} from "(\.{1,2}/[^"]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)
_TITLE = "When does attention find what the mean misses?"
_START = """
const data = JSON.parse(document.getElementById("data").textContent);
const asked = () => Number(location.hash.slice(1)) || 1;
const story = mountStory(document.getElementById("story"), {
  data, step: asked(), onStep: (number) => history.replaceState(null, "", `#${number}`),
});
addEventListener("hashchange", () => story.show(asked()));
if (parent !== window) { // in a page: it may give the frame the height that the story takes
  new ResizeObserver(() => {
    const height = Math.ceil(document.body.getBoundingClientRect().height);
    parent.postMessage({ storyHeight: height }, "*");
  }).observe(document.body);
}
"""
_STYLE = """
:root { color-scheme: light dark; }
body { margin: 0; padding: 12px 16px 32px; background: #ffffff; color: #1b1b1b;
  font: 15px/1.45 system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
header, footer { max-width: 1040px; margin: 0 auto; }
h1 { font-size: 1.25rem; margin: 4px 0 12px; }
footer { color: #5d5d5d; font-size: 0.85rem; margin-top: 24px; }
@media (prefers-color-scheme: dark) {
  body { background: #14171a; color: #e8e8e8; }
  footer { color: #a9a9a9; }
}
"""


def export_story(path: str | os.PathLike[str]) -> Path:
    """Write the explorer's story as one HTML file for any browser, with or without a network.

    Six steps from one sample to what any learner can do: the numbers are computed now and are
    exact, samples are drawn by the browser that shows them. The file is below 1 MB, loads nothing
    from anywhere, and appears when it is whole.

    Parameters
    ----------
    path : str or path
        Of the file; one that is there is replaced.

    Returns
    -------
    Path
        The same path.

    Raises
    ------
    InvalidInput
        If no file can be written there.

    Examples
    --------
    >>> export_story("/")
    Traceback (most recent call last):
        ...
    sparsetoken.InvalidInput: export_story: path must be a file that is new or regular, in a folder
    that is there (not a folder), got '/'
    """
    try:
        target_file(path)  # before seconds of computing
    except NotAFile as error:
        raise InvalidInput(f"export_story: path must be {error}") from None
    page = story_page().encode()
    with whole_file(path) as draft:
        draft.write_bytes(page)
    return Path(path)


def story_page() -> str:
    """The page: data computed now, samples drawn by whoever opens it."""
    script = "\n" + bundle("story/story.js", "mountStory") + _START
    style = "".join(
        f"\n{text.strip()}\n"
        for text in (_STYLE, _read("sample/sample.css"), _read("story/story.css"))
    )
    data = story_data()
    words = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    words = words.replace("<", "\\u003c")  # no </script> within
    policy = "; ".join((
        "default-src 'none'",
        f"script-src '{_hash(script)}'",
        f"style-src '{_hash(style)}'",
        "img-src data:",  # an icon of nothing, that none is asked for
        "base-uri 'none'",
        "form-action 'none'",
    ))  # fmt: skip
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{html.escape(policy, quote=False)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_TITLE}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<header><h1>{_TITLE}</h1></header>
<main id="story"></main>
<footer>Every number is exact, from sparsetoken {data["version"]}; samples are drawn here,
in your browser. Nothing is loaded from anywhere.</footer>
<script type="application/json" id="data">{words}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def bundle(entry: str, *wanted: str) -> str:
    """A module of `static/` and all that it imports as one script, each in a scope of its own.

    >>> bundle("sample/random.js", "makeRandom").count("const sample_random = (() => {")
    1
    """
    parts: dict[str, str] = {}
    _collect(entry, parts)
    return "\n".join([*parts.values(), f"const {{ {', '.join(wanted)} }} = {_scope(entry)};\n"])


def _collect(name: str, parts: dict[str, str]) -> None:
    """A module after those it imports: names it imports are taken out of their scopes."""
    source = _read(name)
    scope: list[str] = []
    for names, where in _IMPORT.findall(source):
        imported = os.path.normpath(PurePosixPath(name).parent / where).replace(os.sep, "/")
        if imported not in parts:
            _collect(imported, parts)
        scope.append(f"const {{{names}}} = {_scope(imported)};")
    body = _EXPORT.sub("", _IMPORT.sub("", source))
    if left := re.search(r"^\s*(import|export)\b.*", body, re.MULTILINE):
        raise RuntimeError(f"{name}: only named imports and exports are joined, not {left[0]!r}")
    exported = ", ".join(_EXPORT.findall(source))
    lines = [f"const {_scope(name)} = (() => {{", *scope, body.strip(), f"return {{ {exported} }};"]
    parts[name] = "\n".join([*lines, "})();"])


def _scope(name: str) -> str:
    return re.sub(r"\W", "_", name.removesuffix(".js"))


def _read(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
