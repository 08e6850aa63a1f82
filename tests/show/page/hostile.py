"""Texts that would take a page over, were they taken for markup, and a report that is full of them."""

from pathlib import Path

from migrate.dry_run.dry_run_report import (
    BeforeAfter,
    ChangelogPosition,
    Collision,
    DryRunReport,
    FormatHint,
    Verdict,
)
from migrate.model.key_range import KeyRange
from migrate.model.plan import Chunk
from migrate.model.preview import RejectExample, RejectReason
from tests.show.page.samples import GOOD_CHECKS, MIB, check, cost, found, good_report, planned, shown

HOSTILE = (
    "<script>document.title='taken over'</script>",
    '"><img src=x onerror="document.title=\'taken over\'">',
    "</style><style>body{display:none}</style>",
    "</svg></title><script>document.title='taken over'</script>",
    "'; --{{ 7 * 7 }}{% raw %}${7*7}&amp;&lt;",
    "nul \x00, escape \x1b[31m, next line \x85, \u202eright to left\u202c, half \ud83d",
    "\u0645\u0641\u062a\u0627\u062d \u05de\u05e4\u05ea\u05d7 \u952e",
    "$\\frac{broken$ \\mathdefault{",
    "k" * 4000,
)


def _hostile(number: int) -> str:
    return HOSTILE[number % len(HOSTILE)]


def ugly_report(*, partitions: int = 64, chunks: int = 2000) -> DryRunReport:
    """Everything that can go wrong, with every text hostile."""
    good = good_report()
    hostile = [shown(text.encode("utf-8", "surrogatepass"), text) for text in HOSTILE]
    rejects = tuple(
        RejectReason(
            reason=f"{_hostile(number)}",
            records=9000 >> number,
            examples=tuple(
                RejectExample(
                    store_partition=f"0_{at}/{_hostile(at)}",
                    family=_hostile(at + 1),
                    key=hostile[(number + at) % len(hostile)],
                    value=hostile[(number + at + 3) % len(hostile)],
                    reason=_hostile(number + at),
                )
                for at in range(3)
            ),
        )
        for number in range(5)
    )
    collision = Collision(store_partition=_hostile(0), first=hostile[0], second=hostile[1], new_key=hostile[8])
    worst = good.tried.model_copy(
        update={
            "decoded": 31_000,
            "converted": 22_017,
            "rejected": 17_983,
            "dropped": 1200,
            "unchanged": 310,
            "rejects": rejects,
            "look_alikes": (
                FormatHint(format=_hostile(0), share=0.9996, named_share=0.775, sentence=_hostile(1)),
                FormatHint(format="quix.key-value", share=0.775, named_share=0.775, sentence="Both fit as well."),
            ),
            "examples": tuple(
                BeforeAfter(
                    store_partition=_hostile(at),
                    key=hostile[at],
                    value=hostile[at + 1],
                    new_key=hostile[at + 2],
                    new_value=hostile[8],
                    fields=((_hostile(at), _hostile(at + 1)), ("headers", _hostile(8))),
                )
                for at in range(3)
            ),
            "collisions": (collision, collision),
            "colliding_keys": 12_044,
            "out_of_order": collision,
            "losses": ("loss:timestamp", _hostile(1)),
            "losses_in_words": ("The timestamp of every record: the new format has no place for it.", _hostile(0)),
            "differences": HOSTILE[:3],
            "program": _hostile(0) + "\n" + _hostile(8),
        }
    )
    many = planned(partitions, 1 + (chunks - 1) // partitions, seed=3)
    hostile_chunk = Chunk(
        store_partition=_hostile(0),
        database=_hostile(1),
        number=0,
        keys=KeyRange(start=HOSTILE[0].encode(), end=b"\xff" * 3000),
        estimated_bytes=3 * 2**40,
    )
    whole = found(partitions)
    worst_database = whole.databases[0].model_copy(
        update={
            "store_partition": _hostile(0),
            "path": Path("/srv") / _hostile(0) / "half \udcff" / _hostile(8),
            "compressions": (_hostile(1),),
            "owner": _hostile(3),
            "rocksdb_version": None,
            "newest_file_ms": None,
            "positions": (
                ChangelogPosition(topic=_hostile(0), partition=0, offset=None, position=0, where=_hostile(1)),
            ),
        }
    )
    return good.model_copy(
        update={
            "name": _hostile(0),
            "source": Path("/srv") / _hostile(8),
            "target": Path("/srv") / _hostile(1),
            "found": whole.model_copy(update={"databases": (worst_database, *whole.databases[1:])}),
            "tried": worst,
            "cost": cost(many).model_copy(
                update={"chunks": (*many, hostile_chunk), "free_bytes": 12 * MIB, "biggest_chunk": 3 * 2**40}
            ),
            "changelog": _hostile(0) + _hostile(8),
            "warnings": HOSTILE,
            "checks": (
                *GOOD_CHECKS,
                check(_hostile(0), _hostile(1), "failed", _hostile(8), fix=_hostile(0), exit_code=6),
                check("source.look_alike", "no other format fits better", "warning", _hostile(3), fix=_hostile(4)),
            ),
            "verdict": Verdict(
                exit_code=6,
                go=False,
                sentence=f"no go: a run would be refused: {_hostile(0)}",
                next_step=_hostile(1),
            ),
        }
    )
