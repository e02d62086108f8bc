"""The keyholder: the second party of masked sums, run by somebody else than the server."""

from dealfl.keyholder.folder import SERVER_NAME, KeyholderFolder, KeyholderSettings
from dealfl.keyholder.journal import KeyholderJournal, Opening
from dealfl.keyholder.keyholder import Keyholder, KeyholderRules

__all__ = [
    "SERVER_NAME",
    "Keyholder",
    "KeyholderFolder",
    "KeyholderJournal",
    "KeyholderRules",
    "KeyholderSettings",
    "Opening",
]
