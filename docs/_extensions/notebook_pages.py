"""Notebooks as pages: cells of text, cells of code, and the text that code printed."""

import json

from myst_parser.parsers.sphinx_ import MystParser

FENCE = '`' * 4


def to_markdown(text):
    """The Markdown of a notebook file."""
    parts = []
    for cell in json.loads(text)['cells']:
        source = ''.join(cell['source'])
        if cell['cell_type'] == 'markdown':
            parts.append(source)
        elif cell['cell_type'] == 'code':
            parts.append(f'{FENCE}python\n{source}\n{FENCE}')
            printed = ''.join(map(_printed, cell['outputs'])).rstrip()
            if printed:
                parts.append(f'{FENCE}text\n{printed}\n{FENCE}')
    return '\n\n'.join(parts) + '\n'


def _printed(output):
    if output['output_type'] == 'stream':
        return ''.join(output['text']) if output['name'] == 'stdout' else ''
    return ''.join(output.get('data', {}).get('text/plain', '')) + '\n'


class NotebookParser(MystParser):
    """Reads a notebook as the Markdown page that it is equal to."""

    supported = ('notebook',)

    def parse(self, inputstring, document):
        super().parse(to_markdown(inputstring), document)


def setup(app):
    app.add_source_parser(NotebookParser)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
