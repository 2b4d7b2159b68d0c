r"""Release files, the privacy card and its verification, and the cache of builds."""

from torch_geometric_cgt.pipeline import cache_name
from torch_geometric_cgt.release.cache import read_cache, write_cache
from torch_geometric_cgt.release.card import Card, check_private_card
from torch_geometric_cgt.release.export import EXPORT_FORMATS, export_release
from torch_geometric_cgt.release.release import (
    Release,
    make_release,
    read_release,
    save_release,
    sign_release,
    write_release,
)
from torch_geometric_cgt.release.signature import PublicKey, new_key, verify_signature
from torch_geometric_cgt.release.terms import Terms, with_class_names, with_terms

__all__ = [
    'EXPORT_FORMATS',
    'Card',
    'PublicKey',
    'Release',
    'Terms',
    'cache_name',
    'check_private_card',
    'export_release',
    'make_release',
    'new_key',
    'read_cache',
    'read_release',
    'save_release',
    'sign_release',
    'verify_signature',
    'with_class_names',
    'with_terms',
    'write_cache',
    'write_release',
]
