r"""Release files, the privacy card and its verification, and the cache of builds."""

from torch_geometric_cgt.release.cache import cache_name, read_cache, write_cache
from torch_geometric_cgt.release.card import Card
from torch_geometric_cgt.release.release import Release, make_release, read_release, write_release
from torch_geometric_cgt.release.verify import check_private_card

__all__ = [
    'Card',
    'Release',
    'cache_name',
    'check_private_card',
    'make_release',
    'read_cache',
    'read_release',
    'write_cache',
    'write_release',
]
