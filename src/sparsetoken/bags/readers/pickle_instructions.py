"""The instructions of a pickle, one after the other: those alone that torch writes for tensors."""

from __future__ import annotations

import io
import pickletools
import struct
from collections.abc import Callable, Iterator
from typing import Any

from sparsetoken.support.errors import InvalidInput

_NAMES = {opcode.code: opcode.name for opcode in pickletools.opcodes}


def pickle_instructions(data: bytes) -> Iterator[tuple[str, Any]]:
    """Names of instructions, as pickletools has them, and their arguments.

    >>> list(pickle_instructions(b"\\x80\\x02K\\x07\\x85."))
    [('PROTO', 2), ('BININT1', 7), ('TUPLE1', None), ('STOP', None)]
    """
    stream = io.BytesIO(data)
    while code := stream.read(1):
        name = _NAMES[code.decode("latin1")]
        if name in _ALONE:
            yield name, None
        elif name in _ARGUMENTS:
            yield name, _ARGUMENTS[name](stream)
        else:
            raise InvalidInput(
                f"its pickle has the instruction {name}, which torch does not write for tensors: "
                "nothing of it is run"
            )


def _number(layout: str) -> Callable[[io.BytesIO], Any]:
    """A number in so many bytes."""
    fields = struct.Struct(layout)
    return lambda stream: fields.unpack(stream.read(fields.size))[0]


def _counted(layout: str) -> Callable[[io.BytesIO], bytes]:
    """Bytes, and before them how many there are."""
    count = _number(layout)

    def read(stream: io.BytesIO) -> bytes:
        expected = count(stream)
        content = stream.read(expected)
        if len(content) < expected:
            raise InvalidInput("its pickle ends in the middle of a word: the file is damaged")
        return content

    return read


def _text(layout: str) -> Callable[[io.BytesIO], str]:
    content = _counted(layout)
    return lambda stream: content(stream).decode("utf-8", "surrogatepass")


def _lines(stream: io.BytesIO) -> tuple[str, str]:
    module, name = (stream.readline().decode().removesuffix("\n") for _ in range(2))
    return module, name


_long = _counted("<B")
VALUES: dict[str, Callable[[io.BytesIO], Any]] = {  # instructions whose argument is a value
    "BINUNICODE": _text("<I"),
    "SHORT_BINUNICODE": _text("<B"),
    "BININT": _number("<i"),
    "BININT1": _number("<B"),
    "BININT2": _number("<H"),
    "LONG1": lambda stream: int.from_bytes(_long(stream), "little", signed=True),
    "BINFLOAT": _number(">d"),
}
_ARGUMENTS: dict[str, Callable[[io.BytesIO], Any]] = {
    **VALUES,
    "PROTO": _number("<B"),
    "FRAME": _number("<Q"),
    "BINPUT": _number("<B"),
    "LONG_BINPUT": _number("<I"),
    "BINGET": _number("<B"),
    "LONG_BINGET": _number("<I"),
    "GLOBAL": _lines,
}
_ALONE = {
    "MARK", "STOP", "MEMOIZE", "NONE", "NEWTRUE", "NEWFALSE", "EMPTY_DICT", "EMPTY_LIST",
    "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "APPEND", "APPENDS", "SETITEM",
    "SETITEMS", "STACK_GLOBAL", "BINPERSID", "REDUCE", "BUILD",
}  # fmt: skip
