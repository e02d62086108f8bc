"""Files of SQLite that call a function before every write, sync and truncation.

SQLite reaches files through a table of functions (VFS). The shim copies the table of the system,
and is called before what changes a file, so that a test can end a process between any two changes
that another process can see: finer than any statement of SQL.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Callable
from typing import Any

_VFS_HEAD = 5 * ctypes.sizeof(ctypes.c_void_p)  # version, sizes, next, name, data
_METHODS = 19  # pointers in sqlite3_io_methods, with its version
_WRITE, _TRUNCATE, _SYNC = 3, 4, 5
_NAME = b"crashing"

_Open = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p
)
_Write = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
)
_Truncate = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)
_Sync = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)


class _Vfs(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_int),
        ("file_bytes", ctypes.c_int),
        ("path_bytes", ctypes.c_int),
        ("following", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("open", ctypes.c_void_p),
        ("others", ctypes.c_void_p * 15),
    )


_Methods = ctypes.c_void_p * _METHODS
_kept: list[Any] = []  # SQLite keeps pointers to them


def install(before_change: Callable[[], None]) -> None:
    """Let every database that this process opens from now on announce its changes of files.

    A sync is announced and not done: kill −9 leaves the kernel's cache alone.
    """
    library = ctypes.CDLL(ctypes.util.find_library("sqlite3") or "libsqlite3.so.0")
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
    library.sqlite3_vfs_find.argtypes = [ctypes.c_char_p]
    library.sqlite3_vfs_register.argtypes = [ctypes.POINTER(_Vfs), ctypes.c_int]
    system = library.sqlite3_vfs_find(None).contents
    own = _Vfs.from_buffer_copy(system)
    own.name = _NAME
    own.following = None
    open_file = _Open(system.open)
    tables: dict[int, Any] = {}

    def opened(vfs: int, name: int, file: int, flags: int, out: int) -> int:
        result = int(open_file(ctypes.addressof(system), name, file, flags, out))
        methods = ctypes.c_void_p.from_address(file)
        if result == 0 and methods.value:
            if methods.value not in tables:
                tables[methods.value] = _announcing(methods.value, before_change)
            methods.value = ctypes.addressof(tables[methods.value])
        return result

    callback = _Open(opened)
    own.open = ctypes.cast(callback, ctypes.c_void_p).value
    _kept.extend([library, own, callback, tables])
    assert library.sqlite3_vfs_register(ctypes.byref(own), 1) == 0


def _announcing(address: int, before_change: Callable[[], None]) -> Any:
    """Return a copy of a table of methods in which changes are announced."""
    table = _Methods.from_buffer_copy(_Methods.from_address(address))
    kinds: dict[int, Any] = {_WRITE: _Write, _TRUNCATE: _Truncate, _SYNC: _Sync}
    for index, kind in kinds.items():
        system_call = None if kind is _Sync else kind(table[index])

        def call(*arguments: int, system_call: Any = system_call) -> int:
            before_change()
            return 0 if system_call is None else int(system_call(*arguments))

        callback = kind(call)
        _kept.append(callback)
        table[index] = ctypes.cast(callback, ctypes.c_void_p).value
    return table
