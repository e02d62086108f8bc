"""What the C library does with freed memory."""

import ctypes

__all__ = ["keep_freed_memory"]


def keep_freed_memory() -> bool:
    """Tell the allocator to keep what is freed, for this process; return whether it could be told.

    By default glibc gives large blocks back and asks for them again in every call. The page
    faults of that double the time of some batches and not of others.
    """
    trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
    try:
        told = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False  # another C library: musl, macOS, Windows
    return bool(told(trim_threshold, 1 << 30) and told(mmap_threshold, 1 << 25))
