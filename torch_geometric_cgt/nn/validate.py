r"""Checks of the arguments and inputs of a generator."""

from __future__ import annotations

from typing import Any

from torch import Tensor

CHOICES = {
    'siblings': ('typed', 'independent'),
    'vocabulary': ('auto', 'flat', 'cells'),
    'evaluation': ('paths', 'trees', 'sequence'),
    'position': ('layer', 'slot'),
    'attention': ('ancestors', 'all'),
}
AT_LEAST_ONE = (
    'num_tokens',
    'num_classes',
    'hidden_channels',
    'num_layers',
    'num_heads',
    'num_types',
)


def check_arguments(args: dict[str, Any]) -> None:
    r"""Raises an error if :class:`CGTGenerator` cannot take these arguments."""
    for name in AT_LEAST_ONE:
        if args[name] < 1:
            raise ValueError(f"'{name}' must be at least 1 (got {args[name]})")
    if args['num_scenes'] < 0:
        raise ValueError(f"'num_scenes' must not be negative (got {args['num_scenes']})")
    if args['hidden_channels'] % args['num_heads'] != 0:
        raise ValueError(
            f"'hidden_channels' must be divisible by 'num_heads' "
            f'(got {args["hidden_channels"]} and {args["num_heads"]})'
        )
    if not 0 <= args['dropout'] < 1:
        raise ValueError(f"'dropout' must lie in [0, 1) (got {args['dropout']})")
    for name, choices in CHOICES.items():
        if args[name] not in choices:
            known = ', '.join(f"'{choice}'" for choice in choices)
            raise ValueError(f"'{name}' must be one of {known} (got '{args[name]}')")
    own_query = args['position'] == 'slot' or args['attention'] == 'all'
    if own_query and args['siblings'] != 'independent':
        raise ValueError(
            f"position='{args['position']}' with attention='{args['attention']}' gives each "
            f"slot a query of its own, which needs siblings='independent' "
            f"(got '{args['siblings']}')"
        )


def check_trees(
    tokens: Tensor, y: Tensor, num_slots: int, num_tokens: int, num_classes: int
) -> None:
    r"""Raises an error if shapes or values do not fit the model."""
    if tokens.dim() != 2 or tokens.size(1) != num_slots:
        raise ValueError(
            f"'tokens' must have the shape [B, {num_slots}] (got {list(tokens.shape)})"
        )
    if y.shape != tokens.shape[:1]:
        raise ValueError(
            f"'y' must hold one label per tree (got {list(y.shape)} for {tokens.size(0)} trees)"
        )
    _check_range('tokens', tokens, num_tokens + 1)
    _check_range('y', y, num_classes)


def check_scene(y: Tensor, scene: Tensor | None, num_scenes: int) -> None:
    r"""Raises an error if a model with scenes gets no scene for each tree."""
    if not num_scenes:
        return
    if scene is None or scene.shape != y.shape:
        got = None if scene is None else list(scene.shape)
        raise ValueError(f"'scene' must hold one scene per tree (got {got})")
    _check_range('scene', scene, num_scenes)


def _check_range(name: str, value: Tensor, size: int) -> None:
    if value.device.type != 'cpu' or value.numel() == 0:
        return  # reading values would make the host wait for the device
    low, high = value.aminmax()
    if int(low) < 0 or int(high) >= size:
        raise ValueError(f"'{name}' must lie in [0, {size - 1}] (got {int(low)} to {int(high)})")
