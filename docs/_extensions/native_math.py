"""Formulas as MathML, which browsers show without a script from another site."""

from docutils.utils.math import latex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)


def visit_math(self, node):
    self.body.append(_mathml(node))
    raise _skip()


def visit_display_math(self, node):
    self.body.append(f'<div class="math">{_mathml(node, as_block=True)}</div>')
    raise _skip()


def _mathml(node, as_block=False):
    try:
        return latex2mathml.tex2mathml(node.astext(), as_block=as_block)
    except Exception as error:
        logger.warning('%r is not a formula: %s', node.astext(), error, location=node)
        return node.astext()


def _skip():
    from docutils.nodes import SkipNode

    return SkipNode()


def setup(app):
    app.add_html_math_renderer('native', (visit_math, None), (visit_display_math, None))
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
