import html
import json
import re

import pytest

from tests.helpers.pages import CHROMIUM, Page, look
from tests.helpers.release_facts import audit, evaluation, k_card, private_card
from torch_geometric_cgt.report.release_page import (
    EXIT_CODES,
    LEFT_OUT,
    OPEN,
    READY,
    REFUSED,
    ReleasePage,
    accuracy_sentence,
    attack_sentence,
    guarantee_sentence,
    verdict_of,
)

FINE, FOUND = 'nothing found', 'found, within the limit'
ABOVE, UNCHECKED = 'above the limit', 'not checked'


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
    for words in ('Not to be published', 'There is nothing to sign'):
        assert (words in shown) == (code == 1)
    for words in ('<h3>Published', 'Data protection officer', 'cgt sign out/release'):
        assert (words in shown) == (code != 1)


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


@pytest.mark.parametrize(
    'card, words',
    [
        (k_card(), ['computed from at least 31 nodes', 'k = 30', 'no guarantee']),
        (k_card(k=5, k_reached=7), ['computed from at least 7 nodes', 'k = 5']),
        (k_card(k=1, k_reached=1), ['Nothing is guaranteed to anyone', 'k = 1']),
        (private_card(), ['Every node, with its features', 'epsilon = 4,', 'factor of 54.6']),
        (private_card(epsilon=1.0), ['epsilon = 1,', 'factor of 2.72']),
        (private_card(epsilon=900.0), ['factor of e^epsilon']),
        (private_card(protects='edge'), ['Every single edge, but no feature and no label']),
        (private_card(protects='attributes'), ['features and the label', 'but not its edges']),
        (private_card(protects='frozen_record'), ['No person is protected', 'one node']),
        (private_card(max_degree=9), ['Every node with at most 9 edges into it, with']),
        (private_card(seeded_noise=True), ['Nothing is guaranteed to anyone', 'seed']),
        (k_card(mechanism='private clusters', guaranteed=['Only vectors.']), ['Only vectors.']),
    ],
)
def test_the_guarantee_follows_from_the_card(card, words):
    says = guarantee_sentence(card)
    assert all(word in says for word in words) and says.count('. ') == 0


@pytest.mark.parametrize(
    'verdicts, verdict, words, absent',
    [
        ((FINE, FOUND), READY, 'No check is above its limit.', 'Not checked'),
        ((FINE, UNCHECKED), OPEN, 'Not checked: check 1.', 'No check'),
        ((ABOVE, UNCHECKED), REFUSED, 'Above the limit: check 0.', 'No check'),
        ((ABOVE,) * 6, REFUSED, 'check 3 and 2 more.', 'check 4'),
        ((), READY, 'wrongly accusing 0.9 %.', 'No check'),
    ],
)
def test_the_verdict_and_the_attack_follow_from_the_audit(verdicts, verdict, words, absent):
    found = audit(*verdicts)
    says = attack_sentence(found)
    assert says.startswith('The best attack finds 4.5 % of members while wrongly accusing 0.9 %.')
    assert says.endswith(words) or words in says
    assert absent not in says
    assert verdict_of(found) == verdict


def test_missing_checks_can_be_allowed_but_not_a_leak():
    assert verdict_of(audit(FINE, UNCHECKED), allow_unchecked=True) == READY
    assert verdict_of(audit(ABOVE, UNCHECKED), allow_unchecked=True) == REFUSED
    assert [EXIT_CODES[v] for v in (READY, REFUSED, OPEN)] == [0, 1, 3]


def test_accuracy_is_lost_by_the_numbers_of_the_evaluation():
    says = accuracy_sentence(evaluation())
    assert says.startswith('3 GNNs have a mean accuracy of 0.723 on the release and of 0.733 on')
    assert '(1.0 points lost)' in says and '0.683 (5.0 points lost)' in says
    assert says.endswith('the original with another split and seed, 0.733 (ceiling).')
    higher = accuracy_sentence(evaluation(generated=[0.6, 0.9, 1.0], transfer=[0.6, 0.9, 0.8]))
    assert '(10.0 points too high)' in higher and '(3.3 points gained)' in higher
    assert '(nothing lost)' in accuracy_sentence(evaluation(generated=[0.5, 0.8, 0.9]))
    assert 'ceiling' not in accuracy_sentence(evaluation(ceiling=None))
    assert 'not known' in accuracy_sentence(evaluation(original=None))


@pytest.mark.parametrize(
    'num_test, words',
    [
        (8, '8 test nodes, a score can be off by 0.31'),
        (217, '217 test nodes, a score can be off by 0.06'),  # 0.06003
        (218, ''),  # 0.05990
        (900, ''),
    ],
)
def test_few_test_nodes_are_told(num_test, words):
    says = accuracy_sentence({**evaluation(), 'num_test': num_test})
    assert words in says and ('test nodes' in says) == bool(words)
