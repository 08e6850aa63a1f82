package stateferry.live;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.Predicate;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.SessionStore;
import stateferry.live.SegmentedModel.Cell;

/** The model of a session store. */
final class SessionCheck<V> extends StoreCheck {
    private static final long FOREVER = Long.MAX_VALUE;

    private final ValueForm<V> form;
    private final SegmentedModel model;

    SessionCheck(final ValueForm<V> form, final long retention) {
        this.form = form;
        this.model = new SegmentedModel(retention);
    }

    static <V> void apply(final ValueForm<V> form, final StateStore stateStore, final Event event) {
        final SessionStore<byte[], V> store = StoreKind.cast(stateStore);
        final byte[] key = event.keyBytes().get();
        final Windowed<byte[]> session = new Windowed<>(key, new SessionWindow(event.start(), event.end()));
        if (event.read()) {
            store.fetchSession(key, event.start(), event.end());
        } else if (event.value() == null) {
            store.remove(session);
        } else {
            store.put(session, form.put(event.held()));
        }
    }

    @Override
    void expect(final Event row) {
        model.expect(cell(row), form.keptOf(row.held()));
    }

    @Override
    void apply(final Event event) {
        if (event.value() == null) {
            model.remove(cell(event));
        } else {
            model.put(cell(event), form.keptOf(event.held()));
        }
    }

    @Override
    void reopened() {
        model.reopened();
    }

    @Override
    int records() {
        return model.size();
    }

    @Override
    Optional<String> firstDifference(final StateStore stateStore) {
        final SessionStore<byte[], V> store = StoreKind.cast(stateStore);
        final List<Row> all = model.visible();
        return compare("fetch(null, null)", rows(store.fetch(null, null)), all)
            .or(() -> compare("backwardFetch(null, null)", rows(store.backwardFetch(null, null)),
                SegmentedModel.reversed(all)))
            .or(() -> compareRanges(store, all))
            .or(() -> compareKeys(store, all))
            .or(() -> comparePoints(store, all));
    }

    private Optional<String> compareRanges(final SessionStore<byte[], V> store, final List<Row> all) {
        if (all.isEmpty()) {
            return Optional.empty();
        }
        final List<Bytes> keys = all.stream().map(row -> row.slot().key()).sorted().distinct().toList();
        final Bytes low = keys.get(keys.size() / 3);
        final Bytes high = keys.get(keys.size() - 1 - keys.size() / 3);
        final long ends = all.get(all.size() / 4).slot().end();
        final long starts = all.get(all.size() - 1 - all.size() / 4).slot().start();
        final Predicate<Slot> range = slot -> slot.key().compareTo(low) >= 0 && slot.key().compareTo(high) <= 0;
        final List<Row> some = SegmentedModel.only(all, range);
        final List<Row> then = SegmentedModel.only(some, slot -> slot.end() >= ends && slot.start() <= starts);
        return compare("fetch(from, to)", rows(store.fetch(low.get(), high.get())), some)
            .or(() -> compare("backwardFetch(from, to)", rows(store.backwardFetch(low.get(), high.get())),
                SegmentedModel.reversed(some)))
            .or(() -> compare("findSessions(from, to)",
                rows(store.findSessions(low.get(), high.get(), ends, starts)), then))
            .or(() -> compare("backwardFindSessions(from, to)",
                rows(store.backwardFindSessions(low.get(), high.get(), ends, starts)),
                SegmentedModel.reversed(then)));
    }

    private Optional<String> compareKeys(final SessionStore<byte[], V> store, final List<Row> all) {
        final Map<Bytes, List<Row>> byKey = new TreeMap<>();
        all.forEach(row -> byKey.computeIfAbsent(row.slot().key(), key -> new ArrayList<>()).add(row));
        for (final Map.Entry<Bytes, List<Row>> entry : byKey.entrySet()) {
            final Optional<String> difference = compareKey(store, entry.getKey(), entry.getValue());
            if (difference.isPresent()) {
                return difference;
            }
            final Bytes stray = successor(entry.getKey());
            if (!byKey.containsKey(stray)) {
                final Optional<String> found = compare("fetch(key)", rows(store.fetch(stray.get())), List.of());
                if (found.isPresent()) {
                    return found;
                }
            }
        }
        return Optional.empty();
    }

    private Optional<String> compareKey(final SessionStore<byte[], V> store, final Bytes bytes, final List<Row> rows) {
        final byte[] key = bytes.get();
        final Slot middle = rows.get(rows.size() / 2).slot();
        final List<Row> some =
            SegmentedModel.only(rows, slot -> slot.end() >= middle.end() && slot.start() <= middle.end());
        return compare("fetch(key)", rows(store.fetch(key)), rows)
            .or(() -> compare("backwardFetch(key)", rows(store.backwardFetch(key)), SegmentedModel.reversed(rows)))
            .or(() -> compare("findSessions(key)", rows(store.findSessions(key, middle.end(), middle.end())), some))
            .or(() -> compare("backwardFindSessions(key)",
                rows(store.backwardFindSessions(key, middle.end(), middle.end())), SegmentedModel.reversed(some)));
    }

    private Optional<String> comparePoints(final SessionStore<byte[], V> store, final List<Row> all) {
        for (final Row row : all) {
            final Slot slot = row.slot();
            final V found = store.fetchSession(slot.key().get(), slot.start(), slot.end());
            final Optional<String> difference = comparePoint("fetchSession()", slot, row.held(), form.found(found));
            if (difference.isPresent()) {
                return difference;
            }
        }
        return Optional.empty();
    }

    @Override
    List<Event> furtherWrites() {
        final List<Event> writes = new ArrayList<>();
        final List<Cell> old = model.cells();
        final long now = model.newest();
        for (final Bytes key : newKeys()) {
            writes.add(write(key, bytes("new " + writes.size()), now - 5, now, writes.size()));
        }
        long segment = -1;
        for (final Cell cell : old) {
            if (cell.time() / model.interval() != segment) {
                segment = cell.time() / model.interval();
                final byte[] value = bytes("in segment " + segment);
                final long start = cell.slot().start();
                writes.add(write(key("in each segment"), value, start, cell.time(), writes.size()));
                writes.add(write(cell.slot().key(), value, start, cell.time(), writes.size()));
            }
        }
        if (!old.isEmpty()) {
            for (final int at : new int[] {old.size() / 3, old.size() - 1 - old.size() / 4}) {
                final Slot slot = old.get(at).slot();
                writes.add(write(slot.key(), null, slot.start(), slot.end(), writes.size()));
            }
        }
        writes.add(write(key("never there"), null, now, now, 0));
        writes.add(write(key("written"), new byte[0], now, now + 1, 0));
        writes.add(write(key("later"), bytes("the oldest segment may expire"), now + 1, now + model.interval(), 1));
        return writes;
    }

    private static Event write(
        final Bytes key,
        final byte[] value,
        final long start,
        final long end,
        final int number
    ) {
        return Event.write(key, value, end + 7, HEADERS.get(number % HEADERS.size())).in(start, end);
    }

    private static Cell cell(final Event event) {
        return Cell.ofSession(event.keyBytes(), event.start(), event.end());
    }

    private Rows rows(final KeyValueIterator<Windowed<byte[]>, V> found) {
        return SegmentedModel.rows(found, form, true);
    }
}
