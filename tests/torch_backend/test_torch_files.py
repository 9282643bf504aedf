"""What torch.save writes is read back without torch, number for number."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.bags.readers.torch_files import TorchFile
from sparsetoken.support.errors import InvalidInput

torch = pytest.importorskip("torch")

DTYPES = "float16 bfloat16 float32 float64 int8 uint8 int16 int32 int64 bool".split()


def same(path, tensors):
    """Names, shapes and numbers of a file are those of the tensors."""
    file = TorchFile()
    headers = file.headers(path)
    assert set(headers) == set(tensors)
    for name, tensor in tensors.items():
        array = file.array(path, name)
        expected = tensor.detach().to(torch.float32 if tensor.dtype == torch.bfloat16 else None)
        assert array.shape == headers[name].shape and array.dtype == headers[name].dtype
        np.testing.assert_array_equal(array, expected.numpy())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_dtype(tmp_path, dtype, protocol):
    tensor = (torch.randn(7, 5, generator=torch.Generator().manual_seed(0)) * 9).to(
        getattr(torch, dtype)
    )
    torch.save(tensor, tmp_path / "a.pt", pickle_protocol=protocol)
    same(tmp_path / "a.pt", {"": tensor})


def views(base):
    yield base
    yield base.T
    yield base[2:, 1:]
    yield base[::3, ::2]
    yield base[4:5]
    yield base[:, :1]
    yield base.T[1:4, ::2]
    yield base.reshape(5, 12)[:, 3:]
    yield base.reshape(-1)[7:]
    yield base.reshape(5, 3, 4).permute(2, 0, 1)
    yield base[:0]
    yield base.sum()


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "int64"])
def test_every_view(tmp_path, dtype):
    base = torch.arange(60).to(getattr(torch, dtype)).reshape(10, 6)
    for view in views(base):
        torch.save(view, tmp_path / "a.pt")
        same(tmp_path / "a.pt", {"": view})
        torch.save({"first": base, "view": view, "again": view}, tmp_path / "a.pt")
        same(tmp_path / "a.pt", {"first": base, "view": view, "again": view})


def test_containers(tmp_path):
    path, tensor = tmp_path / "a.pt", torch.arange(12.0).reshape(4, 3)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    for content in (
        OrderedDict(features=tensor, coords=torch.arange(8).reshape(4, 2)),
        {"features": torch.nn.Parameter(tensor), "other": tensor.clone().requires_grad_()},
        dict(model.state_dict()),
        model.state_dict(),
    ):
        torch.save(content, path)
        same(path, content)
    others = {"slide": "é", "mpp": 0.5, "size": 2**40, "none": None, "list": [1, (2, [3])], 3: 4}
    torch.save({"features": tensor, **others}, path)
    same(path, {"features": tensor})
    torch.save({f"t{k}": tensor[k % 4] for k in range(2000)}, path)
    assert len(TorchFile().headers(path)) == 2000  # places in the memo of more than a byte
    np.testing.assert_array_equal(TorchFile().array(path, "t1999"), tensor[3])


@pytest.mark.parametrize(
    "content",
    [
        torch.nn.Linear(2, 2),
        torch.ones(2, 2, dtype=torch.complex64),
        torch.ones(2, 2).to_sparse(),
        torch.ones(2, 2, dtype=torch.complex64).conj(),
        torch.ones(1, 3).expand(5, 3),
        torch.ones(2, 2, dtype=torch.float8_e4m3fn),
        {"features": np.ones((2, 2))},
        [torch.ones(2, 2)],
        "tensor",
    ],
    ids=repr,
)
def test_what_is_no_plain_tensor_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(InvalidInput):
        TorchFile().headers(tmp_path / "a.pt")


def test_a_folder(tmp_path):
    bags = {name: torch.randn(length, 4) for name, length in [("a", 3), ("b", 6)]}
    for name, tokens in bags.items():
        torch.save({"feats": tokens, "coords": tokens[:, :2]}, tmp_path / f"{name}.pt")
    source, _ = st.READERS.make("one-file-a-bag").read(tmp_path)
    np.testing.assert_array_equal(source.load().tokens, torch.cat(list(bags.values())).numpy())
    np.testing.assert_array_equal(source.coordinates(1), bags["b"][:, :2].double().numpy())
    torch.save(bags["a"], tmp_path / "a.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(InvalidInput, match=r"a +unreadable +this is torch's format from before"):
        st.load_bags(tmp_path)
