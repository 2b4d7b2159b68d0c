r"""Writes a small graph of made-up people as two CSV files, for the tutorial.

    python examples/make_csv.py --out people

Each of the 900 people works in one of four departments, which is the label. People know mostly
colleagues of their own department, and their columns depend on it. Nobody in it is real.
"""

import argparse
import csv
from pathlib import Path

import numpy as np

DEPARTMENTS = ('care', 'office', 'research', 'workshop')
SITES = ('north', 'river', 'south')

parser = argparse.ArgumentParser()
parser.add_argument('--out', type=Path, default=Path('people'))
parser.add_argument('--num-people', type=int, default=900)
parser.add_argument('--seed', type=int, default=0)
args = parser.parse_args()

rng = np.random.default_rng(args.seed)
num = args.num_people
label = rng.integers(len(DEPARTMENTS), size=num)

# Numbers around a mean of the department; the site is only slightly related to it.
age = (38 + 4 * label + rng.normal(0, 9, num)).clip(18, 67).round().astype(int)
years = (age - 18) * rng.uniform(0.05, 0.6, num) + 1.5 * (label == 2)
hours = 30 + 4 * (label == 1) - 6 * (label == 0) + rng.normal(0, 4, num)
meetings = rng.poisson(2 + 5 * (label == 1) + 3 * (label == 2), num)
site = (label + rng.integers(3, size=num) * rng.integers(2, size=num)) % len(SITES)

# Three in four acquaintances are from the own department.
pairs = set()
for person in range(num):
    for _ in range(rng.integers(1, 7)):
        same = rng.random() < 0.75
        others = np.flatnonzero((label == label[person]) == same)
        other = int(rng.choice(others))
        if other != person:
            pairs.add((min(person, other), max(person, other)))

args.out.mkdir(parents=True, exist_ok=True)
with open(args.out / 'nodes.csv', 'w', newline='') as file:
    writer = csv.writer(file, lineterminator='\n')
    writer.writerow(['id', 'age', 'years', 'hours', 'meetings', 'site', 'department'])
    for i in range(num):
        numbers = [age[i], f'{years[i]:.1f}', f'{hours[i]:.1f}', meetings[i]]
        writer.writerow([f'p{i:04d}', *numbers, SITES[site[i]], DEPARTMENTS[label[i]]])
with open(args.out / 'edges.csv', 'w', newline='') as file:
    writer = csv.writer(file, lineterminator='\n')
    writer.writerow(['source', 'target'])
    writer.writerows((f'p{a:04d}', f'p{b:04d}') for a, b in sorted(pairs))
print(f'Wrote {num} people and {len(pairs)} ties to {args.out}')
