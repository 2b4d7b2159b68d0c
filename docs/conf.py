"""The documentation site: `make docs` builds it into build/docs, and warnings are errors.

The pages are the Markdown files of this folder. They are read on GitHub too, so the table of
contents is not part of index.md: it is added here.
"""

import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS.parent), str(DOCS / '_extensions')]

from torch_geometric_cgt.version import __version__  # noqa: E402

project = 'torch-geometric-cgt'
author = 'The authors of torch-geometric-cgt'
release = version = __version__

extensions = [
    'myst_parser',
    'notebook_pages',
    'native_math',
    'sphinx.ext.autodoc',
    'sphinx.ext.napoleon',
    'sphinx.ext.viewcode',
]
source_suffix = {'.md': 'markdown', '.ipynb': 'notebook'}
exclude_patterns = ['_extensions', '_static']
html_theme = 'pydata_sphinx_theme'
html_title = 'torch-geometric-cgt'
html_static_path = ['_static']
html_css_files = ['site.css']
html_sidebars = {'**': ['globaltoc.html']}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    'navbar_center': [],  # the side bar lists all pages
    'navbar_end': ['theme-switcher'],
    'show_toc_level': 2,
    'secondary_sidebar_items': ['page-toc'],
    'footer_start': ['copyright'],
    'footer_end': [],
}
copyright = 'the authors of torch-geometric-cgt, MIT license'
html_math_renderer = 'native'

myst_heading_anchors = 4  # as on GitHub
myst_enable_extensions = ['colon_fence']
add_module_names = False
toc_object_entries_show_parents = 'hide'
autodoc_member_order = 'bysource'
autodoc_typehints = 'none'  # 'Args:' names the types
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False

# Results and one-line comments of shells are not valid programs.
suppress_warnings = ['misc.highlighting_failure']

# The pages below each page, by their captions.
CONTENTS = {
    'index': {
        'Start': ['tutorial', 'notebook', 'howto/index'],
        'Concepts': [
            'concepts',
            'how_it_works',
            'quantization',
            'generator',
            'glossary',
            'pitfalls',
        ],
        'Guide': [
            'sources',
            'edge_attributes',
            'pyg_scripts',
            'privacy',
            'privacy_proofs',
            'audit',
            'releases',
            'training',
            'scaling',
            'benchmark',
        ],
        'Reference': ['api', 'reference/index', 'architecture'],
        'Results': ['results/index'],
    },
    'howto/index': {'': ['train', 'private', 'check', 'publish', 'large']},
    'reference/index': {'': ['*']},
    'results/index': {'': ['*']},
}


# Pages that are listed nowhere are part of the guide.
LISTED = {page for pages in CONTENTS['index'].values() for page in pages}
CONTENTS['index']['Guide'] += sorted(
    {page.stem for page in DOCS.glob('*.md') if page.stem != 'index'} - LISTED
)


def add_contents(app, docname, source):
    """Adds the table of contents to a page."""
    for caption, pages in CONTENTS.get(docname, {}).items():
        options = f':hidden:\n:glob:\n:caption: {caption}' if caption else ':hidden:\n:glob:'
        listed = '\n'.join(pages)
        source[0] += f'\n```{{toctree}}\n{options}\n\n{listed}\n```\n'


def unlink_folders(app, docname, source):
    """Keeps the text of links to folders, which are pages on GitHub only."""
    page = Path(app.env.doc2path(docname))

    def text_of(link):
        return link[1] if (page.parent / link[2]).is_dir() else link[0]

    source[0] = re.sub(r'\[([^\]]*)\]\(([^)#:\s]+)\)', text_of, source[0])


def setup(app):
    app.connect('source-read', add_contents)
    app.connect('source-read', unlink_folders)
