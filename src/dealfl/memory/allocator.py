"""Settings of the memory allocator of the C library."""

import ctypes

__all__ = ["keep_freed_memory"]


def keep_freed_memory() -> bool:
    """Make the allocator of this process keep freed memory.

    By default glibc returns large blocks to the kernel and requests them again in every call. The
    page faults can double the time of a batch, which disturbs measurements.

    Returns
    -------
    bool
        Whether the allocator supports it; only glibc does.

    References
    ----------
    mallopt(3), M_TRIM_THRESHOLD and M_MMAP_THRESHOLD.
    """
    trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False  # another C library: musl, macOS, Windows
    return bool(mallopt(trim_threshold, 1 << 30) and mallopt(mmap_threshold, 1 << 25))
