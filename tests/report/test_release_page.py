import html
import json
import re

import pytest

from tests.helpers.pages import CHROMIUM, Page, look
from tests.helpers.release_facts import audit, evaluation, k_card, private_card
from torch_geometric_cgt.report.release_page import LEFT_OUT, ReleasePage

FINE, ABOVE, UNCHECKED = 'nothing found', 'above the limit', 'not checked'


def page(card=None, scores=None, *verdicts, **settings) -> ReleasePage:
    return ReleasePage(
        card or k_card(),
        scores or evaluation(),
        audit(*(verdicts or (FINE,)), **settings),
        {'synthesize': 10.04, 'evaluate': 5.0, 'audit': 20.0},
        {'release/card.json': 4096, 'release/release.safetensors': 10_000},
        {'owner/': 'report and audit', '/home/me/builds': 'the build'},
        {'Report': 'owner/report.html', 'Audit': 'owner/audit.html'},
        {'audit': 'cgt audit out/release --source People', 'sign': 'cgt sign out/release'},
    )


def text_of(rendered: str) -> str:
    return html.unescape(' '.join(re.sub(r'<[^>]*>', ' ', rendered).split()))


def test_the_page_opens_with_three_sentences():
    made = page()
    shown = made.render()
    start = text_of(shown[: shown.index('id="next"')])
    for sentence in made.sentences.values():
        assert start.count(sentence) == 1
    assert len(made.sentences) == 3 and 'Ready to be signed.' in start


def test_the_page_stands_by_itself():
    found = Page(page().render())
    assert found.links == ['owner/report.html', 'owner/audit.html']  # pages beside it
    assert 'script' not in found.tags and 'img' not in found.tags
    assert 'http' not in page().render() and '@import' not in page().render()


@pytest.mark.parametrize(
    'verdict, code, words, colour',
    [
        (FINE, 0, 'Ready to be signed.', 'headline nothing'),
        (ABOVE, 1, 'Do not publish.', 'headline above'),
        (UNCHECKED, 3, 'Not decided: checks are missing.', 'headline unchecked'),
    ],
)
def test_the_verdict_is_that_of_the_audit(verdict, code, words, colour):
    made = page(None, None, FINE, verdict)
    shown = made.render()
    assert made.exit_code == made.to_dict()['exit_code'] == code
    assert words in text_of(shown) and colour in shown
    assert ('Build again with a larger k' in shown) == (code == 1)


def test_statistics_of_a_private_source_are_not_for_publication():
    shown = text_of(page(private_card()).render())
    assert 'they are not for publication' in shown and 'epsilon = 4,' in shown
    assert 'they are not for publication' not in text_of(page().render())
    assert 'a smaller epsilon' in page(private_card(), None, ABOVE).next_steps[1]


def test_what_was_left_out_is_named_with_its_command():
    made = page()
    assert set(made.left_out) == set(LEFT_OUT) - {'groups', 'membership'}
    shown = text_of(made.render())
    assert LEFT_OUT['canary'] in shown and made.commands['audit'] in shown
    whole = page(checks=[name for name in LEFT_OUT if name != 'shadows'], num_shadows=4)
    assert whole.left_out == {} and 'Left out' not in whole.render()


def test_what_is_not_guaranteed_is_signed_and_all_is_in_the_json(tmp_path):
    made = page()
    paths = made.write(tmp_path)
    assert [path.name for path in paths] == ['release.json', 'release.html']
    content = json.loads(paths[0].read_text())
    assert content['sentences'] == made.sentences and content['seconds']['synthesize'] == 10.0
    assert content['accuracy']['transfer'] == pytest.approx(2.05 / 3)
    shown = text_of(paths[1].read_text())
    for sentence in made.card['privacy']['not_guaranteed']:
        assert ' '.join(sentence.split()) in shown
    for path in (*content['published'], *content['kept']):
        assert path in shown
    assert 'total 35.0' in shown


def test_hostile_names_are_text():
    card = k_card()
    card['source']['name'] = '<script>alert(1)</script>'
    found = Page(page(card).render())
    assert 'script' not in found.tags


@pytest.mark.skipif(CHROMIUM is None, reason='there is no chromium to open the page with')
def test_the_page_in_a_browser(tmp_path):
    shown = page().render().replace('<h2 id="use">', '<figure><svg></svg></figure><h2 id="use">')
    for found in look(shown, tmp_path, [390, 1280]):
        assert found['errors'] == [] and found['loaded'] == 0
        assert found['needed'] == found['width']  # nothing sticks out
