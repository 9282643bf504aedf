"""What a pickle of torch says of its tensors, read as data: nothing is imported, called or made.

torch.save writes a small program for a stack machine. Here is a machine that knows the few
instructions torch writes and makes plain containers and `Tensor` records of them. Whatever a pickle
asks for beyond that is refused by its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from sparsetoken.bags.readers.pickle_instructions import VALUES, pickle_instructions
from sparsetoken.bags.readers.untrusted import foreign
from sparsetoken.support.errors import InvalidInput

MOST_PICKLE = 2**20  # bytes: thousands of tensors, where a bag needs a few
BFLOAT16 = "bfloat16"
_MOST_DIMENSIONS = 64  # of an array, for torch and for NumPy
_STORAGES = {
    "HalfStorage": "f2", "FloatStorage": "f4", "DoubleStorage": "f8", "BFloat16Storage": BFLOAT16,
    "LongStorage": "i8", "IntStorage": "i4", "ShortStorage": "i2", "CharStorage": "i1",
    "ByteStorage": "u1", "BoolStorage": "u1",
}  # fmt: skip


@dataclass(frozen=True)
class Storage:
    """Numbers in an entry of the archive."""

    key: str
    kind: str  # the code of a dtype, or bfloat16
    count: int

    @property
    def itemsize(self) -> int:
        return 2 if self.kind == BFLOAT16 else np.dtype(self.kind).itemsize


@dataclass(frozen=True)
class Tensor:
    """A view of a storage, inside its bounds and without overlaps."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in numbers, not in bytes


@dataclass(frozen=True)
class _Name:
    """A function or class that the pickle asks for, one of those that are known."""

    name: str


def pickled_tensors(data: bytes) -> dict[str, Tensor]:
    """Tensors by name: those of a dict, or a single one under ""."""
    if len(data) > MOST_PICKLE:
        raise InvalidInput(f"a pickle of {len(data)} bytes is too long, {MOST_PICKLE} are allowed")
    content = _run(data)
    if isinstance(content, Tensor):
        return {"": content}
    if isinstance(content, dict):
        tensors = {
            name: value
            for name, value in content.items()
            if isinstance(name, str) and isinstance(value, Tensor)
        }
        if tensors:
            return tensors
    kind = "a dict without any" if isinstance(content, dict) else f"a {type(content).__name__}"
    raise InvalidInput(f"the file must hold a tensor, or a dict with tensors in it, got {kind}")


def _run(data: bytes) -> Any:
    """The object that the instructions make."""
    stack: list[Any] = []
    below: list[list[Any]] = []  # stacks under each mark that is open
    memo: dict[int, Any] = {}
    with foreign("a file of torch.save"):
        for name, argument in pickle_instructions(data):
            if name in ("PROTO", "FRAME"):
                pass
            elif name == "STOP":
                break
            elif name == "MARK":
                below.append(stack)
                stack = []
            elif name in _OF_MARK:
                items, stack = stack, below.pop()
                _OF_MARK[name](stack, items)
            elif name in ("BINPUT", "LONG_BINPUT"):
                memo[argument] = stack[-1]
            elif name == "MEMOIZE":
                memo[len(memo)] = stack[-1]
            elif name in ("BINGET", "LONG_BINGET"):
                stack.append(memo[argument])
            elif name in VALUES:
                stack.append(argument)
            elif name in _INSTRUCTIONS:
                _INSTRUCTIONS[name](stack)
            else:  # GLOBAL
                stack.append(_known(*argument))
        else:
            _forged("its pickle does not end")
        if len(stack) != 1 or below:
            _forged("its pickle ends in the middle")
        return stack[0]


def _known(module: str, name: str) -> _Name:
    """A name by which torch asks for a tensor."""
    place = f"{module}.{name}"
    if place in _CALLS or (module == "torch" and name in _STORAGES):
        return _Name(place)
    shown = re.sub(r"[^\w.]", "?", place, flags=re.ASCII)[:80]
    raise InvalidInput(
        f"its pickle asks for {shown}, which is no tensor: nothing of it is run. Save plain "
        "tensors, or a dict of them"
    )


def _forged(what: str) -> NoReturn:
    raise InvalidInput(f"{what}: the file is damaged or forged")


def _stack_global(stack: list[Any]) -> None:
    name, module = stack.pop(), stack.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        _forged("its pickle asks for something that has no name")
    stack.append(_known(module, name))


def _persistent(stack: list[Any]) -> None:
    """('storage', class, key, device, count): where it was does not matter."""
    about = stack.pop()
    match about:
        case ("storage", _Name(name=place), str(key), str(), int(count)):
            kind = _STORAGES.get(place.removeprefix("torch."))
            if kind is not None and re.fullmatch("[0-9]{1,9}", key) and count >= 0:
                stack.append(Storage(key, kind, count))
                return
    _forged("its pickle points to numbers in a way that torch does not")


def _reduce(stack: list[Any]) -> None:
    arguments, function = stack.pop(), stack.pop()
    call = _CALLS.get(function.name) if isinstance(function, _Name) else None
    if call is None or not isinstance(arguments, tuple):
        _forged("its pickle calls what is not a function")
    stack.append(call(*arguments))


def _build(stack: list[Any]) -> None:
    """The attributes of an OrderedDict, which torch gives to those of models: not needed."""
    stack.pop()
    if not isinstance(stack[-1], dict):
        _forged("its pickle gives attributes to what has none")


def _append(stack: list[Any], items: list[Any]) -> None:
    if not isinstance(stack[-1], list):
        _forged("its pickle appends to what is not a list")
    stack[-1].extend(items)


def _set(stack: list[Any], items: list[Any]) -> None:
    if not isinstance(stack[-1], dict) or len(items) % 2:
        _forged("its pickle puts items into what is not a dict")
    for key, value in zip(items[::2], items[1::2], strict=True):
        if not isinstance(key, str | int | float | None):  # nested ones could take for ever to hash
            _forged("a dict has keys that are neither words nor numbers")
        stack[-1][key] = value


def _packed(count: int) -> Callable[[list[Any]], None]:
    """The last few as a tuple."""

    def pack(stack: list[Any]) -> None:
        if len(stack) < count:
            _forged("its pickle packs what is not there")
        items = tuple(stack[len(stack) - count :])
        del stack[len(stack) - count :]
        stack.append(items)

    return pack


def _tensor(
    storage: Any = None,
    offset: Any = None,
    shape: Any = None,
    strides: Any = None,
    grad: Any = None,
    hooks: Any = None,
    marks: Any = None,
) -> Tensor:
    """A view that lies inside its storage; the other arguments concern training."""
    if not isinstance(storage, Storage) or not _whole(offset):
        _forged("a tensor has no storage")
    for numbers in (shape, strides):
        if not isinstance(numbers, tuple) or not all(map(_whole, numbers)):
            _forged("a tensor has no shape and strides of whole numbers")
    if len(shape) != len(strides) or len(shape) > _MOST_DIMENSIONS:
        _forged(f"a tensor has {len(shape)} dimensions and {len(strides)} strides")
    if marks:
        raise InvalidInput("a tensor is marked as conjugate or negative: save tensor.clone()")
    if 0 not in shape:
        last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        if last >= storage.count:
            _forged(f"a tensor goes on to number {last}, its storage has {storage.count}")
        end = 0  # of what smaller strides span
        for step, n in sorted((step, n) for n, step in zip(shape, strides, strict=True) if n > 1):
            if step <= end:
                raise InvalidInput(
                    f"a tensor of shape {shape[:9]} overlaps itself (strides {strides[:9]}): save "
                    "tensor.clone()"
                )
            end += (n - 1) * step
    return Tensor(storage, offset, shape, strides)


def _whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**63


def _parameter(data: Any = None, grad: Any = None, hooks: Any = None) -> Tensor:
    if not isinstance(data, Tensor):
        _forged("a parameter has no tensor")
    return data


def _ordered_dict(*arguments: Any) -> dict[Any, Any]:
    if arguments:
        _forged("its pickle makes an OrderedDict in a way that torch does not")
    return {}


_CALLS: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_parameter": _parameter,
    "collections.OrderedDict": _ordered_dict,
}
_INSTRUCTIONS: dict[str, Callable[[list[Any]], None]] = {
    "NONE": lambda stack: stack.append(None),
    "NEWTRUE": lambda stack: stack.append(True),
    "NEWFALSE": lambda stack: stack.append(False),
    "EMPTY_DICT": lambda stack: stack.append({}),
    "EMPTY_LIST": lambda stack: stack.append([]),
    "EMPTY_TUPLE": lambda stack: stack.append(()),
    "TUPLE1": _packed(1),
    "TUPLE2": _packed(2),
    "TUPLE3": _packed(3),
    "APPEND": lambda stack: _append(stack, [stack.pop()]),
    "SETITEM": lambda stack: _set(stack, [stack.pop(-2), stack.pop()]),
    "STACK_GLOBAL": _stack_global,
    "BINPERSID": _persistent,
    "REDUCE": _reduce,
    "BUILD": _build,
}
_OF_MARK: dict[str, Callable[[list[Any], list[Any]], None]] = {
    "TUPLE": lambda stack, items: stack.append(tuple(items)),
    "APPENDS": _append,
    "SETITEMS": _set,
}
