r"""Exports of a release: the same forest in the format of another program.

An export is a conversion. It has the promise, the terms and the checksum of the card that it was
made from, but the signature of a release covers the files of the release alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch_geometric_cgt.release.export_formats import (
    write_dgl,
    write_networkx,
    write_npz,
    write_parquet,
    write_pyg,
)
from torch_geometric_cgt.release.export_readme import Origin, describe_export
from torch_geometric_cgt.release.hugging_face import write_hugging_face
from torch_geometric_cgt.release.release import CARD, README, SIGNATURE, Release, read_release
from torch_geometric_cgt.release.signature import PublicKey
from torch_geometric_cgt.release.terms import Terms
from torch_geometric_cgt.utils.block_checksums import sha256
from torch_geometric_cgt.utils.files import atomic_folder, write_sealed_json, write_text
from torch_geometric_cgt.utils.limits import MAX_RELEASE_BYTES

EXPORT = 'export.json'
WRITERS: dict[str, Callable[[Path, Release], None]] = {
    'pyg': write_pyg,
    'parquet': write_parquet,
    'npz': write_npz,
    'dgl': write_dgl,
    'networkx': write_networkx,
}
EXPORT_FORMATS = (*WRITERS, 'huggingface')


def export_release(
    folder: str | Path,
    out: str | Path,
    format: str,
    terms: Terms | None = None,
    public_key: str | Path | None = None,
    max_bytes: int = MAX_RELEASE_BYTES,
) -> Origin:
    r"""Reads and checks a release, and writes it in another format. Nothing but
    the release is read: the fitted model and the clusters of source nodes are
    never part of an export. Returns where the export comes from.

    Args:
        folder (str or Path): The folder of the release.
        out (str or Path): A folder that does not exist yet, or is empty.
        format (str): One of :obj:`"pyg"`, :obj:`"parquet"`, :obj:`"npz"`,
            :obj:`"dgl"`, :obj:`"networkx"` and :obj:`"huggingface"`.
        terms (Terms, optional): Terms that the card does not state.
            (default: :obj:`None`)
        public_key (str or Path, optional): A public key, or its file. If given,
            the release must have a signature of this key.
            (default: :obj:`None`)
        max_bytes (int, optional): The largest allowed size of the tensors.
            (default: 512 MiB)
    """
    if format not in EXPORT_FORMATS:
        raise ValueError(f"Unknown format '{format}'; known are {list(EXPORT_FORMATS)}")
    folder, out = Path(folder).expanduser(), Path(out).expanduser()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileExistsError(f"'{out}' exists already; choose a new folder")
    release = read_release(folder, public_key=public_key, max_bytes=max_bytes)
    origin = Origin(
        format=format,
        card_sha256=sha256(folder / CARD),
        is_signed=(folder / SIGNATURE).exists(),
        verified_by=None if public_key is None else PublicKey.of(public_key).name,
        terms=Terms.of(release.card).completed(terms or Terms()),
    )
    with atomic_folder(out.absolute()) as draft:
        if format == 'huggingface':
            write_hugging_face(draft, release, origin, folder)
        else:
            WRITERS[format](draft, release)
            write_text(draft / README, describe_export(release, origin))
        files = sorted(path.name for path in draft.iterdir() if path.is_file())
        write_sealed_json(draft / EXPORT, {**origin.to_dict(), 'card': release.card}, files)
    return origin
