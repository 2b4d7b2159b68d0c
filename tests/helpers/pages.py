"""Reads HTML pages, and opens them in a browser."""

import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

CHROMIUM = next(
    filter(None, map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome'))), None
)
FLAGS = (
    '--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync '
    '--disable-background-networking --disable-component-update --hide-scrollbars --dump-dom'
).split()
# A window cannot be as narrow as a phone; a frame can. All that is folded is opened first.
FRAMES = """<!doctype html><body>
{frames}
<script>
onload = () => {{
  const found = [...document.querySelectorAll('iframe')].map(frame => {{
    const page = frame.contentDocument, size = e => e.getBoundingClientRect();
    page.querySelectorAll('details').forEach(e => e.open = true);
    return {{
      width: frame.contentWindow.innerWidth,
      needed: page.scrollingElement.scrollWidth,
      errors: frame.contentWindow.errors,
      loaded: frame.contentWindow.performance.getEntriesByType('resource').length,
      tables: [...page.querySelectorAll('table')].map(e => size(e).height),
      boxes: [...page.querySelectorAll('.scroll')].map(e => size(e).right),
      figures: [...page.querySelectorAll('figure svg')].map(e => [size(e).width, size(e).height]),
      first: size(page.querySelector('figure svg')).top,
      verdicts: [...page.querySelectorAll('.verdicts li')].map(e => [e.innerText, size(e).right]),
      // Scrolled to the end, a table still shows its first column, and its last one.
      ends: [...page.querySelectorAll('.scroll:has(thead th)')].map(e => {{
        e.scrollLeft = e.scrollWidth;
        const cells = e.querySelectorAll('thead th');
        return [size(cells[0]).left, size(cells[cells.length - 1]).right];
      }}),
      hint: frame.contentWindow.getComputedStyle(page.querySelector('.scroll'), '::before').content,
    }};
  }});
  document.body.innerHTML = '';
  document.body.append('FOUND' + JSON.stringify(found) + 'END');
}};
</script>"""
ERRORS = '<script>errors = []; onerror = message => { errors.push(String(message)) };</script>'


class Page(HTMLParser):
    """The tags and the external links of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.cells = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        attrs = dict(attrs)
        links = [attrs.get('src'), attrs.get('href'), attrs.get('xlink:href')]
        self.links += [link for link in links if link and not link.startswith('#')]


def look(text, folder, widths):
    """What a browser makes of a page in frames of several widths."""
    content = html.escape(text.replace('<head>', '<head>' + ERRORS, 1))
    frame = '<iframe style="width: {}px; height: 800px; border: 0" srcdoc="{}"></iframe>'
    path = folder / 'frames.html'
    frames = '\n'.join(frame.format(width, content) for width in widths)
    path.write_text(FRAMES.format(frames=frames), encoding='utf-8')
    out = subprocess.run(
        [CHROMIUM, *FLAGS, f'--user-data-dir={folder / "profile"}', path.as_uri()],
        capture_output=True,
        timeout=120,
    )
    found = re.search('FOUND(.*)END', out.stdout.decode(), re.DOTALL)
    assert found, out.stderr.decode()[-2000:]
    return json.loads(html.unescape(found[1]))
