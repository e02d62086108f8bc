"""Runs and their folders: start, stop, resume, compare; status, models, backups, logs, metrics."""

from dealfl.runs.backups import MANIFEST, Copied, back_up, restore
from dealfl.runs.exports import export_model, model_arrays, require_free, save_arrays
from dealfl.runs.folder import RunFolder
from dealfl.runs.logs import LOG, JsonLines, configure_logs, log, log_to
from dealfl.runs.metrics import serve_metrics
from dealfl.runs.models import About, Model, open_model, read_statistics
from dealfl.runs.no_folder import NoFolder
from dealfl.runs.predicting import predict, recommend
from dealfl.runs.progress import RunProgress, Watcher
from dealfl.runs.removing import Removal, remove_worker
from dealfl.runs.result import Comparison, Result
from dealfl.runs.run import Interrupted, Run, default_job
from dealfl.runs.scoring import Score, score
from dealfl.runs.status import read_start, read_status, read_worker_rounds, read_workers
from dealfl.runs.status_records import RunStart, RunStatus, WorkerStatus

__all__ = [
    "LOG",
    "MANIFEST",
    "About",
    "Comparison",
    "Copied",
    "Interrupted",
    "JsonLines",
    "Model",
    "NoFolder",
    "Removal",
    "Result",
    "Run",
    "RunFolder",
    "RunProgress",
    "RunStart",
    "RunStatus",
    "Score",
    "Watcher",
    "WorkerStatus",
    "back_up",
    "configure_logs",
    "default_job",
    "export_model",
    "log",
    "log_to",
    "model_arrays",
    "open_model",
    "predict",
    "read_start",
    "read_statistics",
    "read_status",
    "read_worker_rounds",
    "read_workers",
    "recommend",
    "remove_worker",
    "require_free",
    "restore",
    "save_arrays",
    "score",
    "serve_metrics",
]  # fmt: skip
