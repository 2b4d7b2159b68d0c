"""Copies to a device are pinned and asynchronous, copies to the host are complete."""

import torch

from tests.helpers.rehearsal import DEVICE, DeviceTensor, Rehearsal
from torch_geometric_cgt.utils.devices import to_device


def test_the_host_keeps_its_tensors():
    value = torch.arange(3)
    assert to_device(value, 'cpu') is value


def test_copies_to_a_gpu_are_pinned_and_do_not_wait():
    rehearsal, value = Rehearsal({'utils/to_device': 'back to the host'}), torch.arange(3)
    with rehearsal.run():
        moved = to_device(value, DEVICE)
        assert isinstance(moved, DeviceTensor) and moved.device == DEVICE
        assert rehearsal.num_uploads == 1 and rehearsal.findings == []
        back = to_device(moved, 'cpu')
    assert torch.equal(back, value)
    assert [finding.function for finding in rehearsal.findings] == ['to_device']
