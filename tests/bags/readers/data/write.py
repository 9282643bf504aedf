"""The .pt files beside this script, written by torch 2.13: `python write.py`.

Numbers are 0, 1, 2, … so that tests know them without torch; bfloat16 has all of them up to 256.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    import torch  # here: whoever collects tests has none

    tokens = torch.arange(15.0).reshape(5, 3)
    coords = torch.arange(10).reshape(5, 2)
    legacy = {"_use_new_zipfile_serialization": False}
    contents = {
        "tensor": tokens,
        "half": tokens.half(),
        "bfloat16": tokens.bfloat16(),
        "double": tokens.double(),
        "transposed": torch.arange(15.0).reshape(3, 5).T,
        "view": torch.arange(48.0).reshape(8, 6)[2:7, 1:6:2],
        "parameter": torch.nn.Parameter(tokens),
        "dict": {"feats": tokens, "coords": coords, "slide": "a", "level": [0, 1.5, None, True]},
        "ordered": OrderedDict(features=tokens, mask=torch.ones(5, dtype=torch.bool)),
        "expanded": torch.arange(3.0).expand(5, 3),
        "sparse": tokens.to_sparse(),
        "array": {"features": tokens.numpy()},
        "list": [tokens],
    }
    for name, content in contents.items():
        torch.save(content, HERE / f"{name}.pt")
    torch.save(tokens, HERE / "old.pt", **legacy)
    torch.save(tokens, HERE / "protocol4.pt", pickle_protocol=4)
    torch.jit.save(torch.jit.script(torch.nn.Linear(3, 2)), HERE / "program.pt")


if __name__ == "__main__":
    main()
