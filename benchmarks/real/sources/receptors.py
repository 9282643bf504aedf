"""T-cell receptors that know one epitope among receptors that know nothing in particular.

Targets: beta chains (CDR3, amino acids) found to bind an epitope, a CSV inside the PyPI package
`tcrdist3` (MIRA data, read without importing the package). Others: chains drawn from `olga`'s
model of human recombination. The two also differ as every measured repertoire differs from a
model of recombination without selection.

A CDR3 becomes one-hot letters at its first and last PLACES positions, the shares of its letters
and its length, reduced to COMPONENTS principal components of the training pool.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from .forms import Instances
from .missing import NotInstalled

LETTERS = "ACDEFGHIKLMNPQRSTVWY"
PLACES = 8  # from either end: CDR3s have 12 to 16 letters, so that every letter is seen
COMPONENTS = 50
BACKGROUND = 6000  # chains drawn from olga


def repertoires(epitope: str, length: int) -> Instances:
    """Receptors for one epitope of the coronavirus among a drawn background."""
    from sklearn.decomposition import PCA

    known = epitope_chains(epitope)
    background = set(background_chains(BACKGROUND)) - set(known)
    chains = known + sorted(background)
    is_target = np.arange(len(chains)) < len(known)
    split = Instances.split(np.stack([numbers(chain) for chain in chains]), is_target, length)
    reduction = PCA(COMPONENTS, svd_solver="full").fit(split.train_tokens)
    return Instances(
        reduction.transform(split.train_tokens),
        split.train_is_target,
        reduction.transform(split.test_tokens),
        split.test_is_target,
        split.length,
    )


def epitope_chains(epitope: str) -> list[str]:
    """Different CDR3s that bind the epitope, by the name of its file."""
    package = find_spec("tcrdist")
    if package is None:
        raise NotInstalled("the package tcrdist3 is not there")
    folder = Path(package.origin).parent / "data" / "covid19"
    chains = pd.read_csv(folder / f"{epitope}.tcrdist3.csv")["cdr3_b_aa"].dropna().unique()
    return sorted(chain for chain in chains if set(chain) <= set(LETTERS))


def background_chains(count: int) -> list[str]:
    """CDR3s of human beta chains, drawn by olga, always the same."""
    import olga.load_model
    import olga.sequence_generation

    folder = Path(olga.__file__).parent / "default_models" / "human_T_beta"
    genes = olga.load_model.GenomicDataVDJ()
    genes.load_igor_genomic_data(
        str(folder / "model_params.txt"),
        str(folder / "V_gene_CDR3_anchors.csv"),
        str(folder / "J_gene_CDR3_anchors.csv"),
    )
    model = olga.load_model.GenerativeModelVDJ()
    model.load_and_process_igor_model(str(folder / "model_marginals.txt"))
    recombination = olga.sequence_generation.SequenceGenerationVDJ(model, genes)
    np.random.seed(0)  # noqa: NPY002 - olga has no other source of chance
    return [recombination.gen_rnd_prod_CDR3()[1] for _ in range(count)]


def numbers(chain: str) -> np.ndarray:
    """Letters at both ends (2·PLACES·20), shares of letters (20), length (1)."""
    letters = np.array([LETTERS.index(letter) for letter in chain])
    one_hot = np.zeros((len(chain), len(LETTERS)))
    one_hot[np.arange(len(chain)), letters] = 1.0
    ends = np.zeros((2, PLACES, len(LETTERS)))
    seen = min(PLACES, len(chain))
    ends[0, :seen], ends[1, PLACES - seen :] = one_hot[:seen], one_hot[len(chain) - seen :]
    return np.concatenate([ends.ravel(), one_hot.mean(axis=0), [len(chain) / 10.0]])
