r"""Runs the scripts of examples/pyg on a source graph, on its release, and on the release joined
into one graph.

    CGT_DATA_ROOT=data python benchmarks/pyg_scripts.py --cells docs/results/pyg_scripts.jsonl
    python benchmarks/pyg_scripts.py --cells docs/results/pyg_scripts.jsonl --show

The first command makes the release of Cora (k = 30), unless ``--release`` names one, and runs every
script three times, in a process of its own. All rows belong to one release: each row has its
digest. The build is kept in ``--root``, so that a run that was stopped goes on with the same
release, and rows that are there are not measured again. If the release is another one than that of
the rows, the command stops: ``--anew`` builds it again and removes all rows. Rows that are marked
as ``earlier`` belong to an earlier build. They are shown with a star until they are measured again.
The second command writes the page from the rows.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
from pathlib import Path

from cells import add_cell, read_cells
from script_process import run_script

from torch_geometric_cgt.utils.files import write_text

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / 'examples' / 'pyg'
SIDES = ('source', 'release', 'joined')  # the last one: dataset.joined()

# The script; PyG's example with the same model; what it shows; lines that change for a release.
SCRIPTS = {
    'gcn': ('gcn.py', 'full batch', 1),
    'gat': ('gat.py', 'full batch, attention', 1),
    'sgc': ('sgc.py', 'cached propagation', 1),
    'appnp': ('citation/appnp.py', 'ten steps of PageRank', 1),
    'tagcn': ('tagcn.py', 'three hops per layer', 1),
    'arma': ('arma.py', 'recursive filters', 1),
    'gcn2': ('gcn2_cora.py', '`ToSparseTensor`, 16 layers', 1),
    'super_gat': ('super_gat.py', 'attention with a loss on edges', 1),
    'agnn': ('agnn.py', 'attention without weights', 1),
    'mixhop': ('mixhop.py', 'powers of the adjacency matrix', 1),
    'jumping_knowledge': ('jumping knowledge', '`jk="cat"`, three layers', 1),
    'drop_edge': ('dropout_edge', '`RandomNodeSplit`, dropped edges', 1),
    'graphsage': ('reddit.py', '`NeighborLoader`', 1),
    'random_nodes': ('rev_gnn.py', '`RandomNodeLoader`', 1),
    'lightning_sage': ('pytorch_lightning/graph_sage.py', '`LightningNodeData`', 1),
    'lightning_gcn': ('pytorch_lightning/gin.py', '`LightningDataset`', 1),
    'link_pred': ('link_pred.py', '`RandomLinkSplit`, AUC', 1),
    'autoencoder': ('autoencoder.py', 'VGAE, AUC', 1),
    'infomax': ('infomax_transductive.py', 'without labels', 1),
    'gnn_explainer': ('explain/gnn_explainer.py', 'faithfulness of explanations', 1),
    'correct_and_smooth': ('correct_and_smooth.py', 'predictions spread over edges', 1),
    'label_prop': ('label_prop.py', 'labels alone', 2),
    'node2vec': ('node2vec.py', 'random walks', 1),
}
NOTES = {
    'label_prop': 'On trees it does not apply: a tree has one label, that of its root, so that no '
    'label reaches another root. The second line sets missing labels to 0; the joined graph does '
    'not need it.',
    'node2vec': "Not run: PyG's random walks need pyg-lib or torch-cluster. On trees it does not "
    'apply: no walk leads from one tree to another.',
    'correct_and_smooth': 'No error reaches another tree. What is left is the perceptron, smoothed '
    'over two hops.',
    'link_pred': 'On trees, `RandomLinkSplit` becomes `TreeLinkSplit`. Links of a release are '
    'between tokens, which many nodes share. The joined graph has the stock `RandomLinkSplit`.',
    'autoencoder': 'As `link_pred`; the script samples negative training pairs among all nodes.',
    'infomax': 'Also has `T.ToUndirected()`.',
    **dict.fromkeys(
        ('tagcn', 'arma', 'gcn2', 'mixhop'),
        'Has `T.ToUndirected()`, which changes neither the source nor the joined graph, see '
        '[edges of both directions](../pyg_scripts.md#edges-of-both-directions).',
    ),
}
TITLES = {'source': 'source', 'release': 'release', 'joined': 'release, joined'}


def run(script: str, side: str, source: str, release: str, epochs: int | None, seed: int) -> dict:
    r"""Runs one script in a process of its own and returns its score, or its error."""
    where = ['--source', source] if side == 'source' else ['--release', release]
    where += ['--joined'] if side == 'joined' else []
    more = [] if epochs is None else ['--epochs', str(epochs)]
    cell = {'script': script, 'side': side, 'source': source, 'seed': seed, 'epochs': epochs}
    found = run_script(FOLDER / f'{script}.py', [*where, *more, '--seed', str(seed)])
    return {**cell, **found}


def make_release(source: str, folder: Path, root: Path | None, anew: bool) -> str:
    r"""Builds the release that the scripts run on, or takes it from a finished build."""
    from torch_geometric_cgt import SyntheticCGTDataset
    from torch_geometric_cgt.datasets import load_source

    dataset = SyntheticCGTDataset(load_source(source), k=30, root=root, force_reload=anew)
    dataset.save(folder / 'release')
    return str(folder / 'release')


def release_digest(folder: str) -> str:
    r"""What identifies a release: a digest of its tensors."""
    content = (Path(folder) / 'release.safetensors').read_bytes()
    return hashlib.sha256(content).hexdigest()[:16]


def own_rows(cells: list[dict]) -> list[dict]:
    r"""The rows without those of an earlier build."""
    return [cell for cell in cells if not cell.get('earlier')]


def check_release(cells: list[dict], digest: str) -> None:
    r"""Raises an error if some rows belong to another release."""
    own = [cell for cell in own_rows(cells) if cell['side'] != 'source']
    others = {str(cell.get('digest')) for cell in own} - {digest}
    if others:
        raise SystemExit(
            f'The rows were measured on another release ({", ".join(sorted(others))}) than the one '
            f'that is there ({digest}): measure all of them with --anew, or give their release '
            f'with --release'
        )


def page(cells: list[dict]) -> str:
    r"""The table of all scripts, with the scores that are known."""
    found: dict[tuple[str, str], list[dict]] = {}
    own = [cell for cell in own_rows(cells) if cell['side'] != 'source']
    digests = sorted({str(cell.get('digest')) for cell in own})
    if len(digests) > 1:
        raise SystemExit(f'The rows belong to {len(digests)} releases: {", ".join(digests)}')
    measured = {(cell['script'], cell['side']) for cell in own_rows(cells)}
    for cell in cells:
        if not cell.get('earlier') or (cell['script'], cell['side']) not in measured:
            found.setdefault((cell['script'], cell['side']), []).append(cell)
    seeds = {cell['seed'] for cell in cells if 'seed' in cell}
    minutes = sum(cell.get('seconds', 0) for cell in cells) / 60
    lines = [
        "# PyG's example scripts on a source and on its release",
        '',
        'Each script of [`examples/pyg`](../../examples/pyg) is a short equivalent of one of the',
        'example scripts of PyG: same model, same kind of loader. Input features are not dropped,',
        'and epochs are fewer. It runs on Cora (public split) and on a release of Cora (k = 30,',
        'fan-outs 5 and 5): as trees, `dataset[0]`, and as one graph, `dataset.joined()`. The line',
        'that opens the dataset is the one that changes. [Which form to use](../pyg_scripts.md)',
        'says why some scripts need one graph. Scores are means over the seeds',
        f'{", ".join(map(str, sorted(seeds)))} of the script. Test sets have 1,000 nodes, so that '
        'a score can be off by 0.03.',
        '',
        f'All scripts ran on one build of the release (digest `{" ".join(digests) or "-"}`)'
        + (', scores with a star on an earlier one of the same settings.' if _star(cells) else '.'),
        'A dash: not measured since the script was changed.',
        f'`make scripts` runs them in {minutes:.0f} minutes of processor, without the build. It',
        'goes on where it was stopped, and `make scripts ANEW=--anew` measures all of them again.',
        '',
        '| script | PyG example | shows | measure | lines that change | '
        + ' | '.join(TITLES.values())
        + ' |',
        '|---' * (5 + len(SIDES)) + '|',
    ]
    notes: dict[str, list[str]] = {}
    for script, (example, shows, changed) in SCRIPTS.items():
        sides = [found.get((script, side), []) for side in SIDES]
        good = [[c for c in side if 'score' in c] for side in sides]
        shown = [
            f'{sum(c["score"] for c in scored) / len(scored):.3f}{_star(scored)}'
            if scored
            else ('not run' if side else '-')
            for side, scored in zip(sides, good, strict=True)
        ]
        metric = next((c['metric'] for side in good for c in side), '-')
        note = NOTES.get(script)
        if note is not None:
            notes.setdefault(note, []).append(script)
        mark = f'[{list(notes).index(note) + 1}]' if note is not None else ''
        name = f'[`{script}`](../../examples/pyg/{script}.py) {mark}'.rstrip()
        lines.append(
            f'| {name} | `{example}` | {shows} | {metric} | {changed} | {" | ".join(shown)} |'
        )
    errors = sorted({c['error'] for c in cells if 'error' in c})
    lines += ['']
    for number, (note, names) in enumerate(notes.items(), start=1):
        lines += [f'[{number}] {", ".join(f"`{name}`" for name in names)}: {note}', '']
    if errors:
        lines += ['Errors of scripts without a score: ' + '; '.join(f'`{e}`' for e in errors) + '.']
    return '\n'.join(lines).rstrip() + '\n'


def _star(cells: list[dict]) -> str:
    return '*' if any(cell.get('earlier') for cell in cells) else ''


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--source', default='Cora')
    parser.add_argument('--release', help='a release of the source; by default, it is made')
    parser.add_argument('--cells', type=Path, required=True)
    parser.add_argument('--scripts', nargs='+', default=list(SCRIPTS), choices=list(SCRIPTS))
    parser.add_argument('--sides', nargs='+', default=list(SIDES), choices=SIDES)
    parser.add_argument('--epochs', type=int, help='instead of those of each script')
    parser.add_argument('--seeds', type=int, nargs='+', default=[0])
    parser.add_argument('--root', type=Path, help="of the build (default: the user's cache)")
    parser.add_argument(
        '--anew', action='store_true', help='build again and measure all rows again'
    )
    parser.add_argument('--show', action='store_true', help='write the page and stop')
    args = parser.parse_args()
    if args.show:
        write_text(args.cells.with_suffix('.md'), page(read_cells(args.cells)))
        return
    if args.anew:
        args.cells.unlink(missing_ok=True)
    cells = read_cells(args.cells)
    done = {(c['script'], c['side'], c['seed']) for c in own_rows(cells)}
    asked = [
        (name, side, seed) for seed in args.seeds for name in args.scripts for side in args.sides
    ]
    missing = [key for key in asked if key not in done]
    with tempfile.TemporaryDirectory() as folder:
        release, digest = args.release or '', ''
        if any(side != 'source' for _, side, _ in missing):
            release = release or make_release(args.source, Path(folder), args.root, args.anew)
            digest = release_digest(release)
            check_release(cells, digest)
        for script, side, seed in missing:
            cell = run(script, side, args.source, release, args.epochs, seed)
            if side != 'source':
                cell['digest'] = digest
            add_cell(args.cells, cell)
            print(cell, flush=True)


if __name__ == '__main__':
    main()
