"""MacridVAE (Ma et al., NeurIPS 2019), equation by equation.

`MacridNetwork` is Algorithm 1 of the paper with two extensions that can be switched off; `MacridVAE` is the recommender
around it. In the paper, a component depends on the items of its own concept only, and the decoder does not know how
much of a history lies in a concept. To use all of a history, training then blurs items over all concepts. So:

    whole history     h_k = f_nn(own history) + W · direction of the sum over the whole history, W the same for all k
    concept shares    the terms of concept k are multiplied by (share of the history in k)^gamma, gamma learned
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Self, Unpack

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from macrid.data.ids import Id, Ids, first_few
from macrid.data.interactions import Interactions
from macrid.data.labels import Labels
from macrid.errors import SettingsError
from macrid.models import warm
from macrid.models.devices import choose_device, on_device
from macrid.models.layers import draw_dropout, draw_mask, initialise
from macrid.models.neighbours import Neighbours
from macrid.models.neural import NeuralRecommender
from macrid.models.retrieval import DEEPEST, TOGETHER_ON_GPU, WORTHWHILE, Index, find
from macrid.models.start import ease_start, number_of_concepts, prototypes_among, svd_start, svd_vectors
from macrid.ops import encoder
from macrid.ops.batches import relative
from macrid.ops.cells import Cells, arrange
from macrid.ops.partition import Precision, log_likelihood
from macrid.ops.sampled import Local, sampled_log_likelihood
from macrid.ops.sharded import sharded_log_likelihood
from macrid.ops.shards import WHOLE, Shards
from macrid.ops.sparse import Dropout, Histories, sum_by_concept
from macrid.ops.topk import Decoder, Mixture
from macrid.ops.vectors import unit
from macrid.recipe import settings_of_preset
from macrid.settings import MacridVAEKeywords, MacridVAESettings, TrainingSettings, takes

SAMPLE = 1000  # users whose histories a model keeps after training
MANY = 20  # concepts that "merge" starts with: the most the paper tries
STRONGEST = 2.0  # power of a share
NEIGHBOURS = "neighbours."  # before the names of their tensors
LENGTH = 2.0  # of prototypes at the start, which then turn half as fast: concepts depend less on the seed
NOISE = 0.2  # length of the random part of an item vector at the start: more makes concepts depend on the seed


@dataclass(frozen=True)
class Noise:
    """Everything random in one training step; None leaves that part out."""

    gumbel: Tensor | None = None  # (items, concepts)
    normal: Tensor | None = None  # (batch, concepts, dim)
    keep: Tensor | Dropout | None = None  # (interactions,) 0, or 1 / (1 − dropout); on a GPU by a seed
    keep_hidden: tuple[Tensor, ...] = ()  # per hidden layer (batch, concepts, width in)


class Loss(NamedTuple):
    """Means over the users of a batch; `total` = `negative_log_likelihood` + beta · `kl` + the labels' term, if any."""

    total: Tensor
    negative_log_likelihood: Tensor
    kl: Tensor


class Encoded(NamedTuple):
    """A batch of users as the encoder sees them."""

    mean: Tensor  # mu_u, (batch, concepts, dim)
    b: Tensor  # sigma_u = sigma_0 · exp(−b_u / 2), (batch, concepts, dim)
    log_weights: Tensor | None  # of the concepts, (batch, concepts); None if all weigh the same


class LocalTables(NamedTuple):
    """Rows of the item and context tables, and the draws among them."""

    item_vectors: Tensor  # (rows, dim)
    context_vectors: Tensor  # (rows, dim)
    drawn: Local | None = None


class Supervision(Protocol):
    """The effect of labels on training."""

    def loss(self, network: MacridNetwork, vectors: Tensor, drawn: Local | None) -> Tensor:
        """A term of the loss; vectors: (rows, dim) of all items, or of those drawn."""


class MacridNetwork(nn.Module):
    """The parameters theta and the functions of Algorithm 1."""

    precision: Precision = "fp32"  # of products in training on a GPU
    scratch: int | None = None  # numbers a step on a CPU may use as scratch memory
    supervision: Supervision | None = None  # the effect of labels, in training only
    shards: Shards = WHOLE  # the rows of the tables that this process holds, in training only

    def __init__(self, items: int, settings: MacridVAESettings) -> None:
        super().__init__()
        s = self.settings = settings
        concepts = MANY if isinstance(s.concepts, str) else s.concepts
        self.prototypes = nn.Parameter(torch.empty(concepts, s.dim))  # m_k
        self.item_vectors = nn.Parameter(torch.empty(items, s.dim))  # h_i
        self.context_vectors = nn.Parameter(torch.empty(items, s.dim))  # t_i
        self.widths = [s.dim, *[s.width] * s.hidden_layers, 2 * s.dim]
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in itertools.pairwise(self.widths))  # f_nn
        self.whole = nn.Parameter(torch.zeros(2 * s.dim, s.dim)) if s.whole_history == "on" else None  # W
        self.share_power = nn.Parameter(torch.ones(1)) if s.concept_shares == "on" else None  # gamma

    @property
    def cosine(self) -> bool:
        return self.settings.similarity == "cosine"

    @property
    def assignment_temperature(self) -> float:
        return self.settings.assignment_temperature or self.settings.temperature

    @property
    def concepts(self) -> int:
        """The number of concepts; with "merge", training may merge some."""
        return len(self.prototypes)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """As in torch; unless it is fixed, the number of concepts may differ."""
        if isinstance(self.settings.concepts, str):
            self.prototypes.data = self.prototypes.data.new_empty(len(state_dict["prototypes"]), self.settings.dim)
        return super().load_state_dict(state_dict, strict, assign)

    @torch.no_grad()
    def initialise(self, generator: Generator) -> None:
        """Random start: unit-length vectors on average, layers with the usual uniform bounds."""
        for table in (self.prototypes, self.item_vectors, self.context_vectors):
            table.normal_(std=self.settings.dim**-0.5, generator=generator)
        initialise(self.layers, generator)

    def draw_noise(self, histories: Histories, generator: Generator, items: int | None = None) -> Noise:
        """For a batch and this many items, by default all."""
        s, vectors = self.settings, self.item_vectors
        shape = histories.batch, self.concepts
        exponential = vectors.new_empty(items or len(vectors), self.concepts)
        return Noise(
            gumbel=-exponential.exponential_(generator=generator).log(),
            normal=torch.randn(*shape, s.dim, device=vectors.device, dtype=vectors.dtype, generator=generator),
            keep=draw_dropout(histories, s.dropout, vectors, generator),
            keep_hidden=tuple(draw_mask((*shape, width), s.dropout, vectors, generator) for width in self.widths[:-2]),
        )

    # PrototypeClustering

    def log_assignment(self, gumbel: Tensor | None = None, vectors: Tensor | None = None) -> Tensor:
        """log c_i: Gumbel-Softmax over s_ik in training, plain softmax without noise: (items, concepts)."""
        vectors = self.item_vectors if vectors is None else vectors
        prototypes = self.shards.entering(self.prototypes)
        return encoder.log_assignment(vectors, prototypes, self.assignment_temperature, self.cosine, gumbel)

    def mode_assignment(self) -> Tensor:
        """log c_i when not training: log of one-hot ("hard") or of the probabilities ("soft"): (items, concepts)."""
        log_assignment = self.log_assignment()
        if self.settings.assignment == "soft":
            return log_assignment
        one_hot = F.one_hot(log_assignment.argmax(dim=1), self.concepts)
        return one_hot.to(log_assignment.dtype).log()

    # Encoder

    def summed(
        self,
        contexts: Tensor,
        log_assignment: Tensor,
        histories: Histories,
        noise: Noise,
        precision: Precision = "fp32",
    ) -> tuple[tuple[Tensor, Tensor], Tensor | None]:
        """The encoder's sums, (batch, concepts, dim) and (batch, concepts), and log weights (batch, concepts).

        A weight is the concept's share of what dropout left of the history, to the power of gamma: never above 1.
        """
        if self.share_power is None:
            sums, squares = sum_by_concept(contexts, log_assignment, histories, noise.keep, precision)
            sums, squares = self.shards.summed(sums, squares)
            return (sums, squares), None
        with_ones = F.pad(contexts, (0, 1), value=1.0)  # one more dimension: sum_i c_ik
        sums, squares = sum_by_concept(with_ones, log_assignment, histories, noise.keep, precision)
        sums, squares = self.shards.summed(sums, squares)
        log_shares = encoder.log_shares(sums[..., -1])
        return (sums[..., :-1].contiguous(), squares), self.share_power.clamp(0, STRONGEST) * log_shares

    def transform(self, sums: Tensor, squares: Tensor, noise: Noise) -> Tensor:
        """f_nn of the encoder's sums, (batch, concepts, dim) and (batch, concepts): (batch, concepts, 2 · dim)."""
        hidden = encoder.normalise(sums, squares)
        for depth, layer in enumerate(self.layers):
            if depth < len(noise.keep_hidden):
                hidden = hidden * noise.keep_hidden[depth]
            hidden = encoder.affine(hidden, layer.get_parameter("weight"), layer.get_parameter("bias"))
            if depth < len(self.layers) - 1:
                hidden = torch.tanh(hidden)
        if self.whole is None:
            return hidden
        whole = unit(sums.sum(dim=1))  # (batch, dim), as an item's assignments add up to 1
        return hidden + (whole @ self.whole.mT)[:, None]

    # Decoder

    def loss(self, histories: Histories, noise: Noise, beta: float | Tensor, local: LocalTables | None = None) -> Loss:
        """−L of Algorithm 1, averaged over the users of the batch.

        local: estimate the likelihood from these rows of the tables (`histories` are then in their positions).
        """
        s = self.settings
        vectors, contexts, drawn = local or LocalTables(self.item_vectors, self.context_vectors)
        temperature, prototypes = self.assignment_temperature, self.shards.entering(self.prototypes)
        items, log_assignment = encoder.assign(vectors, prototypes, temperature, self.cosine, noise.gumbel)
        sums, log_weights = self.summed(contexts, log_assignment, histories, noise, self.precision)
        components, kl = encoder.sample(self.transform(*sums, noise), noise.normal, s.prior_std, self.cosine)
        nll = self.likelihood(components, log_weights, items, log_assignment, histories, drawn) / -histories.batch
        kl = kl.mean()
        total = nll + beta * kl
        if self.supervision is not None:
            total = total + self.supervision.loss(self, vectors, drawn)
        return Loss(total, nll, kl)

    def likelihood(
        self,
        components: Tensor,
        log_weights: Tensor | None,
        items: Tensor,
        log_assignment: Tensor,
        histories: Histories,
        drawn: Local | None,
    ) -> Tensor:
        """ln p(x_u | z_u, C) over directions, summed over the batch."""
        s = self.settings
        bound = 1 / s.temperature if self.cosine else None
        if log_weights is not None:  # one more dimension: [z, tau · log weight] · [h, 1]
            components = torch.cat([components, s.temperature * log_weights[..., None]], dim=-1)
            items = F.pad(items, (0, 1), value=1.0)
            bound = None if bound is None else bound + STRONGEST * math.log(1 / encoder.SMALLEST + self.concepts)
        mixture = components, items, log_assignment, s.temperature
        if not self.shards.is_whole:
            return sharded_log_likelihood(
                *mixture, histories, self.shards, drawn=drawn, precision=self.precision, bound=bound,
                scratch=self.scratch,
            )  # fmt: skip
        if drawn is None:
            return log_likelihood(*mixture, histories, precision=self.precision, bound=bound, scratch=self.scratch)
        return sampled_log_likelihood(*mixture, drawn, precision=self.precision, bound=bound, scratch=self.scratch)

    # When not training

    @torch.no_grad()
    def encode(self, histories: Histories, log_assignment: Tensor) -> Encoded:
        sums, log_weights = self.summed(self.context_vectors, log_assignment, histories, Noise())
        return Encoded(*encoder.posterior(self.transform(*sums, Noise())), log_weights)

    @torch.no_grad()
    def concept_of(self) -> Tensor:
        """The most likely concept of every item: (items,)."""
        return self.log_assignment().argmax(dim=1)

    def effective_concepts(self) -> float:
        """Concepts in use: exp of the entropy of how items are divided among their most likely concepts."""
        counts = self.shards.total(torch.bincount(self.concept_of(), minlength=self.concepts)).double()
        return float(torch.exp(torch.special.entr(counts / counts.sum()).sum()))

    def direction(self, vectors: Tensor) -> Tensor:
        return encoder.direction(vectors, self.cosine)


class MacridVAE(NeuralRecommender):
    """A recommender that describes each user by one component per concept.

    preset: "best", or "paper" for Algorithm 1 as written, in training too. Other keyword arguments are the fields of
    `macrid.settings.MacridVAESettings`: concepts, dim, beta, …
    """

    settings_class: ClassVar[Any] = MacridVAESettings
    training_defaults: dict[str, Any] = {"balance": 0.3, "learning_rate": 4e-3, "patience": 10}  # noqa: RUF012, changed by presets
    settings: MacridVAESettings
    network: MacridNetwork
    labelled: dict[str, list[Id]] | None = None
    """The labels behind concept numbers ("concepts") and the attributes behind dimensions ("dimensions")."""
    sample: sp.csr_array | None = None
    """Histories of some users, whose range limits moves when steering."""
    meaning: Any = None
    """Axes and names, a `macrid.concepts.meaning.Meaning`."""
    named_concepts: int = 0
    """Concepts that labels have names for."""
    map_strength: Any = None
    """Of the map that placed items after training, a `macrid.cold.Strength`."""
    neighbours_note: str | None = None
    """Why there is no linear part, if it was asked for."""
    neighbours_weight: float | None = None
    """Of the linear part, as it was chosen; 0 if it does not help."""
    fixed_weight: float | None = None
    """The weight to give it, if there are no validation users to choose one on."""
    origin: warm.Origin | None = None
    """Where the items of a warm start come from."""
    index: Index | None = None
    """How to find the best items without scoring all of them; None scores them all."""
    kept_cells: tuple[Decoder, Cells] | None = None
    """With the decoder they were computed from."""
    asked: int = 0
    """Questions that were answered by scoring everything."""
    renumbered: int = 0
    """Concepts that had changed their number after a warm start, and got it back."""

    @takes(MacridVAESettings)
    def __init__(self, *, preset: str = "best", **settings: Unpack[MacridVAEKeywords]) -> None:
        chosen, fields = settings_of_preset(preset), self.settings_class.model_fields
        super().__init__(**{name: value for name, value in chosen.items() if name in fields} | dict(settings))
        self.given_settings, self.given = self.settings, {"preset": preset, **settings}
        if chosen:
            self.training_defaults = {name: value for name, value in chosen.items() if name not in fields}

    def prepare(self, data: Interactions, training: TrainingSettings) -> None:
        users, items = data.matrix.shape
        self.settings = self.given_settings.suited_to(items, data.matrix.nnz / max(users, 1))
        if self.started_from is not None:
            self.settings = self._settings_from(self.started_from)
        super().prepare(data, training)
        self.index = None
        self.labelled = self.meaning = self.neighbours = self.neighbours_note = self.neighbours_weight = None
        users = np.random.default_rng(training.seed).permutation(data.matrix.shape[0])[:SAMPLE]
        self.sample = data.matrix[np.sort(users)]

    def _build(self, items: int) -> MacridNetwork:
        return MacridNetwork(items, self.settings)

    def check_warm_start(self, old: Any) -> None:
        warm.check_possible(self._settings_from(old) if isinstance(old, MacridVAE) else self.settings, old)

    def _settings_from(self, old: MacridVAE) -> MacridVAESettings:
        given = self.given_settings
        return MacridVAESettings.make(
            warm.settings_from(old, {name: getattr(given, name) for name in given.model_fields_set})
        )

    def _start_from(self, old: MacridVAE, matrix: sp.csr_array, device: torch.device) -> None:
        """Start near the weights of an earlier model; with another number of concepts, from new prototypes."""
        n, s = self.network, self.settings
        self.origin = warm.origin_of(self.items, old)
        if s.concepts == "auto":
            n.prototypes.data = n.prototypes.data.new_empty(number_of_concepts(matrix, device), s.dim)
        n.initialise(Generator().manual_seed(0))
        items = svd_vectors(matrix, s.dim, Generator().manual_seed(0), device)
        items = warm.turned(items, old, self.origin, self.popularity)
        self._add_start(items, items)
        warm.move_towards(self, old, matrix, self.origin)
        if n.concepts != old.network.concepts:
            vectors = unit(n.item_vectors.detach())
            self._put_prototypes(prototypes_among(matrix, vectors, n.concepts, Generator().manual_seed(0), device))

    def _after_training(self) -> None:
        if self.started_from is not None and self.origin is not None and not self.named_concepts:
            self.renumbered = warm.keep_numbers(self, self.started_from, self.origin)

    def _await_start(self) -> None:
        if self.started_from is not None:
            self.origin = warm.origin_of(self.items, self.started_from)

    def _start(self, matrix: sp.csr_array, seed: int) -> None:
        n, dim = self.network, self.settings.dim
        device = choose_device("cpu" if self.training is None else self.training.device)
        if self.started_from is not None:
            self._start_from(self.started_from, matrix, device)
            return
        if self.settings.concepts == "auto":
            concepts = max(number_of_concepts(matrix, device), self.named_concepts)
            n.prototypes.data = n.prototypes.data.new_empty(concepts, dim)
        if self.settings.start == "random":
            n.initialise(torch.Generator().manual_seed(seed))
            return
        n.initialise(torch.Generator().manual_seed(0))  # what follows from the data does so for every seed
        if self.settings.start == "ease":
            items, contexts, prototypes = ease_start(relative(matrix), n.concepts, dim, device)
        else:
            items, prototypes = svd_start(matrix, n.concepts, dim, device)
            contexts = items
        self._put_prototypes(prototypes)
        self._add_start(items, contexts)

    @torch.no_grad()
    def _put_prototypes(self, prototypes: Tensor) -> None:
        """prototypes: (concepts, dim) of length 1."""
        self.network.prototypes.copy_(LENGTH * prototypes if self.network.cosine else prototypes)

    @torch.no_grad()
    def _add_start(self, items: Tensor, contexts: Tensor) -> None:
        """Add vectors (items, dim) that group similar items to an initialised network."""
        n, dim = self.network, self.settings.dim
        n.item_vectors.mul_(NOISE).add_(items)
        if self.settings.start != "svd":
            n.context_vectors.add_(contexts)
            *hidden, last = n.layers
            if not hidden:  # a user's component starts as the sum of the vectors of the history
                last.get_parameter("weight")[:dim] += torch.eye(dim)

    def read_labels(self, source: Any, items: Ids) -> Labels:
        s = self.settings
        labels = Labels.read(source, items, MANY if isinstance(s.concepts, str) else s.concepts, s.dim)
        if s.concepts == "merge" and labels.concept_names:
            raise SettingsError(
                f"concepts is 'merge', but concept labels need a fixed number, here {len(labels.concept_names)} or"
                " more; set it, or label attributes only"
            )
        old = self.started_from
        before = [] if old is None or old.labelled is None else old.labelled["concepts"]
        if old is not None and labels.concept_names and list(labels.concept_names) != before:
            raise SettingsError(
                f"the labels have concepts {first_few(list(labels.concept_names), 3)}, but those of the run to start"
                f" from are {first_few(before, 3) or 'not labelled'}; use the same, or start afresh"
            )
        self.named_concepts = len(labels.concept_names)
        return labels

    @property
    def decoder(self) -> Decoder:
        """Turns components into item scores; cached until the weights change."""
        self.check_fitted()
        s, version = self.settings, self._decoder_version()
        if self.is_training or self.kept_decoder is None or self.kept_decoder[0] != version:
            with torch.no_grad(), on_device(self.device):
                items = self.network.direction(self.network.item_vectors.detach())
                decoder = Decoder(items, self.network.mode_assignment(), s.temperature, s.assignment == "hard")
            if self.is_training:
                return decoder
            self.kept_decoder = version, decoder
        return self.kept_decoder[1]

    @decoder.setter
    def decoder(self, decoder: Decoder) -> None:
        self.kept_decoder = self._decoder_version(), decoder

    def _decoder_version(self) -> tuple[Any, ...]:
        s = self.settings
        return self.version(), s.assignment, s.similarity, s.temperature, s.assignment_temperature

    def _mixture(self, histories: sp.csr_array, decoder: Decoder) -> Mixture:
        encoded = self.network.encode(self.to_device(histories), decoder.log_assignment)
        linear = None if self.neighbours is None else self.neighbours.scores(histories)
        return Mixture(encoded.mean, encoded.log_weights, linear)

    @torch.no_grad()
    def rank(
        self, histories: sp.csr_array, n: int, hidden: sp.csr_array | None = None, allowed: np.ndarray | None = None
    ) -> tuple[Tensor, Tensor]:
        cells = self.arranged(histories.shape[0], n)
        if cells is None or self.index is None:
            return super().rank(histories, n, hidden, allowed)
        with on_device(self.device):
            found = find(self, cells, histories, n, hidden, allowed, self.index.probes)
        return found.positions, found.log_p

    @torch.no_grad()
    def arranged(self, questions: int, n: int) -> Cells | None:
        """The items by cell; None to score everything: without an index, for long lists, for many questions at once on
        a GPU, or for the first questions, as arranging the items takes longer."""
        if self.index is None or self.is_training or n > DEEPEST * len(self.items):
            return None
        decoder = self.decoder
        if self.kept_cells is None or self.kept_cells[0] is not decoder:
            self.asked += questions
            if self.asked < WORTHWHILE:
                return None
            with on_device(self.device):
                self.kept_cells = decoder, arrange(decoder, self.index.grouping.to(self.device).extended(decoder.items))
        return None if self.device.type == "cuda" and questions > TOGETHER_ON_GPU else self.kept_cells[1]

    def _forget(self) -> None:
        super()._forget()
        self.kept_cells, self.asked = None, 0

    def to(self, device: str) -> Self:
        super().to(device)
        self.neighbours = None if self.neighbours is None else self.neighbours.to(self.device)
        return self

    def state(self) -> dict[str, Tensor]:
        linear = {} if self.neighbours is None else self.neighbours.state()
        return super().state() | {f"{NEIGHBOURS}{name}": tensor for name, tensor in linear.items()}

    def load_state(self, state: dict[str, Tensor]) -> None:
        linear = {name.removeprefix(NEIGHBOURS): value for name, value in state.items() if name.startswith(NEIGHBOURS)}
        super().load_state({name: value for name, value in state.items() if not name.startswith(NEIGHBOURS)})
        self.neighbours = Neighbours.from_state(linear) if linear else None
        if self.neighbours is not None and self.neighbours.items != len(self.items):
            raise ValueError(f"neighbours of {self.neighbours.items:,} items instead of {len(self.items):,}")

    def _repr_html_(self) -> str:
        from macrid.concepts.shown import model_html

        return model_html(self)

    def item_vectors(self) -> Tensor:
        return self.network.item_vectors.detach()

    def concepts_of_items(self) -> np.ndarray:
        """The concept of each item, in the order of `items`: (items,). Do not modify it."""
        return self.decoder.likeliest

    def membership(self) -> np.ndarray:
        """How much each item belongs to each concept, rows that add up to 1: (items, concepts)."""
        self.check_fitted()
        with torch.no_grad(), on_device(self.device):
            return self.network.log_assignment().exp().cpu().numpy()

    @torch.no_grad()
    def _posterior(self, histories: Histories) -> tuple[Tensor, Tensor]:
        mean, b, _ = self.network.encode(histories, self.decoder.log_assignment)
        return mean, self.settings.prior_std * torch.exp(-0.5 * b)

    def confidence(self, histories: sp.csr_array) -> np.ndarray:
        """How much of each history lies in each concept, the sum of c_ik over its items: (users, concepts)."""
        return histories @ self.decoder.log_assignment.exp().cpu().numpy()
