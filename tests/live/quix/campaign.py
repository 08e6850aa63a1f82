"""Lives of the application that end in any of its steps, and what is left then, beside a model."""

import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from random import Random
from zlib import crc32

from confluent_kafka import ConsumerGroupState, Producer
from confluent_kafka.admin import AdminClient

from tests.broker.topics import compact_soon, make_topic, messages_of
from tests.live.quix.summing import NEW, OLD, Code, Life
from tests.support import read_families

ROOT = Path(__file__).parents[3]
PARTITIONS = 2
PER_CHECKPOINT = 25
_PATIENCE_SECONDS = 120.0
_NUMBERS = count()
_POINTS = {
    "at-least-once": ("produced", "committed", "written", "converted"),
    "exactly-once": ("produced", "ended", "written", "converted"),
}


@dataclass
class World:
    """A topic of numbers, an application that sums them by key, and what it has to know."""

    bootstrap: str
    folder: Path
    guarantee: str
    random: Random
    sums: dict[bytes, int] = field(default_factory=dict)
    life: Life = field(init=False)

    def __post_init__(self) -> None:
        name = f"summing-{time.time_ns()}-{next(_NUMBERS)}"
        make_topic(self.bootstrap, name, PARTITIONS)
        self.life = Life(self.bootstrap, name, name, str(self.folder / "a"), "old", self.guarantee)

    @property
    def changelog(self) -> str:
        return f"changelog__{self.life.group}--{self.life.topic}--default"

    def send(self, events: list[tuple[bytes, int | None]]) -> None:
        """Numbers to add, or None: forget the key."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        for key, number in events:
            value = json.dumps({} if number is None else {"n": number})
            producer.produce(topic=self.life.topic, key=key, value=value, partition=crc32(key) % PARTITIONS)
            if number is None:
                self.sums.pop(key, None)
            else:
                self.sums[key] = self.sums.get(key, 0) + number
        assert producer.flush(30) == 0

    def send_some(self, events: int = 60) -> None:
        """To old keys and to new ones; some are forgotten, and come back."""
        known = sorted(self.sums)
        keys = [self.random.choice(known) for _ in range(events)] + [b"new-%d" % self.random.randrange(10**6)]
        self.send([(key, None if self.random.random() < 0.1 else self.random.randint(1, 9)) for key in keys])

    def start(self, life: Life) -> subprocess.Popen[str]:
        command = [sys.executable, "-W", "ignore", "-m", "tests.live.quix.summing", json.dumps(asdict(life))]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True)

    def live(self, life: Life) -> dict[str, int] | None:
        """What it says at its end; None: it was killed."""
        with self.start(life) as process:
            output, errors = process.communicate(timeout=_PATIENCE_SECONDS)
        if process.returncode == -9:
            return None
        assert process.returncode == 0, errors[-3000:]
        result: dict[str, int] = json.loads(output)
        return result

    def wipe(self) -> None:
        shutil.rmtree(self.life.state_dir, ignore_errors=True)

    def kept(self, state_dir: str | None = None) -> dict[bytes, object]:
        """By the keys of the stores: what lies on the disk."""
        found: dict[bytes, object] = {}
        stores = Path(state_dir or self.life.state_dir) / self.life.group / "default" / self.life.topic
        for store in stores.iterdir():
            for key, value in read_families(store)["default"].items():
                assert key not in found, "a key is in two partitions"
                found[key] = json.loads(value)
        return found

    def old_keys(self) -> int:
        return sum(key.endswith(b'|"%s"' % OLD.encode()) for key in self.kept())

    def expected(self, code: Code) -> dict[bytes, object]:
        if code == "old":
            return {key + b'|"%s"' % OLD.encode(): total for key, total in self.sums.items()}
        return {key + b'|"%s"' % NEW.encode(): {"sum": total} for key, total in self.sums.items()}

    def assert_kept(self, code: Code, state_dir: str | None = None) -> None:
        found, expected = self.kept(state_dir), self.expected(code)
        wrong = {key: (found.get(key), expected.get(key)) for key in found.keys() | expected.keys()}
        assert {key: pair for key, pair in wrong.items() if pair[0] != pair[1]} == {}

    def compact(self) -> None:
        """Let the broker compact the changelog, in the middle: old values and their deletes go."""
        before = self._records()
        compact_soon(self.bootstrap, self.changelog)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self._records() >= before:
            assert time.monotonic() < deadline, "the changelog is not compacted"
            self.send_some()
            assert self.live(replace(self.life, code="dual", per_checkpoint=PER_CHECKPOINT)) is not None  # it writes

    def _records(self) -> int:
        """Of the changelog, as they are now."""
        return sum(1 for _ in messages_of(self.bootstrap, self.changelog))


def begin(
    bootstrap: str, folder: Path, guarantee: str, seed: int, *, keys: int = 1500, use_changelog: bool = True
) -> World:
    """The old code has summed a first number of each key."""
    world = World(bootstrap, folder, guarantee, Random(seed))
    world.life = replace(world.life, use_changelog=use_changelog)
    world.send([(b"key-%05d" % number, world.random.randint(1, 9)) for number in range(keys)])
    assert world.live(world.life) is not None
    world.assert_kept("old")
    return world


def kill(world: World, code: Code, kills: int, say: Callable[[str], None] = lambda _: None) -> Counter[str]:
    """Lives of this code, each ended somewhere, until there were so many; how many ended where."""
    ended: Counter[str] = Counter()
    while ended.total() - ended["alive"] < kills:
        world.send_some()
        point = world.random.choice([each for each in _POINTS[world.guarantee] if (each, code) != ("converted", "old")])
        turn = world.random.randint(1, 60 if point == "converted" else 4)
        if wiped := world.random.random() < 0.2:
            world.wipe()
        life = replace(world.life, code=code, dies_after=point, deaths_turn=turn, per_checkpoint=PER_CHECKPOINT)
        result = world.live(life)
        ended[point if result is None else "alive"] += 1
        say(f"{point} {turn} {'wiped ' if wiped else ''}{'dead' if result is None else result}")
        assert ended["alive"] <= 2 * kills + 5, "most lives end by themselves: this tests nothing"
    return ended


def converge(world: World) -> None:
    world.send_some()
    result = world.live(replace(world.life, code="dual", until="converged"))
    assert result is not None and result["old_keys_left"] == 0


def rebuild(world: World, code: Code) -> None:
    """From the changelog alone; and from it and what was left of a restore that was killed."""
    world.send_some()
    life = replace(world.life, code=code)
    assert world.live(life) is not None
    world.assert_kept(code)
    world.wipe()
    assert world.live(life) is not None
    world.assert_kept(code)
    world.wipe()
    assert world.live(replace(life, dies_after="restored", deaths_turn=len(world.sums) // 2)) is None
    assert world.live(life) is not None
    world.assert_kept(code)


def take_over(world: World) -> None:
    """Another process joins in the middle, and outlives the first: it restores each partition that it gets."""
    assert world.old_keys(), "there is nothing left to move"
    first = world.start(replace(world.life, code="dual", until="killed", per_checkpoint=PER_CHECKPOINT))
    world.send_some()
    _wait_for_members(world, 1)
    other = replace(world.life, code="dual", member="b", state_dir=str(world.folder / "b"), idle_seconds=9.0)
    second = world.start(other)
    try:
        _wait_for_members(world, 2)
        world.send_some()
    finally:
        first.kill()
        first.communicate()
    world.send_some()
    output, errors = second.communicate(timeout=_PATIENCE_SECONDS)
    assert second.returncode == 0, errors[-3000:]
    assert json.loads(output)["moved_by_converge"] > 0
    world.life = replace(world.life, member="b", state_dir=other.state_dir)


def _wait_for_members(world: World, members: int) -> None:
    admin = AdminClient({"bootstrap.servers": world.bootstrap})
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        group = admin.describe_consumer_groups([world.life.group])[world.life.group].result(30)
        if len(group.members) == members and group.state is ConsumerGroupState.STABLE:
            return
        time.sleep(0.1)
    raise TimeoutError(f"the group has not {members} members")
