"""Weights as products read them, and the way of their gradients back to the master weights."""

from collections.abc import Sequence

import torch
from torch import Tensor

from rlvr.model.lora import Adapters


def leaf(
    masters: Sequence[Tensor],
    dtype: torch.dtype,
    learns: bool,
    repeats: Sequence[int] = (),
    adapters: Adapters | None = None,
) -> Tensor:
    """Master weights below each other in one tensor, cast to `dtype`.

    Args:
        masters: In float32, alike but in their first dimension.
        dtype: Of the products.
        learns: Whether a backward pass adds the gradient to those of the masters, in float32, and
            drops its own: gradients of many micro-batches are summed exactly, and one matrix's at
            a time is held.
        repeats: For each master, how many rows read it: the same vector, once for each head.
        adapters: What is added to some masters, and learns in place of all of them. None where the
            masters learn themselves.
    """
    added = adapters or {}
    parts = [master.detach() for master in masters]
    parts = [
        added[master].merged(part) if master in added else part
        for master, part in zip(masters, parts, strict=True)
    ]
    if repeats:
        parts = [part.expand(n, -1) for part, n in zip(parts, repeats, strict=True)]
    found = (parts[0] if len(parts) == 1 else torch.cat(parts)).to(dtype)
    if learns and (adapters is None or any(master in added for master in masters)):
        found.requires_grad_()
        sizes = [len(part) for part in parts]

        def deliver(found: Tensor) -> None:
            assert found.grad is not None
            for master, gradient in zip(masters, found.grad.split(sizes), strict=True):
                if adapters is None:
                    add_gradient(master, gradient.sum(0) if repeats else gradient)
                elif master in added:
                    for tensor, share in added[master].gradients(gradient):
                        add_gradient(tensor, share)
            found.grad = None

        found.register_post_accumulate_grad_hook(deliver)
    return found


def add_gradient(master: Tensor, gradient: Tensor) -> None:
    """Add to a master weight's gradient, in its own dtype."""
    if master.grad is None:
        master.grad = gradient.to(master.dtype, copy=True)
    else:
        master.grad.add_(gradient)


@torch.no_grad()
def learn_rows(table: Tensor, rows: Tensor, gradients: Tensor) -> None:
    """Add the gradients of some rows, repeats allowed, to those of the table."""
    if table.grad is None:
        table.grad = torch.zeros_like(table)
    table.grad.index_add_(0, rows.flatten(), gradients.flatten(0, -2).to(table.dtype))
