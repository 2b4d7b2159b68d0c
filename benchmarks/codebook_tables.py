r"""The page of ``benchmarks/codebook_attack.py``: tables from its cells."""

from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import mean

HEAD = """# Membership from the codebook

Who is in the source, read from the feature vectors of a k-anonymous release (k = 30, largest
component), and what the protection of the means costs. *t* is `min_value_support`; rounding is in
[scales of a feature](../privacy.md#protected-means). The default is t = 10 and rounding to 1/3.
Values are means over the seeds of the cells in [`codebook_attack.jsonl`](codebook_attack.jsonl).

```sh
python benchmarks/codebook_attack.py
```
"""
ATTACK = """
## The attack

A random half of the nodes is quantized. The attacker has the codebook and the features of all nodes
of the graph, and tells the two halves apart. Each entry: area under the curve; share of members
found while wrongly accusing 1 % and 0.1 % of the others. *likelihood* is the attack that was found
first, *cautious* expects values to be left out, *difference* compares with means of the population
(see [`audit/codebook_attack.py`](../../torch_geometric_cgt/audit/codebook_attack.py)). Half of
Digits has 885 others, too few for 0.1 %.
"""
SIZES = """
## Sizes of groups

The size of each group is searched for as the smallest number from 30 to 119 that makes all sums of
a codeword integers. Most groups have exactly 30 members, which needs no search, so the last column
counts the others. Features of PubMed are not multiples of a common unit.
"""
PERSON = """
## With and without one person

Two codebooks, of which the second lacks one of 20 random persons. *entries*: mean number of entries
that differ if all others stay in their groups; *of the person*: those among them where the person
has a value, and the mean number of values of a person; *no difference*: share of persons without
whom the codebook is the same. *again*: groups are found again without the person, and the mean
share of codewords is counted that the first codebook has as well.
"""
QUANTIZED = """
## GNNs on the quantized graph

Accuracy of GNNs on the graph with codewords as features (five neighbours in two layers, 50/10/40).
"""
GENERATED = """
## GNNs on generated graphs

`SyntheticCGTDataset` with all defaults except the protection. GNNs are trained and tested on the
generated graph.
"""


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ['---'] * len(head), *rows]
    return '\n'.join('| ' + ' | '.join(line) + ' |' for line in lines) + '\n'


def grouped(cells: list[dict], part: str) -> dict[tuple[str, str], list[dict]]:
    r"""The cells of one part by graph and protection."""
    found: dict[tuple[str, str], list[dict]] = {}
    for cell in cells:
        if cell['part'] == part:
            found.setdefault((cell['source'], cell['protection']), []).append(cell)
    return found


def average(runs: list[dict], value: Callable[[dict], float | None]) -> float | None:
    found = [value(run) for run in runs]
    return None if None in found else mean(v for v in found if v is not None)


def text(value: float | None, digits: int = 3) -> str:
    return '-' if value is None else f'{value:.{digits}f}'


def attack_table(cells: list[dict], order: list[str]) -> str:
    rows, found = [], grouped(cells, 'attack')
    for (name, protection), runs in in_order(found, order):
        row = [name, protection, f'{average(runs, lambda c: c["nonzero"]):.1%}']
        for score in ('likelihood', 'cautious', 'difference'):

            def of(key, score=score):
                def value(cell):
                    rate = cell['scores'][score]['true_positives'][key]
                    return None if rate is None else rate['value']

                return value

            area = average(runs, lambda c, score=score: c['scores'][score]['area']['value'])
            row.append(
                '; '.join(map(text, [area, average(runs, of('0.01')), average(runs, of('0.001'))]))
            )
        rows.append(row)
    return table(['graph', 'means', 'non-zero', 'likelihood', 'cautious', 'difference'], rows)


def sizes_table(cells: list[dict], order: list[str]) -> str:
    rows = []
    for (name, protection), runs in in_order(grouped(cells, 'sizes'), order):
        total = {
            key: sum(run[key] for run in runs)
            for key in ('groups', 'of_size_k', 'recovered', 'recovered_other')
        }
        other = total['groups'] - total['of_size_k']
        rows.append(
            [
                name,
                protection,
                f'{total["recovered"]} of {total["groups"]}',
                f'{total["recovered_other"]} of {other}',
            ]
        )
    return table(['graph', 'means', 'sizes found', 'of groups with more than 30'], rows)


def person_table(cells: list[dict], order: list[str]) -> str:
    rows = []
    for (name, protection), runs in in_order(grouped(cells, 'person'), order):
        changed, own, values = (
            [v for run in runs for v in run[key]] for key in ('changed', 'own', 'values')
        )
        kept = [v / run['codewords'] for run in runs for v in run.get('kept', [])]
        rows.append(
            [
                name,
                protection,
                text(mean(changed), 1),
                f'{mean(own):.1f} of {mean(values):.1f}',
                f'{mean(c == 0 for c in changed):.0%}',
                f'{mean(kept):.0%}' if kept else '-',
            ]
        )
    head = ['graph', 'means', 'entries', 'of the person', 'no difference', 'again']
    return table(head, rows)


def quantized_table(cells: list[dict], order: list[str]) -> str:
    rows, models = [], ['GCN', 'SGC', 'GIN', 'GAT']
    for (name, protection), runs in in_order(grouped(cells, 'quantized'), ['original', *order]):
        scores = [average(runs, lambda c, m=m: c['scores'].get(m)) for m in models]
        known = [s for s in scores if s is not None]
        rows.append([name, protection, *map(text, scores), text(mean(known)), str(len(runs))])
    return table(['graph', 'means', *models, 'mean', 'seeds'], rows)


def generated_table(cells: list[dict], order: list[str]) -> str:
    rows = []
    for (name, protection), runs in in_order(grouped(cells, 'generated'), order):
        columns = [
            mean(mean(run['scores'][column].values()) for run in runs)
            for column in ('original', 'quantized', 'generated')
        ]
        rows.append([name, protection, *map(text, columns), str(len(runs))])
    return table(['graph', 'means', 'original', 'quantized', 'generated', 'seeds'], rows)


def in_order(found: dict, order: list[str]) -> list:
    names = list(dict.fromkeys(name for name, _ in found))
    return sorted(
        found.items(), key=lambda item: (names.index(item[0][0]), order.index(item[0][1]))
    )


def write_page(path: Path, cells: list[dict], order: list[str]) -> str:
    r"""Writes all tables and returns the page."""
    parts = {
        'attack': (ATTACK, attack_table),
        'sizes': (SIZES, sizes_table),
        'person': (PERSON, person_table),
        'quantized': (QUANTIZED, quantized_table),
        'generated': (GENERATED, generated_table),
    }
    measured = {cell['part'] for cell in cells}
    page = HEAD + ''.join(
        f'{words}\n{make(cells, order)}'
        for part, (words, make) in parts.items()
        if part in measured
    )
    path.write_text(page)
    return page
