"""Softmax over many classes: frequent ones in the head, rare ones in clusters of their own."""
from collections import namedtuple

from .. import functional as F
from ..._root import torch
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


def _check_cutoffs(cutoffs, n_classes):
    if len(cutoffs) == 0:
        raise ValueError("cutoffs should be a sequence of length larger than 0")
    rising = all(a < b for a, b in zip(cutoffs, cutoffs[1:]))
    if not rising or cutoffs[0] <= 0 or cutoffs[-1] > n_classes - 1 or any(int(c) != c for c in cutoffs):
        raise ValueError(
            "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value "
            "is between 1 and n_classes-1"
        )


class AdaptiveLogSoftmaxWithLoss(Module):
    """The head scores the shortlist and one place for each cluster; a cluster scores its classes on fewer features."""

    def __init__(self, in_features, n_classes, cutoffs, div_value=4.0, head_bias=False, device=None, dtype=None):
        super().__init__()
        cutoffs = list(cutoffs)
        _check_cutoffs(cutoffs, n_classes)
        where = {"device": device, "dtype": dtype}
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = cutoffs + [n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **where)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            width = int(in_features // div_value ** (i + 1))
            self.tail.append(Sequential(
                Linear(in_features, width, bias=False, **where), Linear(width, high - low, bias=False, **where)))

    def reset_parameters(self):
        self.head.reset_parameters()
        for down, up in self.tail:
            down.reset_parameters()
            up.reset_parameters()

    def _checked(self, input, target):
        """(input, target, whether they are a batch)"""
        if target.dim() == 1:
            if input.shape[0] != target.shape[0]:
                raise RuntimeError("Input and target should have the same size in the batch dimension.")
            if input.dim() != 2:
                raise RuntimeError(f"1D target tensor expects 2D input tensors, but found inputs with size {input.size()}")
            return input, target, True
        if target.dim() == 0:
            if input.dim() != 1:
                raise RuntimeError(f"0D target tensor expects 1D input tensors, but found inputs with size {input.size()}")
            return input.unsqueeze(0), target.unsqueeze(0), False
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")

    def forward(self, input_, target_):
        input, target, batched = self._checked(input_, target_)
        used = 0
        output = input.new_empty(target.shape[0])
        places = target.new_empty(target.shape[0])
        bounds = [0, *self.cutoffs]
        for i, (low, high) in enumerate(zip(bounds, bounds[1:])):
            inside = (target >= low) & (target < high)
            rows = inside.nonzero().squeeze()
            if rows.numel() == 0:
                continue
            if i == 0:
                places.index_copy_(0, rows, target[inside])
            else:
                cluster = F.log_softmax(self.tail[i - 1](input.index_select(0, rows)), dim=1)
                places.index_fill_(0, rows, self.cutoffs[0] + i - 1)
                said = cluster.gather(1, (target[inside] - low).unsqueeze(1))
                output = output.index_copy(0, rows, said.squeeze(1))
            used += rows.numel()
        if used != target.shape[0]:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{target.min().item()}, "
                f"{target.max().item()}] were found. "
            )
        output = self._with_head(input, target, output, places)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _with_head(self, input, target, output, places):
        """Adds what the head says of each target's place; targets of the shortlist have nothing from a cluster."""
        output = output.masked_fill(target < self.cutoffs[0], 0.0)
        return output + F.log_softmax(self.head(input), dim=1).gather(1, places.unsqueeze(1)).squeeze()

    def _get_full_log_prob(self, input, head_output):
        out = input.new_empty((head_output.size(0), self.n_classes))
        head = F.log_softmax(head_output, dim=1)
        out[:, :self.shortlist_size] = head[:, :self.shortlist_size]
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            cluster = F.log_softmax(self.tail[i](input), dim=1)
            out[:, low:high] = cluster + head[:, self.shortlist_size + i].unsqueeze(1)
        return out

    def log_prob(self, input):
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input):
        """The likeliest class of each row; clusters are opened only where the head points to one."""
        head_output = self.head(input)
        best = torch.argmax(head_output, dim=1)
        inside = best < self.shortlist_size
        if bool(inside.all()):
            return best
        if not bool(inside.any()):
            return torch.argmax(self._get_full_log_prob(input, head_output), dim=1)
        rest = ~inside
        best[rest] = torch.argmax(self._get_full_log_prob(input[rest], head_output[rest]), dim=1)
        return best
