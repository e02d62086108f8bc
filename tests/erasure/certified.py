"""A certificate for tests."""

from dealfl.erasure import Erasure, ModelVersion, commit_to

SALT = bytes(range(16))
ERASURE = Erasure(
    job="houses", request="r1", requested_by="operator", requested_at="2026-01-02T03:04:05Z",
    issued_at="2026-01-02T03:04:06Z", persons=1, examples=7,
    claimed=9, commitments=(commit_to("ann", SALT),),
    workers=3, outstanding=0, before=ModelVersion(4, "a" * 64),
    after=ModelVersion(5, "c" * 64), final=True,
)  # fmt: skip
