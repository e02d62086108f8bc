"""Selectors with fairness queues: named workers over flat arrays.

Their state is saved as parts of a few kilobytes: a header, and blocks of workers. A reward touches
one block, so that saving it costs the same for any number of workers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dealfl.errors import BadBytes, BadInput
from dealfl.server.selection.arms import AWAITED, MISSED, Arms, Floats, Indices, Masks
from dealfl.server.selection.base import (
    Candidate,
    Candidates,
    Eta,
    Guarantee,
    OverPromise,
    Player,
    Seed,
    WeightCap,
)
from dealfl.server.selection.feasibility import allowed_shares, estimate_availability, find_excess
from dealfl.settings import Share, check

BLOCK = 64  # workers in a part: at most 8 KB with names of 64 bytes
HEADER, _VERSION = "header", 3
_SINCE_VERSION_3 = ("marked", "present")  # the last columns

_OTHERS = "*"  # workers without a guarantee of their own
_REVIEW_EVERY = 100
_NOBODY: Indices = np.empty(0, np.int64)
_LAST_ROUND = 2**31 - 2

COLUMNS: dict[str, tuple[str, float]] = {  # name: type and maximum; the minimum is 0
    "deficit": ("<f8", 1e300),
    "count": ("<f8", 1e300),
    "mean": ("<f8", 1.0),
    "allowed": ("<f8", 1.0),
    "since": ("<i4", _LAST_ROUND + 1),
    "picked": ("<i4", _LAST_ROUND),
    "first": ("<i4", _LAST_ROUND),
    "awake": ("<i4", _LAST_ROUND),
    "served": ("<i4", _LAST_ROUND),
    "flag": ("|u1", 3),
    "marked": ("<i4", _LAST_ROUND),
    "present": ("|u1", 1),
}
_ROUNDS = ("picked", "first", "awake", "served")

_Number = Annotated[int, Meta(ge=0, le=_LAST_ROUND)]


class _Header(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    version: int
    workers: _Number
    round_number: _Number
    reviewed: _Number
    per_round: _Number
    played: _Number = 0


class _Block(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    names: list[str]
    columns: list[bytes]  # in the order of COLUMNS


@dataclass(frozen=True, slots=True)
class Saved:
    """The complete state of a selector of named workers."""

    round_number: int
    reviewed: int
    per_round: int
    played: int
    names: list[str]
    columns: dict[str, NDArray[Any]]

    def count_awake(self) -> NDArray[np.int32]:
        """Return the number of rounds in which each was a candidate."""
        columns = self.columns
        since: NDArray[np.int32] = columns["present"] * (self.played - columns["marked"])
        return columns["awake"] + since


class Bandit(Player):
    """Base class of selectors with a fairness queue for each worker.

    A subclass decides how to choose (`_choose`).
    """

    names: list[str]  # of all known workers, in the order in which they became known
    arms: Arms  # their state, in the same order
    _round: int
    _reviewed: int
    _awaited: Indices
    _played: int  # rounds that took place
    _awake: NDArray[np.int32]  # rounds in which each was a candidate, until it was `_marked`;
    _marked: NDArray[np.int32]  # since then in all rounds, or in none,
    _present: NDArray[np.uint8]  # as this says: only workers that come or go are touched
    _served: NDArray[np.int32]
    _origin: object  # of the last candidates, and where each of them is:
    _index_of: Indices
    _stale: set[int]  # blocks that changed since they were saved
    _header: bytes  # as it was saved

    def __init__(
        self,
        *,
        seed: Seed = 0,
        fairness: Guarantee = 0.0,
        eta: Eta = 10.0,
        weight_cap: WeightCap = 100.0,
    ) -> None:
        given = check(
            Bandit,
            {
                "seed": seed,
                "fairness": fairness,
                "eta": eta,
                "weight_cap": weight_cap,
            },
        )
        self._seed = seed
        guaranteed: float | Mapping[str, float] = given["fairness"]
        self._fairness = guaranteed if isinstance(guaranteed, Mapping) else {_OTHERS: guaranteed}
        self._weight_cap: float = given["weight_cap"]
        self._arm_settings: dict[str, Any] = {"eta": given["eta"]}
        self.restore({})

    # -- the protocol ---------------------------------------------------------------------------

    def select(self, round_number: int, candidates: Sequence[Candidate], count: int) -> list[str]:
        """Return the best candidates, in the order in which they became known."""
        if round_number <= self._round:
            raise BadInput(
                f"round {round_number} is not after round {self._round}; rounds must increase"
            )
        if not candidates or count <= 0:
            return []
        given = candidates if isinstance(candidates, Candidates) else _as_arrays(candidates)
        indices, weights = self._locate(round_number, given)
        eligible = np.zeros((1, len(self.arms)), np.bool_)
        weight = np.zeros(len(self.arms))
        eligible[0, indices] = True
        weight[indices] = weights
        chosen = self.play(round_number, eligible, weight, count)
        return [self.names[index] for index in chosen.tolist()]

    def play(self, round_number: int, eligible: Masks, weight: Floats, count: int) -> Indices:
        """Return the workers to wake in all games; they are those that `meet` named."""
        if len(self._awaited):
            self._touch(self._awaited)
            self.arms.learn(self._awaited, np.zeros(len(self._awaited)), MISSED)
            self._awaited = _NOBODY
        self._note_present(eligible.ravel())
        self._round = round_number
        self._per_round = count
        if round_number - self._reviewed >= _REVIEW_EVERY:
            self._review(round_number, games=len(eligible))
        chosen = self._choose(round_number, eligible, weight, count)
        self._touch(chosen)
        self.arms.pick(round_number, chosen)
        self._served[chosen] += 1
        self._awaited = chosen
        return chosen

    def _note_present(self, eligible: Masks) -> None:
        """Count a round for all candidates; only who comes or goes is touched."""
        changed = np.flatnonzero(eligible != self._present)
        self._awake[changed] += self._present[changed] * (self._played - self._marked[changed])
        self._marked[changed] = self._played
        self._present[changed] ^= 1
        self._played += 1
        self._touch(changed)

    def record_reward(self, round_number: int, worker: str, reward: Share) -> None:
        """Record a reward. An unexpected or repeated reward changes nothing."""
        reward = check(Bandit.record_reward, {"reward": reward})["reward"]
        index = self._indices.get(worker)
        if index is None or self.arms.picked[index] != round_number:
            return
        indices = np.array([index])
        if self.arms.flag[index] == AWAITED:
            self.record_rewards(indices, np.array([reward]))
        elif self.arms.flag[index] == MISSED:
            self.arms.correct(index, reward)
            self._touch(indices)

    def record_rewards(self, indices: Indices, rewards: Floats) -> None:
        """Record the rewards of awaited workers."""
        self.arms.learn(indices, rewards)
        self._awaited = self._awaited[self.arms.flag[self._awaited] == AWAITED]
        self._touch(indices)

    def remove(self, worker: str) -> None:
        """Forget a worker. The others keep their order."""
        if worker not in self._indices:
            return
        index = self._indices[worker]
        saved = self._saved()
        columns = {name: np.delete(column, index) for name, column in saved.columns.items()}
        names = self.names[:index] + self.names[index + 1 :]
        self._load(replace(saved, names=names, columns=columns))
        self._touch(np.arange(index, len(names) + 1))  # the last block may be empty now

    def changes(self) -> Mapping[str, bytes]:
        """Return the parts of the state that changed since the last call or `restore`."""
        parts = pack(self._saved(), self._stale)
        self._stale = set()
        if parts[HEADER] == self._header:
            del parts[HEADER]
        else:
            self._header = parts[HEADER]
        return parts

    def restore(self, parts: Mapping[str, bytes]) -> None:
        """Resume from a stored state."""
        empty = {name: np.empty(0, kind) for name, (kind, _) in COLUMNS.items()}
        self._load(unpack(parts) if parts else Saved(0, 0, 0, 0, [], empty))
        self._stale = set()
        self._header = parts.get(HEADER, b"")

    def _touch(self, indices: Indices) -> None:
        self._stale |= set(np.unique(indices // BLOCK).tolist())

    # -- guarantees -----------------------------------------------------------------------------

    def over_promised(self) -> OverPromise | None:
        """Return the workers whose guarantees cannot be met.

        Availability is estimated optimistically from the rounds so far, as if workers woke
        independently, so that a reported excess is certain.
        """
        promised = self._promised()
        # early, report only guarantees that fail even for workers that never sleep
        awake = np.ones(len(promised)) if self._round < _REVIEW_EVERY else self._availability()
        excess = find_excess(promised, awake, self._per_round)
        if excess is None:
            return None
        workers = sorted(self.names[index] for index in excess.indices if promised[index] > 0)
        return OverPromise(tuple(workers), excess.promised, excess.possible)

    def _promised(self) -> Floats:
        return self._guarantees_of(self.names)

    def _guarantees_of(self, names: Sequence[str]) -> Floats:
        others = self._fairness.get(_OTHERS, 0.0)
        rates = [self._fairness.get(name, others) for name in names]
        return np.array(rates, dtype=np.float64)

    def _availability(self) -> Floats:
        awake = self._saved().count_awake()
        return estimate_availability(awake, self._round + 1 - self._first)

    def _review(self, round_number: int, games: int) -> None:
        """Reduce guarantees to what can be met; small guarantees do not suffer from large ones."""
        promised = self._promised()
        rows = zip(
            promised.reshape(games, -1), self._availability().reshape(games, -1), strict=True
        )
        allowed = np.concatenate(
            [allowed_shares(guarantees, awake, self._per_round) for guarantees, awake in rows]
        )
        cut = promised > allowed
        self.arms.bring_forward(round_number)
        if cut.any():
            others = np.where(cut, 0.0, self.arms.deficit).reshape(games, -1)
            most = np.repeat(others.max(axis=1), others.shape[1])
            self.arms.deficit[cut] = np.minimum(self.arms.deficit, most)[cut]
        self._allowed = allowed
        self.arms.rate = np.minimum(promised, allowed)
        self._reviewed = round_number
        self._touch(np.arange(len(promised)))

    # -- inside ---------------------------------------------------------------------------------

    def _choose(self, round_number: int, eligible: Masks, weight: Floats, count: int) -> Indices:
        return self.arms.choose(round_number, eligible, weight, count)

    def _locate(self, round_number: int, candidates: Candidates) -> tuple[Indices, Floats]:
        """Return the indices and weights of the candidates; add those that are new."""
        weights = candidates.weight
        if not (weights >= 0).all() or math.isinf(weights.max()):
            raise BadInput("a candidate has a negative or infinite weight; it must be a number ≥ 0")
        numbers = candidates.numbers
        if candidates.origin is not self._origin:
            self._origin, self._index_of = candidates.origin, _NOBODY
        if (missing := int(numbers.max()) + 1 - len(self._index_of)) > 0:
            self._index_of = np.concatenate([self._index_of, np.full(missing, -1)])
        unseen = np.flatnonzero(self._index_of[numbers] < 0)
        if len(unseen):
            names = [candidates.names[place] for place in unseen.tolist()]
            if new := [name for name in names if name not in self._indices]:
                self.meet(new, round_number)
            self._index_of[numbers[unseen]] = [self._indices[name] for name in names]
        return self._index_of[numbers], np.minimum(weights / self._weight_cap, 1.0)

    def meet(self, names: Sequence[str], round_number: int) -> None:
        """Add new workers."""
        initial = {"mean": 1, "allowed": 1, "since": round_number, "first": round_number}
        columns = {
            name: np.concatenate(
                [column, np.full(len(names), initial.get(name, 0), dtype=column.dtype)]
            )
            for name, column in self._saved().columns.items()
        }
        rates = np.concatenate([self.arms.rate, np.minimum(self._guarantees_of(names), 1.0)])
        self._indices |= {name: index for index, name in enumerate(names, len(self.names))}
        self.names += names
        self._put(columns, rates)

    def _saved(self) -> Saved:
        columns: dict[str, NDArray[Any]] = {
            "deficit": self.arms.deficit,
            "count": self.arms.count,
            "mean": self.arms.mean,
            "allowed": self._allowed,
            "since": self.arms.since,
            "picked": self.arms.picked,
            "first": self._first,
            "awake": self._awake,
            "served": self._served,
            "flag": self.arms.flag,
            "marked": self._marked,
            "present": self._present,
        }
        counts = (self._round, self._reviewed, self._per_round, self._played)
        return Saved(*counts, self.names, columns)

    def _load(self, saved: Saved) -> None:
        self.names = list(saved.names)
        self._round = saved.round_number
        self._reviewed = saved.reviewed
        self._per_round = saved.per_round
        self._played = saved.played
        self._indices = {name: index for index, name in enumerate(self.names)}
        self._origin = None
        self._index_of = _NOBODY
        self._put(saved.columns, np.minimum(self._promised(), saved.columns["allowed"]))

    def _put(self, columns: Mapping[str, NDArray[Any]], rates: Floats) -> None:
        self._first = columns["first"]
        self._awake = columns["awake"]
        self._served = columns["served"]
        self._allowed = columns["allowed"]
        self._marked = columns["marked"]
        self._present = columns["present"]
        self.arms = Arms(rates, **self._arm_settings)
        self.arms.put(columns)
        self._awaited = np.flatnonzero(self.arms.flag == AWAITED)


def _as_arrays(candidates: Sequence[Candidate]) -> Candidates:
    """Return candidates that were given one by one as arrays."""
    names = [candidate.name for candidate in candidates]
    if len(set(names)) != len(names):
        raise BadInput("a worker appears twice among the candidates; give each once")
    weight = np.array([candidate.weight for candidate in candidates], dtype=np.float64)
    unknown = np.full(len(names), np.nan)  # no selector here asks for it
    numbers = np.arange(len(names))
    return Candidates(object(), names, numbers, weight, unknown, unknown)


# -- the saved state ------------------------------------------------------------------------------


def pack(saved: Saved, blocks: set[int]) -> dict[str, bytes]:
    """Return the header and some blocks by name; a block without workers is empty."""
    header = _Header(
        _VERSION,
        len(saved.names),
        saved.round_number,
        saved.reviewed,
        saved.per_round,
        saved.played,
    )
    return {HEADER: msgspec.msgpack.encode(header)} | {
        str(block): _packed(saved, slice(block * BLOCK, (block + 1) * BLOCK))
        for block in sorted(blocks)
    }


def _packed(saved: Saved, part: slice) -> bytes:
    names = saved.names[part]
    columns = [
        np.ascontiguousarray(saved.columns[name][part], dtype=kind).tobytes()
        for name, (kind, _) in COLUMNS.items()
    ]
    return msgspec.msgpack.encode(_Block(names, columns)) if names else b""


def unpack(parts: Mapping[str, bytes]) -> Saved:
    """Return the state in parts that `pack` wrote; refuse all others."""
    header = _decoded(parts, HEADER, _Header)
    if header.version not in (_VERSION - 1, _VERSION):
        raise BadBytes(
            f"selector state has version {header.version}; this dealfl supports {_VERSION}"
        )
    expected = [HEADER, *map(str, range(-(-header.workers // BLOCK)))]
    if set(parts) != set(expected):
        raise BadBytes(
            f"selector state has {len(parts)} parts; its {header.workers} workers require "
            f"{len(expected)}"
        )
    blocks = [_decoded(parts, name, _Block) for name in expected[1:]]
    names = [name for block in blocks for name in block.names]
    if len(names) != header.workers or len(set(names)) != header.workers:
        raise BadBytes(f"selector state does not contain {header.workers} different names")
    columns = _columns(blocks, header.version)
    counts = (header.round_number, header.reviewed, header.per_round, header.played)
    saved = Saved(*counts, names, columns)
    _check_rounds(saved)
    return saved


def _decoded(parts: Mapping[str, bytes], name: str, kind: type[Any]) -> Any:  # noqa: ANN401
    try:
        return msgspec.msgpack.decode(parts.get(name, b""), type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadBytes(f"part {name} of the selector state is damaged: {error}") from error


def _columns(blocks: list[_Block], version: int) -> dict[str, NDArray[Any]]:
    if version < _VERSION:  # before that, each worker was touched in each round
        for block in blocks:
            block.columns += [
                bytes(np.dtype(COLUMNS[name][0]).itemsize * len(block.names))
                for name in _SINCE_VERSION_3
            ]
    sizes = [np.dtype(kind).itemsize for kind, _ in COLUMNS.values()]
    for number, block in enumerate(blocks):
        if [len(column) for column in block.columns] != [size * len(block.names) for size in sizes]:
            raise BadBytes(f"part {number} of the selector state does not fit its names")
    columns = {}
    for index, (name, (kind, most)) in enumerate(COLUMNS.items()):
        column = np.frombuffer(b"".join(block.columns[index] for block in blocks), dtype=kind)
        if not ((column >= 0) & (column <= most)).all():  # also refuses NaN
            raise BadBytes(f"selector state has a value of {name} outside [0, {most:g}]")
        columns[name] = column.astype(column.dtype.newbyteorder("="))
    return columns


def _check_rounds(saved: Saved) -> None:
    latest = saved.round_number
    columns = saved.columns | {"awake": saved.count_awake()}
    rounds = (("since", latest + 1), *((name, latest) for name in _ROUNDS))
    for name, most in (*rounds, ("marked", saved.played)):
        if (columns[name] > most).any():
            raise BadBytes(f"selector state has a value of {name} after its last round, {latest}")
    if (columns["served"] > columns["awake"]).any():
        raise BadBytes("selector state has a worker with more selections than waking rounds")
