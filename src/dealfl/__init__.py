"""Federated learning for battery-powered devices whose models forget exactly."""

__all__ = ["__version__"]

__version__ = "0.1.0"
