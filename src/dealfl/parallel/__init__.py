"""Central work on many processes and machines: calls on any executor, models from many parts."""

from dealfl.parallel.executors import AnyExecutor, ExecutorLost, call_each, open_executor
from dealfl.parallel.parts import forget, learn

__all__ = ["AnyExecutor", "ExecutorLost", "call_each", "forget", "learn", "open_executor"]
