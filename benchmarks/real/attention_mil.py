"""Attention-based multiple-instance learning (Ilse, Tomczak and Welling, 2018), written plainly.

    h_l = x_l, or relu(W x_l + c) with a hidden layer
    a = softmax_l(uᵀ tanh(V h_l + b)),    score = wᵀ Σ a_l h_l + b'

Tokens standardised; Adam on the logistic loss in batches; stopped when the loss of a validation
fifth has not become better for PATIENCE epochs, the best epoch kept. Learning rate and weight decay
are those of SETTINGS with the least validation loss. A seed decides fifth, weights and batches.
"""

from __future__ import annotations

import copy
from itertools import product

import numpy as np
import torch
from sklearn.model_selection import train_test_split

# Choices, the usual ones: Ilse et al. have an attention of width 128 on 500 features.
WIDTH = 64  # of the hidden layer and of the attention
BATCH = 32
EPOCHS, PATIENCE = 200, 20
SETTINGS = tuple(product((1e-3, 3e-3), (1e-4, 1e-2)))  # learning rate, weight decay


class Network(torch.nn.Module):
    """Scores of bags, whose tokens lie one after another."""

    def __init__(self, dim: int, hidden: bool):
        super().__init__()
        width = WIDTH if hidden else dim
        layers = [torch.nn.Linear(dim, WIDTH), torch.nn.ReLU()] if hidden else []
        self.hidden = torch.nn.Sequential(*layers)
        self.attention = torch.nn.Sequential(
            torch.nn.Linear(width, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, 1)
        )
        self.readout = torch.nn.Linear(width, 1)

    def forward(self, tokens, bag_of, count: int):
        """Scores (count,) of tokens (N, d), of which token l is in bag `bag_of[l]`."""
        features = self.hidden(tokens)
        logits = self.attention(features)[:, 0]
        top = torch.full((count,), -torch.inf).scatter_reduce(0, bag_of, logits, "amax")
        weights = torch.exp(logits - top.detach()[bag_of])
        total = torch.zeros(count).index_add(0, bag_of, weights)
        levels = self.readout(features)[:, 0]  # linear: the order of pooling and readout is free
        return torch.zeros(count).index_add(0, bag_of, weights * levels) / total


class AttentionMIL:
    """The network chosen by validation, with scikit-learn's method names."""

    def __init__(self, hidden: bool, seed: int):
        self.hidden, self.seed = hidden, seed

    def fit(self, bags, labels):
        torch.set_num_threads(1)
        torch.manual_seed(self.seed)
        tokens = np.concatenate(list(bags))
        self.mean, self.scale = tokens.mean(axis=0), tokens.std(axis=0)
        self.scale[self.scale == 0] = 1.0
        bags, targets = self._tensors(bags), torch.tensor(labels > 0, dtype=torch.float32)
        train, held = train_test_split(
            np.arange(len(bags)), test_size=0.2, stratify=labels, random_state=self.seed
        )
        runs = [self._train(bags, targets, train, held, *setting) for setting in SETTINGS]
        self.loss, self.network = min(runs, key=lambda run: run[0])
        return self

    def decision_function(self, bags):
        with torch.no_grad():
            return self._scores(self.network, self._tensors(bags)).numpy()

    def _tensors(self, bags):
        return [torch.tensor((bag - self.mean) / self.scale, dtype=torch.float32) for bag in bags]

    def _scores(self, network, bags):
        lengths = torch.tensor([len(bag) for bag in bags])
        bag_of = torch.repeat_interleave(torch.arange(len(bags)), lengths)
        return network(torch.cat(list(bags)), bag_of, len(bags))

    def _train(self, bags, targets, train, held, rate: float, decay: float):
        """The least validation loss, and the network that had it."""
        network = Network(bags[0].shape[1], self.hidden)
        optimiser = torch.optim.Adam(network.parameters(), lr=rate, weight_decay=decay)
        loss_of = torch.nn.BCEWithLogitsLoss()
        validation = [bags[i] for i in held]
        best, kept, since = np.inf, network, 0
        for _ in range(EPOCHS):
            for batch in torch.tensor(train)[torch.randperm(len(train))].split(BATCH):
                optimiser.zero_grad()
                scores = self._scores(network, [bags[i] for i in batch])
                loss_of(scores, targets[batch]).backward()
                optimiser.step()
            with torch.no_grad():
                loss = float(loss_of(self._scores(network, validation), targets[held]))
            since += 1
            if loss < best:
                best, kept, since = loss, copy.deepcopy(network), 0
            if since == PATIENCE:
                break
        return best, kept
