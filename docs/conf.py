"""The site: Sphinx with MyST. `make docs` builds it (scripts/build-site), into build/site.

Nothing is fetched when a page is opened: fonts and scripts are the theme's own, MathJax is copied
from its npm package.
"""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
from numpydoc.xref import DEFAULT_LINKS

import sparsetoken

HERE = Path(__file__).parent
project = "sparsetoken"
author = "The sparsetoken developers"
project_copyright = "The sparsetoken developers; BSD-3-Clause"
release = version = sparsetoken.__version__
language = "en"
PUBLIC = set(sparsetoken.__all__) - {"__version__"}  # each has a page

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_built", "reproduction/store*", "**/README.txt", "**/*.ipynb"]
templates_path = ["_templates"]

# pages in Markdown
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
mathjax_path = "mathjax/tex-svg-full.js"  # relative to _static; scripts/build-site puts it there
highlight_language = "default"  # Python if it is Python, doctests too; else as it stands
copybutton_prompt_text = r">>> |\.\.\. "  # of a doctest the code is copied, not what it prints
copybutton_prompt_is_regexp = True

# reference from the docstrings
autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say what is taken and given
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = True  # types that are public names lead to their pages
numpydoc_xref_ignore = "all"  # and nothing else does
numpydoc_xref_aliases = {name: name for name in DEFAULT_LINKS}  # theirs lead to other sites
numpydoc_xref_aliases |= {name: f"sparsetoken.{name}" for name in PUBLIC}
add_module_names = False

# examples: executed, each a notebook; one that has not changed is not executed again
sphinx_gallery_conf = {
    "examples_dirs": ["../examples/gallery", "../examples/tutorials"],
    "gallery_dirs": ["gallery", "tutorials"],
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "api/backreferences",
    "doc_module": ("sparsetoken",),
    "prefer_full_module": {r"sparsetoken\..*"},
    "remove_config_comments": True,
    "min_reported_time": 1,
    "show_memory": False,
    "write_computation_times": False,  # a page with tables from elsewhere
    "abort_on_example_error": True,
    "download_all_examples": True,
}

# how it looks
html_theme = "pydata_sphinx_theme"
html_title = "sparsetoken"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["llms.txt", "_built"]
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # summaries are fetched, which no browser does from disk
html_context = {"default_mode": "auto"}
html_theme_options = {
    "navbar_persistent": ["site-search"],
    "navbar_end": ["theme-switcher"],
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "start": [], "choose": [], "faq": [], "glossary": []}

STORY = """## The story, to move
<iframe src="story.html" title="The story: what attention finds, with sliders" class="story" \
loading="lazy"></iframe>

<script>
addEventListener("message", ({ source, data }) => { // as tall as what it shows
  const frame = document.querySelector("iframe.story");
  if (frame && source === frame.contentWindow && data && data.storyHeight > 0)
    frame.style.height = `${Math.min(data.storyHeight, 5000) + 2}px`;
});
</script>

<p><a href="story.html">The story on a page of its own</a></p>
"""


def name_languages(app, doctree):
    """Indented blocks name no language: commands are commands, all else is as it stands."""
    for block in doctree.findall(nodes.literal_block):
        text = block.astext().rstrip("\n")  # doctests end with an empty line
        block[:] = [nodes.Text(text)]
        block.rawsource = text
        if block.get("language", "default") != "default":
            continue
        lines = block.astext().splitlines()
        if any(line.startswith(("sparsetoken ", "make ", "pip ", "python ")) for line in lines):
            block["language"] = "console"
        elif not block.astext().startswith(">>>"):
            block["language"] = "text"


PAGES_OF_FILES = {  # the file of the repository that a page shows
    "changelog": "CHANGELOG.md",
    "contributing": "CONTRIBUTING.md",
    "security": "SECURITY.md",
    "forecasts": "benchmarks/real/results/planning.md",
}
LINKS = {  # to files of the repository that are pages of the site, under another name
    r"\(\.\./examples/(gallery|tutorials)/GALLERY_HEADER\.rst\)": r"(\1/index.rst)",
    r"\(\.\./examples/(gallery|tutorials)/(\w+)\.py\)": r"(\1/\2.rst)",
    **{rf"\(\.\./{re.escape(file)}\)": f"({page}.md)" for page, file in PAGES_OF_FILES.items()},
}


def link_to_pages(app, docname, source):
    """Pages that are files of the repository; links to such files lead to their pages."""
    if file := PAGES_OF_FILES.get(docname):
        text = (HERE.parent / file).read_text()
        source[0] = re.sub(r"\]\((?!https?:|#)", "](../", text).replace("](../docs/", "](")
        app.env.note_dependency(HERE.parent / file)
    if docname == "index" and (HERE / "_built" / "story.html").exists():  # build-site writes it
        source[0] = source[0].replace("<!-- story -->", STORY)
    if "/" not in docname:
        for link, page in LINKS.items():
            source[0] = re.sub(link, page, source[0])


WITHOUT_LINKS = (
    "api/",
    "gallery/",
    "tutorials/",
    "changelog",
    "contributing",
    "skill",
    "stability",
)


def link_names(app, doctree, docname):
    """Names of the package in a text lead to their pages, the first time in each section."""
    if docname.startswith(WITHOUT_LINKS):
        return
    linked = set()
    for literal in list(doctree.findall(nodes.literal)):
        name = re.fullmatch(r"(?:st\.)?(\w+)(?:\(.*\))?", literal.astext())
        if name is None or name[1] not in PUBLIC:
            continue
        above = literal.parent
        while not isinstance(above, (nodes.section, nodes.title, nodes.reference, nodes.document)):
            above = above.parent
        if isinstance(above, (nodes.title, nodes.reference)) or (id(above), name[1]) in linked:
            continue
        linked.add((id(above), name[1]))
        page = app.builder.get_relative_uri(docname, f"api/generated/sparsetoken.{name[1]}")
        link = nodes.reference("", "", refuri=page, internal=True)
        literal.replace_self(link)
        link += literal


def skip_members(app, what, name, member, skip, options):
    """What estimators inherit from scikit-learn is described there."""
    theirs = getattr(member, "__module__", None) or ""
    routing = name.startswith("set_") and name.endswith("_request")
    return True if theirs.startswith("sklearn.") or routing else skip


def setup(app):
    app.connect("autodoc-skip-member", skip_members)
    app.connect("source-read", link_to_pages)
    app.connect("doctree-read", name_languages)
    app.connect("doctree-resolved", link_names)
