"""What an application must find, once its state was migrated and its input topics were made again."""

from collections.abc import Callable
from dataclasses import replace

from tests.live.kafka_streams import kinds
from tests.live.partitions.app import App, Program, found_by, make_input, records, send

MURMUR2 = "murmur2_random"
KEYS = 400


def prove(old: Program, new: Program, migrate: Callable[[], object]) -> None:
    """The old application fills its stores; the new one finds every key, restores nothing, and after a wipe the same.

    Its stores go on: what comes later is added to what they hold.
    """
    every = records(KEYS, 3)
    keys = sorted({key for key, _, _ in every})
    make_input(old, MURMUR2, every)
    whole = found_by(old, keys)
    assert all(whole[key][kind] for key in keys for kind in old.kinds), "it holds each key in each store"
    reopened = found_by(old, keys)  # Kafka Streams finds old versions again only once it has written, or restored
    migrate()
    make_input(new)
    elsewhere = replace(new, state_dir=new.state_dir.with_name("elsewhere"))
    assert found_by(elsewhere, keys, is_restored=True) == whole
    with App(new) as app:
        app.wait_caught_up()
        assert app.restored == 0
        assert app.find(keys) == reopened
        touched = sorted({key for key, _, _ in every[-50:]})
        send(new, MURMUR2, [(key, "more", every[-1][2] + 1) for key in touched])
        app.wait_caught_up()
        after = app.find(touched)
        assert app.stop()["clean"]
    if kinds.TIMESTAMPED_KEY_VALUE in old.kinds:
        expected = [whole[key][kinds.TIMESTAMPED_KEY_VALUE][0].rpartition(",")[0] + ",more" for key in touched]
        assert [after[key][kinds.TIMESTAMPED_KEY_VALUE][0].rpartition(",")[0] for key in touched] == expected
