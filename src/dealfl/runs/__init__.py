"""Runs and their folders: start, stop, resume, compare; status, models, backups, logs, metrics."""

from dealfl.runs.ablation import Ablation, ablate
from dealfl.runs.backups import MANIFEST, Copied, back_up, restore
from dealfl.runs.changes import Changes, WorkerLine, read_changes
from dealfl.runs.demo import run_demo
from dealfl.runs.erasing import (
    ErasureResult,
    carry_out_queue,
    complete_erasure,
    erase_owners,
    file_erasure,
    find_unknown,
    readmit_owners,
    require_known,
)
from dealfl.runs.erasures import CERTIFICATES, RequestStatus, certify, find_queued, list_erasures
from dealfl.runs.finished_run import (
    Holding,
    find_holdings,
    find_journals,
    list_owners,
    retrain,
)
from dealfl.runs.folder import RunFolder
from dealfl.runs.left_out import find_erased, keep_erased, readmit_left_out
from dealfl.runs.models import (
    About,
    Model,
    export_model,
    open_model,
    require_free,
    save_arrays,
)
from dealfl.runs.predicting import predict, recommend, score
from dealfl.runs.result import (
    FAIR,
    Comparison,
    Forgotten,
    RunProgress,
    RunRecord,
    Threshold,
    Watcher,
)
from dealfl.runs.run import Interrupted, NoFolder, Run, default_job
from dealfl.runs.running_server import RunningServer, answers_about
from dealfl.runs.status import (
    PrivacyStatus,
    RunStart,
    RunStatus,
    read_start,
    read_status,
    serve_metrics,
)
from dealfl.runs.workers import (
    WorkerStatus,
    find_state,
    read_worker_rounds,
    read_workers,
    remove_worker,
)

__all__ = [
    "CERTIFICATES",
    "FAIR",
    "MANIFEST",
    "Ablation",
    "About",
    "Changes",
    "Comparison",
    "Copied",
    "ErasureResult",
    "Forgotten",
    "Holding",
    "Interrupted",
    "Model",
    "NoFolder",
    "PrivacyStatus",
    "RequestStatus",
    "Run",
    "RunFolder",
    "RunProgress",
    "RunRecord",
    "RunStart",
    "RunStatus",
    "RunningServer",
    "Threshold",
    "Watcher",
    "WorkerLine",
    "WorkerStatus",
    "ablate",
    "answers_about",
    "back_up",
    "carry_out_queue",
    "certify",
    "complete_erasure",
    "default_job",
    "erase_owners",
    "export_model",
    "file_erasure",
    "find_erased",
    "find_holdings",
    "find_journals",
    "find_queued",
    "find_state",
    "find_unknown",
    "keep_erased",
    "list_erasures",
    "list_owners",
    "open_model",
    "predict",
    "read_changes",
    "read_start",
    "read_status",
    "read_worker_rounds",
    "read_workers",
    "readmit_left_out",
    "readmit_owners",
    "recommend",
    "remove_worker",
    "require_free",
    "require_known",
    "restore",
    "retrain",
    "run_demo",
    "save_arrays",
    "score",
    "serve_metrics",
]
