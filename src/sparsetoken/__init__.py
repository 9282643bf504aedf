"""sparsetoken: when does attention pooling find a sparse signal that linear pooling misses?

A sample is L tokens in R^d. A positive sample hides a weak signal in R random tokens, a negative
one is pure noise. The story in the order of the public names:

1. `Task` says what a sample is; `Square`, `Logistic`, `SquaredHinge` and `Huber` what training
   minimises.
2. `Pooled`, `Vectorized`, `Attention` turn tokens into features. Each has a `FeatureLaw`: all that
   the theory needs to know of it.
3. `Protocol` says how it is trained; `align` gives the query that two gradient steps learn.
4. `solve` fits a readout to any law, exactly, in the limit of many dimensions; `predict` and
   `learning_curve` do so for a task, a classifier and a protocol.
5. `capacity` says where data stop being separable; `oracle_error`, `bayes_error` and
   `signal_threshold` what is possible at all.
6. `simulate` runs the same protocol at finite size, exact in law: the independent witness.
7. `grid` and `sweep` ask many such questions and keep the answers in a `Store`.
8. `plan` says which pooling, how many labelled samples, and how many of them for the query.
9. `AttentionClassifier`, `PooledClassifier`, `VectorizedClassifier` learn from your own bags of
   embeddings, with the scikit-learn API; `estimate_task` says how strong and how sparse their
   signal is, ready for `plan`.
10. `explore` opens a page in the browser on which all of this moves (extra `app`).

>>> import sparsetoken as st
>>> task = st.Task(length=10, sparsity=1, strength=5.0, prevalence=0.5)
>>> protocol = st.Protocol(query_samples=2.0, readout_samples=4.0, loss=st.Logistic(), ridge=1e-5)
>>> attention = st.predict(task, st.Attention(), protocol)
>>> pooled = st.predict(task, st.Pooled(), protocol)
>>> round(attention.test_error, 3), round(pooled.test_error, 3)
(0.04, 0.291)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparsetoken.app.explore import explore as explore
    from sparsetoken.bags.comparison import compare_poolings as compare_poolings
    from sparsetoken.bags.estimators import AttentionClassifier as AttentionClassifier
    from sparsetoken.bags.estimators import PooledClassifier as PooledClassifier
    from sparsetoken.bags.estimators import VectorizedClassifier as VectorizedClassifier
    from sparsetoken.bags.findings import Pilot as Pilot
    from sparsetoken.bags.pilot import estimate_task as estimate_task
    from sparsetoken.bags.readers import load_bags as load_bags
    from sparsetoken.bags.storage import load_classifier as load_classifier
    from sparsetoken.bags.storage import save_classifier as save_classifier
    from sparsetoken.model.classifiers import Attention as Attention
    from sparsetoken.model.classifiers import Pooled as Pooled
    from sparsetoken.model.classifiers import Query as Query
    from sparsetoken.model.classifiers import Vectorized as Vectorized
    from sparsetoken.model.law import FeatureLaw as FeatureLaw
    from sparsetoken.model.law import Readout as Readout
    from sparsetoken.model.losses import Huber as Huber
    from sparsetoken.model.losses import Logistic as Logistic
    from sparsetoken.model.losses import Square as Square
    from sparsetoken.model.losses import SquaredHinge as SquaredHinge
    from sparsetoken.model.protocol import Protocol as Protocol
    from sparsetoken.model.scores import Scores as Scores
    from sparsetoken.model.signals import Continuous as Continuous
    from sparsetoken.model.signals import Discrete as Discrete
    from sparsetoken.model.task import Sample as Sample
    from sparsetoken.model.task import Task as Task
    from sparsetoken.model.weightings import HardMax as HardMax
    from sparsetoken.model.weightings import Softmax as Softmax
    from sparsetoken.model.weightings import Sparsemax as Sparsemax
    from sparsetoken.model.weightings import TopK as TopK
    from sparsetoken.oracles.oracle import bayes_error as bayes_error
    from sparsetoken.oracles.oracle import oracle_error as oracle_error
    from sparsetoken.oracles.oracle import signal_threshold as signal_threshold
    from sparsetoken.planning.advice import Plan as Plan
    from sparsetoken.planning.outlook import Outlook as Outlook
    from sparsetoken.planning.outlook import crossover as crossover
    from sparsetoken.planning.outlook import floors as floors
    from sparsetoken.planning.outlook import outlook as outlook
    from sparsetoken.planning.outlook import sensitivities as sensitivities
    from sparsetoken.planning.outlook import tuned_curve as tuned_curve
    from sparsetoken.planning.plan import plan as plan
    from sparsetoken.reproduction.reproduce import reproduce as reproduce
    from sparsetoken.simulation.experiment import simulate as simulate
    from sparsetoken.simulation.results import Simulation as Simulation
    from sparsetoken.studies.cells import Cell as Cell
    from sparsetoken.studies.cells import grid as grid
    from sparsetoken.studies.execution import ExecutorError as ExecutorError
    from sparsetoken.studies.execution import dask_executor as dask_executor
    from sparsetoken.studies.execution import mpi_executor as mpi_executor
    from sparsetoken.studies.oracles import OracleCell as OracleCell
    from sparsetoken.studies.rehearsal import rehearse as rehearse
    from sparsetoken.studies.store import Store as Store
    from sparsetoken.studies.store import StoreError as StoreError
    from sparsetoken.studies.sweep import OutdatedRows as OutdatedRows
    from sparsetoken.studies.sweep import sweep as sweep
    from sparsetoken.support.errors import ConvergenceError as ConvergenceError
    from sparsetoken.support.errors import IncompleteError as IncompleteError
    from sparsetoken.support.errors import InvalidInput as InvalidInput
    from sparsetoken.support.errors import NoMinimiserError as NoMinimiserError
    from sparsetoken.support.errors import WorkerDied as WorkerDied
    from sparsetoken.support.estimate import Estimate as Estimate
    from sparsetoken.theory.alignment import align as align
    from sparsetoken.theory.alignment import alignment_rate as alignment_rate
    from sparsetoken.theory.alignment import best_steps as best_steps
    from sparsetoken.theory.asymptotics import Fit as Fit
    from sparsetoken.theory.asymptotics import solve as solve
    from sparsetoken.theory.asymptotics import solve_many as solve_many
    from sparsetoken.theory.asymptotics import solve_square as solve_square
    from sparsetoken.theory.capacity import separability_threshold as separability_threshold
    from sparsetoken.theory.finite_size import FinitePrediction as FinitePrediction
    from sparsetoken.theory.prediction import LearningCurve as LearningCurve
    from sparsetoken.theory.prediction import Prediction as Prediction
    from sparsetoken.theory.prediction import capacity as capacity
    from sparsetoken.theory.prediction import learning_curve as learning_curve
    from sparsetoken.theory.prediction import predict as predict

__version__ = "0.1.0"

# Where each public name lives. It is imported when first used: `import sparsetoken` stays fast.
_HOMES = {
    "model.signals": ("Discrete", "Continuous"),
    "model.task": ("Task", "Sample"),
    "model.weightings": ("Softmax", "HardMax", "TopK", "Sparsemax"),
    "model.losses": ("Square", "Logistic", "SquaredHinge", "Huber"),
    "model.scores": ("Scores",),
    "model.law": ("FeatureLaw", "Readout"),
    "model.classifiers": ("Pooled", "Vectorized", "Attention", "Query"),
    "model.protocol": ("Protocol",),
    "theory.alignment": ("align", "alignment_rate", "best_steps"),
    "support.errors": (
        "InvalidInput",
        "ConvergenceError",
        "NoMinimiserError",
        "IncompleteError",
        "WorkerDied",
    ),
    "theory.capacity": ("separability_threshold",),
    "theory.asymptotics": ("solve", "solve_many", "solve_square", "Fit"),
    "support.estimate": ("Estimate",),
    "oracles.oracle": ("oracle_error", "bayes_error", "signal_threshold"),
    "theory.finite_size": ("FinitePrediction",),
    "theory.prediction": ("predict", "learning_curve", "capacity", "Prediction", "LearningCurve"),
    "simulation.results": ("Simulation",),
    "simulation.experiment": ("simulate",),
    "studies.cells": ("Cell", "grid"),
    "studies.store": ("Store", "StoreError"),
    "studies.oracles": ("OracleCell",),
    "studies.execution": ("dask_executor", "mpi_executor", "ExecutorError"),
    "studies.sweep": ("OutdatedRows", "sweep"),
    "studies.rehearsal": ("rehearse",),
    "reproduction.reproduce": ("reproduce",),
    "planning.plan": ("plan",),
    "planning.advice": ("Plan",),
    "planning.outlook": (
        "outlook",
        "Outlook",
        "floors",
        "crossover",
        "sensitivities",
        "tuned_curve",
    ),
    "bags.estimators": ("AttentionClassifier", "PooledClassifier", "VectorizedClassifier"),
    "bags.comparison": ("compare_poolings",),
    "bags.pilot": ("estimate_task",),
    "bags.findings": ("Pilot",),
    "bags.readers": ("load_bags",),
    "bags.storage": ("save_classifier", "load_classifier"),
    "app.explore": ("explore",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*_HOME_OF, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'sparsetoken' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"sparsetoken.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
