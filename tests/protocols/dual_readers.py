"""Threads that read a dual-read store: a get that takes no lock, an iterator over two snapshots."""

from tests.protocols.dual_state import BAD, Contents, Get, Mutant, Scan, State, Steps, changed, first_key, without

NOT_THEN = "a get returns what the key was at some instant meanwhile"
NOT_ONE = "an iterator shows one instant, and no key twice"


class ReadersModel:
    """One get, with or without migrate_on_read, and one iterator at a time."""

    def __init__(self, gets: tuple[int, ...], scans: bool, mutant: Mutant | None) -> None:
        self._gets = gets
        self._scans = scans
        self._mutant = mutant

    def steps(self, state: State) -> Steps:
        get = state.at_work.get
        if get is not None:
            yield from self._get_steps(state, get)
        else:
            for key in self._gets:
                yield from self._begin(state, Get(key, "old", frozenset({state.spec[key]})))
        if self._scans:
            yield from self._scan_steps(state)

    def _begin(self, state: State, get: Get) -> Steps:
        """Switched off or not is asked before the first look, and never again."""
        found = state.new[-1][get.key]
        if self._mutant is Mutant.GET_OLD_FIRST and not state.at_work.off:
            yield from self._look_at_old(state, get)
        elif found is not None or state.at_work.off:
            yield _returned(state, get, found)
        else:
            yield f"get {get.key}: not in new", state.within(get=get)

    def _get_steps(self, state: State, get: Get) -> Steps:
        if get.at == "old":
            yield from self._look_at_old(state, get)
        elif get.at == "again":
            yield _returned(state, get, state.new[-1][get.key])
        elif not state.at_work.locked:
            yield self._move(state, get)

    def _look_at_old(self, state: State, get: Get) -> Steps:
        found = state.old[-1][get.key]
        if (self._mutant is Mutant.GET_TAKES_OFF_FOR_ABSENT and state.at_work.off) or (
            found is None and self._mutant is Mutant.GET_ONCE
        ):
            yield _returned(state, get, None)
        elif found is None:
            yield f"get {get.key}: not in old", state.within(get=get._replace(at="again"))
        else:
            yield _returned(state, get, found)
            if found != BAD:
                yield f"get {get.key}: in old, to move", state.within(get=get._replace(at="move", found=found))

    def _move(self, state: State, get: Get) -> tuple[str, State]:
        """Under the lock: what new has by now wins, and what old has not any more is not there to be moved."""
        new, old = state.new[-1], state.old[-1]
        if self._mutant is not Mutant.MOVE_BLINDLY:
            if new[get.key] is not None:
                return _returned(state, get, new[get.key])
            if old[get.key] is None:
                return f"get {get.key}: not in old any more", state.within(get=get._replace(at="again"))
        copied = changed(new, [(get.key, get.found)])
        if state.shared:
            return _returned(state.wrote(new=copied, old=without(old, [get.key])), get, get.found)
        queue = state.at_work.queue | {get.key}
        return _returned(state.wrote(new=copied).within(queue=queue), get, get.found)

    def _scan_steps(self, state: State) -> Steps:
        """Under the lock both snapshots are taken; what is read later is read from them."""
        session = state.at_work
        scan = session.scan
        if scan is not None and scan.old is not None:
            yield "iterator: reads", self._shown(state, scan)
        elif not session.locked and (scan is not None or first_key(state.seen) is not None):
            new = state.new[-1] if scan is None else scan.new
            could = frozenset({state.spec}) if scan is None else scan.could
            apart = self._mutant is Mutant.SNAPSHOTS_APART and scan is None
            taken = Scan(new, None if apart else state.old[-1], session.low, session.off, could)
            yield f"iterator: {'one snapshot' if apart else 'snapshots'}", state.within(scan=taken)

    def _shown(self, state: State, scan: Scan) -> State:
        assert scan.old is not None
        low = state.at_work.low if self._mutant is Mutant.LATE_LOW else scan.low
        old = () if scan.off else [(key, value) for key, value in _items(scan.old) if key >= low]
        new = _items(scan.new)
        ties = {key for key, _ in new} if self._mutant is not Mutant.NO_TIE_RULE else set()
        shown = sorted([*new, *(item for item in old if item[0] not in ties)])
        after = state.within(scan=None)
        return after if any(shown == _items(then) for then in scan.could) else after._replace(wrong=NOT_ONE)


def _items(contents: Contents) -> list[tuple[int, int]]:
    return [(key, value) for key, value in enumerate(contents) if value is not None]


def _returned(state: State, get: Get, value: int | None) -> tuple[str, State]:
    after = state.within(get=None)
    if value not in get.could:
        after = after._replace(wrong=NOT_THEN)
    return f"get {get.key}: returns {value}", after
