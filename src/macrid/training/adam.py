"""Adam (Kingma and Ba, 2015) with gradient clipping, on whole tables or some of their rows.

Unlike `torch.optim.Adam` it can update single rows, clips without an extra pass over memory, and does not load torch's
compiler on first use, which takes seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from macrid.ops import kernels

BETAS = (0.9, 0.999)
EPSILON = 1e-8


class Adam:
    """Updates parameters from their gradients. `state` holds the moments by parameter, as in torch's optimisers."""

    def __init__(self, parameters: Iterable[Tensor], learning_rate: float, l2: float = 0.0) -> None:
        self.parameters = list(parameters)
        self.learning_rate, self.l2 = learning_rate, l2
        self.state: dict[Tensor, dict[str, Tensor]] = {}

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def keep_rows(self, table: Tensor, rows: Tensor) -> None:
        """Keep the moments of these rows of a table that has lost the others."""
        state = self.state.get(table, {})
        state |= {name: state[name][rows] for name in ("exp_avg", "exp_avg_sq") if name in state}

    @torch.no_grad()
    def step(
        self,
        clip: float,
        by_rows: Mapping[Tensor, Tensor] | None = None,
        rows: Tensor | None = None,
        count: Tensor | None = None,
        norm: Tensor | None = None,
    ) -> None:
        """One step with the gradients clipped to a norm of `clip`, in place.

        by_rows: table → gradient of its `rows` (rows, dim), all distinct; other rows keep their moments.
        count: how many of the rows count, all if None.
        norm: of all gradients, if some of them are in other processes.
        """
        by_rows = by_rows or {}
        whole = {p: p.grad for p in self.parameters if p.grad is not None}
        if norm is None:
            norm = nn.utils.get_total_norm([*whole.values(), *by_rows.values()], foreach=True)
        scale = (norm / clip).clamp(min=1.0)
        for parameter in (*whole, *by_rows):
            self._begin(parameter)
        torch._foreach_add_([self.state[parameter]["step"] for parameter in (*whole, *by_rows)], 1)
        if whole:
            self._step_whole(whole, scale)
        for table, gradient in by_rows.items():
            assert rows is not None
            self._step_rows(table, gradient, rows, count, scale)

    def _begin(self, parameter: Tensor) -> None:
        state = self.state.setdefault(parameter, {})
        if not state:
            state["step"] = torch.zeros((), device=parameter.device)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)

    def _step_whole(self, gradients: Mapping[Tensor, Tensor], scale: Tensor) -> None:
        states = [self.state[parameter] for parameter in gradients]
        if kernels.serve(scale):
            from macrid.ops.adam_triton import adam

            for (parameter, gradient), state in zip(gradients.items(), states, strict=True):
                mean, square, step = state["exp_avg"], state["exp_avg_sq"], state["step"]
                adam(parameter, mean, square, gradient, step, scale, self.learning_rate, self.l2)
            return
        means, squares, steps = ([state[name] for state in states] for name in ("exp_avg", "exp_avg_sq", "step"))
        self._fused([*gradients], [*gradients.values()], means, squares, steps, scale)

    def _step_rows(self, table: Tensor, gradient: Tensor, rows: Tensor, count: Tensor | None, scale: Tensor) -> None:
        state = self.state[table]
        mean, square, step = state["exp_avg"], state["exp_avg_sq"], state["step"]
        if count is not None:
            from macrid.ops.adam_triton import adam_rows

            adam_rows(table, mean, square, gradient, rows, count, step, scale, self.learning_rate, self.l2)
            return
        wholes = (table, mean, square)
        parts = [whole.index_select(0, rows) for whole in wholes]
        self._fused([parts[0]], [gradient.contiguous()], [parts[1]], [parts[2]], [step], scale)
        for whole, part in zip(wholes, parts, strict=True):
            whole.index_copy_(0, rows, part)

    def _fused(
        self,
        parameters: list[Tensor],
        gradients: list[Tensor],
        means: list[Tensor],
        squares: list[Tensor],
        steps: list[Tensor],
        scale: Tensor,
    ) -> None:
        torch._fused_adam_(
            parameters, gradients, means, squares, [], steps,
            lr=self.learning_rate, beta1=BETAS[0], beta2=BETAS[1], weight_decay=self.l2, eps=EPSILON, amsgrad=False,
            maximize=False, grad_scale=scale,
        )  # fmt: skip
