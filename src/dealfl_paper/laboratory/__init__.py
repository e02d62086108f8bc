"""A laboratory for selection: policies against the optimum in known environments."""

from dealfl_paper.laboratory.environment import Optimum, find_optima
from dealfl_paper.laboratory.experiment import Course, Result, compute_bound, run_laboratory
from dealfl_paper.laboratory.page import write_selection_page
from dealfl_paper.laboratory.prediction_errors import (
    WrongChoices,
    judge_wrong_choices,
    measure_wrong_choices,
)
from dealfl_paper.laboratory.setting import (
    SECTIONS,
    Laboratory,
    Policy,
    preset_names,
    read_laboratory,
    read_setting,
)

__all__ = [
    "SECTIONS",
    "Course",
    "Laboratory",
    "Optimum",
    "Policy",
    "Result",
    "WrongChoices",
    "compute_bound",
    "find_optima",
    "judge_wrong_choices",
    "measure_wrong_choices",
    "preset_names",
    "read_laboratory",
    "read_setting",
    "run_laboratory",
    "write_selection_page",
]
