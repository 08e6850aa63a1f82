package stateferry.live;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.Predicate;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;
import stateferry.live.SegmentedModel.Cell;

/** The model of a window store; with duplicates, that of a join window. */
final class WindowCheck<V> extends StoreCheck {
    private static final long FOREVER = Long.MAX_VALUE;

    private final ValueForm<V> form;
    private final boolean duplicates;
    private final SegmentedModel model;
    private int sequence;

    WindowCheck(final ValueForm<V> form, final boolean duplicates, final long retention) {
        this.form = form;
        this.duplicates = duplicates;
        this.model = new SegmentedModel(retention);
    }

    static <V> void apply(final ValueForm<V> form, final StateStore stateStore, final Event event) {
        final WindowStore<byte[], V> store = StoreKind.cast(stateStore);
        if (event.read()) {
            store.fetch(event.keyBytes().get(), event.start());
        } else {
            store.put(event.keyBytes().get(), form.put(event.held()), event.start());
        }
    }

    @Override
    void expect(final Event row) {
        final int number = row.sequence() == null ? 0 : row.sequence();
        model.expect(Cell.ofWindow(row.keyBytes(), row.start(), number), form.keptOf(row.held()));
    }

    @Override
    void apply(final Event event) {
        if (duplicates) {
            sequence++;
        }
        model.put(Cell.ofWindow(event.keyBytes(), event.start(), sequence), form.keptOf(event.held()));
    }

    @Override
    void reopened() {
        sequence = 0;
        model.reopened();
    }

    @Override
    int records() {
        return model.size();
    }

    @Override
    Optional<String> firstDifference(final StateStore stateStore) {
        final WindowStore<byte[], V> store = StoreKind.cast(stateStore);
        final List<Row> all = model.visible();
        return compare("all()", SegmentedModel.rows(store.all(), form, false), all)
            .or(() -> compare("backwardAll()", SegmentedModel.rows(store.backwardAll(), form, false),
                SegmentedModel.reversed(all)))
            .or(() -> compareTimes(store, all))
            .or(() -> compareKeys(store, all))
            .or(() -> comparePoints(store, all));
    }

    private Optional<String> compareTimes(final WindowStore<byte[], V> store, final List<Row> all) {
        if (all.isEmpty()) {
            return Optional.empty();
        }
        final long from = all.get(all.size() / 4).slot().start();
        final long to = Math.max(from, all.get(all.size() - 1 - all.size() / 4).slot().start());
        final List<Row> some = SegmentedModel.only(all, slot -> slot.start() >= from && slot.start() <= to);
        return compare("fetchAll()", SegmentedModel.rows(store.fetchAll(from, to), form, false), some)
            .or(() -> compare("backwardFetchAll()", SegmentedModel.rows(store.backwardFetchAll(from, to), form, false),
                SegmentedModel.reversed(some)))
            .or(() -> compareRanges(store, all, from, to));
    }

    private Optional<String> compareRanges(
        final WindowStore<byte[], V> store,
        final List<Row> all,
        final long from,
        final long to
    ) {
        final List<Bytes> keys = all.stream().map(row -> row.slot().key()).sorted().distinct().toList();
        final Bytes low = keys.get(keys.size() / 3);
        final Bytes high = upperBound(keys);
        final Predicate<Slot> times = slot -> slot.start() >= from && slot.start() <= to;
        final Predicate<Slot> above = slot -> slot.key().compareTo(low) >= 0;
        final Predicate<Slot> below = slot -> slot.key().compareTo(high) <= 0;
        final List<Row> some = SegmentedModel.only(all, times.and(above).and(below));
        return compare("fetch(from, to)",
                SegmentedModel.rows(store.fetch(low.get(), high.get(), from, to), form, false), some)
            .or(() -> compare("backwardFetch(from, to)",
                SegmentedModel.rows(store.backwardFetch(low.get(), high.get(), from, to), form, false),
                SegmentedModel.reversed(some)))
            .or(() -> compare("fetch(null, to)",
                SegmentedModel.rows(store.fetch(null, high.get(), 0, FOREVER), form, false),
                SegmentedModel.only(all, below)))
            .or(() -> compare("backwardFetch(from, null)",
                SegmentedModel.rows(store.backwardFetch(low.get(), null, 0, FOREVER), form, false),
                SegmentedModel.reversed(SegmentedModel.only(all, above))));
    }

    /** A key that no other is the beginning of: else Kafka Streams may miss that other one below the bound. */
    private static Bytes upperBound(final List<Bytes> keys) {
        int at = keys.size() - 1 - keys.size() / 3;
        while (at > 0 && beginsWith(keys.get(at), keys.subList(0, at))) {
            at--;
        }
        return keys.get(at);
    }

    private static boolean beginsWith(final Bytes key, final List<Bytes> others) {
        return others.stream().map(Bytes::get).anyMatch(other ->
            other.length <= key.get().length && Arrays.equals(other, 0, other.length, key.get(), 0, other.length));
    }

    private Optional<String> compareKeys(final WindowStore<byte[], V> store, final List<Row> all) {
        final Map<Bytes, List<Row>> byKey = new TreeMap<>();
        all.forEach(row -> byKey.computeIfAbsent(row.slot().key(), key -> new ArrayList<>()).add(row));
        for (final Map.Entry<Bytes, List<Row>> entry : byKey.entrySet()) {
            final Bytes key = entry.getKey();
            final List<Row> rows = entry.getValue();
            final long middle = rows.get(rows.size() / 2).slot().start();
            final Optional<String> difference =
                compare("fetch(key)", rows(store.fetch(key.get(), 0, FOREVER), key), rows)
                .or(() -> compare("backwardFetch(key)", rows(store.backwardFetch(key.get(), 0, FOREVER), key),
                    SegmentedModel.reversed(rows)))
                .or(() -> compare("fetch(key, from, to)", rows(store.fetch(key.get(), 0, middle), key),
                    SegmentedModel.only(rows, slot -> slot.start() <= middle)));
            if (difference.isPresent()) {
                return difference;
            }
            final Bytes stray = successor(key);
            if (!byKey.containsKey(stray)) {
                final var none = rows(store.fetch(stray.get(), 0, FOREVER), stray);
                final Optional<String> found = compare("fetch(key)", none, List.of());
                if (found.isPresent()) {
                    return found;
                }
            }
        }
        return Optional.empty();
    }

    /** Join windows have no such read: which duplicate it finds is left to chance. */
    private Optional<String> comparePoints(final WindowStore<byte[], V> store, final List<Row> all) {
        for (final Row row : duplicates ? List.<Row>of() : all) {
            final V found = store.fetch(row.slot().key().get(), row.slot().start());
            final Optional<String> difference =
                comparePoint("fetch(key, time)", row.slot(), row.held(), form.found(found));
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
            writes.add(write(key, bytes("new " + writes.size()), now, writes.size()));
        }
        long segment = -1;
        for (final Cell cell : old) {
            if (cell.time() / model.interval() != segment) {
                segment = cell.time() / model.interval();
                final byte[] value = bytes("in segment " + segment);
                writes.add(write(key("in each segment"), value, cell.time(), writes.size()));
                writes.add(write(cell.slot().key(), value, cell.time(), writes.size()));
            }
        }
        if (!old.isEmpty() && !duplicates) {
            for (final int at : new int[] {old.size() / 3, old.size() - 1 - old.size() / 4}) {
                writes.add(write(old.get(at).slot().key(), null, old.get(at).time(), writes.size()));
            }
            writes.add(write(key("never there"), null, now, 0));
        }
        writes.add(write(key("written"), new byte[0], now + 1, 0));
        writes.add(write(key("later"), bytes("the oldest segment may expire"), now + model.interval(), 1));
        return writes;
    }

    private static Event write(final Bytes key, final byte[] value, final long start, final int number) {
        return Event.write(key, value, start + 7, HEADERS.get(number % HEADERS.size())).in(start, null);
    }

    private Rows rows(final WindowStoreIterator<V> found, final Bytes key) {
        return new Rows() {
            @Override
            public boolean hasNext() {
                return found.hasNext();
            }

            @Override
            public Row next() {
                final var row = found.next();
                return new Row(new Slot(key, row.key, null), form.read(row.value));
            }

            @Override
            public void close() {
                found.close();
            }
        };
    }
}
