r"""``cgt release``: synthesizes, evaluates and audits, and writes one page for the owner."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch_geometric_cgt.cli.arguments import (
    CHECKS,
    MODELS,
    add_build_arguments,
    add_class_names_argument,
    add_terms_arguments,
    build_dataset,
    class_names_of,
    leave_process_group,
    split_names,
    terms_of,
)
from torch_geometric_cgt.cli.source_arguments import require_test_nodes, source_of

if TYPE_CHECKING:
    from torch_geometric_cgt.datasets import SyntheticCGTDataset
    from torch_geometric_cgt.release import Terms
    from torch_geometric_cgt.report.release_folder import ReleaseFolder
    from torch_geometric_cgt.report.release_page import ReleasePage

HELP = 'the whole job: synthesize, evaluate and audit, and one page for the owner of the data'

AUDITS = {  # the checks of each audit, and the number of shadow builds
    'quick': (tuple(name for name in CHECKS if name != 'canary'), 0),
    'full': (CHECKS, 4),
}
EPILOG = """files:
  OUT/release.html  the page for the owner of the data, with release.json
  OUT/release/      what may be published, and nothing else
  OUT/owner/        the report and the audit, which stay with the owner

The same command resumes after an interruption.

exit codes:
  0    all checks of the audit were made, and none is above its limit
  1    a check is above the limit: do not publish the release
  2    nothing was made: wrong arguments, or a source that does not fit them
  3    no check is above its limit, but one could not be made (0 with
       --allow-unchecked)
  130  interrupted
"""
PUBLISH = {  # by exit code
    0: 'Publish',
    1: 'Do not publish',
    3: 'Publish only if you can do without the missing checks',
}
# Arguments that do not change the result, or are the result of others.
NOT_SETTINGS = ('run', 'out', 'quiet', 'no_resume', 'checkpoint_minutes', 'allow_unchecked', 'root')
# Arguments that say which source is read, in the order of a command line.
SOURCE_ARGUMENTS = (
    'source',
    'nodes',
    'edges',
    'name',
    'label',
    'id',
    'drop',
    'categorical',
    'missing',
    'standardize',
    'max_values',
    'directed',
    'largest_component',
    'random_split',
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds the arguments of the command."""
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_build_arguments(parser)
    parser.set_defaults(source=None)  # whoever releases a graph names it
    add = parser.add_argument
    add(
        '--models',
        help=f'comma-separated names of GNNs (default: {",".join(MODELS)}; with --zoo, all)',
    )
    add('--zoo', action='store_true', help="evaluate by GNNs on PyG's layers")
    add(
        '--audit',
        choices=tuple(AUDITS),
        help='quick leaves out canaries and shadow builds, which take further builds (default: '
        'full with --epsilon, whose builds take seconds, unless --form is dp_sgd; else quick)',
    )
    add(
        '--max-epsilon',
        type=float,
        help="largest epsilon that attacks may show (default: the card's claim, or 1)",
    )
    add('--allow-unchecked', action='store_true', help='exit with 0 if a check cannot be made')
    add_terms_arguments(parser)
    add_class_names_argument(parser)
    add('--out', type=Path, required=True, help='folder of the release, its page and its audit')


def run(args: argparse.Namespace) -> int:
    r"""Runs the command."""
    if args.source is None and getattr(args, 'nodes', None) is None:
        raise ValueError("Name the graph to release: '--source', or '--nodes' and '--edges'")

    from torch_geometric_cgt.benchmark import ALL_MODELS, PLAIN, ZOO
    from torch_geometric_cgt.release import read_release
    from torch_geometric_cgt.report.release_folder import ReleaseFolder
    from torch_geometric_cgt.report.release_page import ReleasePage

    models = list(split_names(args.models) or (ZOO if args.zoo else MODELS))
    allowed = [*ZOO, *PLAIN] if args.zoo else list(ALL_MODELS)
    if unknown := [name for name in models if name not in allowed]:
        raise ValueError(f'Unknown models {unknown}; choose from {allowed}')
    terms = terms_of(args)  # wrong ones are refused before the build
    class_names_of(args)
    require_test_nodes(source_of(args))
    folder = ReleaseFolder(args.out, _settings(args))
    dataset = _synthesize(args, folder, terms)
    if dataset is None:
        return 0
    evaluation = _evaluate(args, folder, dataset, models)
    audit = _audit(args, folder, dataset)
    page = ReleasePage(
        read_release(folder.release).card,
        evaluation,
        audit,
        folder.seconds,
        folder.published(),
        _kept(dataset),
        {'Report: GNNs on both graphs': 'owner/report.html', 'Audit': 'owner/audit.html'},
        _commands(args, dataset),
        args.allow_unchecked,
    )
    paths = page.write(args.out)
    _show(page, paths)
    return page.exit_code


def _synthesize(
    args: argparse.Namespace, folder: ReleaseFolder, terms: Terms
) -> SyntheticCGTDataset | None:
    r"""Builds the dataset, or reads it, and saves the release. Returns
    :obj:`None` in all processes but the first.
    """
    from torch_geometric_cgt.release import read_release

    _say(args, '1/3 synthesize')
    done = folder.is_done('synthesize')
    if not done:
        with folder.step('synthesize'):
            dataset = build_dataset(args, args.seed)
            if not leave_process_group(args):
                return None
            if not folder.release.exists():  # it appears as a whole
                dataset.save(folder.release, terms=terms, class_names=class_names_of(args))
    else:
        dataset = build_dataset(args, args.seed)
        if not leave_process_group(args):
            return None
    if read_release(folder.release).card['created'] != dataset.card['created']:
        raise ValueError(
            f"'{folder.release}' was saved from another build: the source or the builds in "
            f"'{dataset.root}' have changed. Choose a new folder for '--out'"
        )
    return dataset


def _evaluate(
    args: argparse.Namespace,
    folder: ReleaseFolder,
    dataset: SyntheticCGTDataset,
    models: list[str],
) -> dict[str, Any]:
    from torch_geometric_cgt.benchmark import evaluate_dataset
    from torch_geometric_cgt.report.report_files import write_evaluation

    _say(args, '2/3 evaluate')
    if not folder.is_done('evaluate'):
        with folder.step('evaluate'):
            result = evaluate_dataset(
                source_of(args),
                [dataset],
                models,
                log=not args.quiet,
                zoo=args.zoo,
                ceiling=True,
                control=True,
            )
            report = {'card': dataset.card, **result.to_dict(), 'num_builds': 1}
            report['num_test'] = int(dataset.trees.rows('test').numel())
            if dataset.history is not None:
                report['fit'] = dataset.history
            write_evaluation(folder.owner, report)
    return folder.read('report.json')


def _audit(
    args: argparse.Namespace, folder: ReleaseFolder, dataset: SyntheticCGTDataset
) -> dict[str, Any]:
    from torch_geometric_cgt.audit import run_audit
    from torch_geometric_cgt.report.report_files import write_audit

    _say(args, '3/3 audit')
    is_fast = args.epsilon is not None and args.form != 'dp_sgd'
    checks, num_shadows = AUDITS[args.audit or ('full' if is_fast else 'quick')]
    if not folder.is_done('audit'):
        with folder.step('audit'):
            result = run_audit(
                dataset,
                source_of(args),
                checks=checks,
                max_epsilon=args.max_epsilon,
                num_shadows=num_shadows,
                seed=args.seed,
                device=args.device,
                log=not args.quiet,
            )
            write_audit(folder.owner, result)
    return folder.read('audit.json')


def _settings(args: argparse.Namespace) -> dict[str, str]:
    r"""The arguments that the result depends on, as text."""
    plain = (str, int, float, bool, list, tuple, Path)
    named = {name: value for name, value in vars(args).items() if name not in NOT_SETTINGS}
    return {
        f'--{name.replace("_", "-")}': str(value)
        for name, value in sorted(named.items())
        if value is not None and isinstance(value, plain)
    }


def _kept(dataset: SyntheticCGTDataset) -> dict[str, str]:
    r"""What stays with the owner, by its path."""
    return {
        'release.html, release.json': 'this page',
        'owner/': 'the report and the audit: exact statistics of the source',
        str(dataset.root): 'the build: the group of each node, weights and noise. Whoever has it '
        'can undo the protection',
    }


def _commands(args: argparse.Namespace, dataset: SyntheticCGTDataset) -> dict[str, str]:
    r"""Commands for the next steps."""
    release = args.out / 'release'
    root = ['--root', str(args.root)] if args.root is not None else []
    audit = ['cgt', 'audit', str(release), *_source_words(args), *root]
    audit += ['--out', str(args.out / 'owner' / 'full')]
    return {
        'audit': shlex.join(audit),
        'sign': shlex.join(['cgt', 'sign', str(release), '--key', 'KEY']),
        'verify': shlex.join(['cgt', 'verify', str(release)]),
    }


def _source_words(args: argparse.Namespace) -> list[str]:
    r"""The words of a command line that name the source."""
    words: list[str] = []
    for name in SOURCE_ARGUMENTS:
        value, option = getattr(args, name, None), f'--{name.replace("_", "-")}'
        if name == 'directed':
            words += [] if value is None else ['--directed' if value else '--undirected']
        elif value is True:
            words.append(option)
        elif isinstance(value, (list, tuple)):
            words += [option, *map(str, value)]
        elif value is not None and value is not False:
            words += [option, str(value)]
    return words


def _say(args: argparse.Namespace, text: str) -> None:
    if not args.quiet:
        print(text, flush=True)


def _show(page: ReleasePage, paths: list[Path]) -> None:
    r"""Prints the sentences of the page, the verdict and where everything is."""
    print(*page.sentences.values(), sep='\n')
    print(f'Verdict: {page.verdict}. {page.audit["summary"]}')
    if page.left_out:
        print(f'Left out: {", ".join(page.left_out)}. To run them: {page.commands["audit"]}')
    folder = paths[0].parent
    print(f'{PUBLISH[page.exit_code]}: {folder / "release"}')
    print(f'Keep: {folder / "owner"} and the build in {list(page.kept)[-1]}')
    print(f'Wrote {paths[-1]}, which is not to be published')
