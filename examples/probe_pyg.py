"""Embed a torch_geometric Data, and measure with a linear probe what the embeddings say of the labels."""

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch_geometric.data import Data
from torch_geometric.utils import stochastic_blockmodel_graph

import gscl_scale

torch.manual_seed(0)
labels = torch.arange(4).repeat_interleave(100)  # four groups of people, 3 in 4 friends within the group
chances = torch.full((4, 4), 0.006) + torch.eye(4) * 0.05
edge_index = stochastic_blockmodel_graph([100] * 4, chances)
x = torch.nn.functional.one_hot(labels) + 1.5 * torch.randn(400, 4)  # features that say little
data = Data(x=x, edge_index=edge_index, y=labels)

vectors = np.asarray(gscl_scale.fit(data, {"model": {"width": 64}, "train": {"epochs": 20}}))  # never reads the labels
for name, rows in (("raw features", x.numpy()), ("embeddings", vectors)):
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    accuracies = cross_val_score(probe, rows, labels.numpy(), cv=5)
    print(f"{name:12}  accuracy {accuracies.mean():.3f} +- {accuracies.std():.3f}")
