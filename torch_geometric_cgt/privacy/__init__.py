r"""What a release guarantees."""

from torch_geometric_cgt.privacy.card import PrivacyCard, privacy_card

__all__ = ['PrivacyCard', 'privacy_card']
