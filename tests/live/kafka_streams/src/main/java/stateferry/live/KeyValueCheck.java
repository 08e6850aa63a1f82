package stateferry.live;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;

/** The model of a key-value store, plain, timestamped or with headers. */
final class KeyValueCheck<V> extends StoreCheck {
    private static final long WRITTEN_AT = 1_900_000_000_000L;

    private final ValueForm<V> form;
    private final NavigableMap<Bytes, Held> model = new TreeMap<>();

    KeyValueCheck(final ValueForm<V> form) {
        this.form = form;
    }

    static <V> void apply(final ValueForm<V> form, final StateStore stateStore, final Event event) {
        final KeyValueStore<byte[], V> store = StoreKind.cast(stateStore);
        if (event.read()) {
            store.get(event.keyBytes().get());
        } else {
            store.put(event.keyBytes().get(), form.put(event.held()));
        }
    }

    @Override
    void expect(final Event row) {
        model.put(row.keyBytes(), form.keptOf(row.held()));
    }

    @Override
    void apply(final Event event) {
        final Held held = form.keptOf(event.held());
        if (held == null) {
            model.remove(event.keyBytes());
        } else {
            model.put(event.keyBytes(), held);
        }
    }

    @Override
    void reopened() {
        // Nothing of it is in memory only.
    }

    @Override
    int records() {
        return model.size();
    }

    @Override
    Optional<String> firstDifference(final StateStore stateStore) {
        final KeyValueStore<byte[], V> store = StoreKind.cast(stateStore);
        return compare("all()", rows(store.all()), rows(model))
            .or(() -> compare("reverseAll()", rows(store.reverseAll()), rows(model.descendingMap())))
            .or(() -> compareHalves(store))
            .or(() -> comparePoints(store));
    }

    private Optional<String> compareHalves(final KeyValueStore<byte[], V> store) {
        if (model.isEmpty()) {
            return Optional.empty();
        }
        final List<Bytes> keys = new ArrayList<>(model.keySet());
        final Bytes middle = keys.get(keys.size() / 2);
        final byte[] key = middle.get();
        final NavigableMap<Bytes, Held> head = model.headMap(middle, true);
        final NavigableMap<Bytes, Held> tail = model.tailMap(middle, true);
        return compare("range(null, middle)", rows(store.range(null, key)), rows(head))
            .or(() -> compare("range(middle, null)", rows(store.range(key, null)), rows(tail)))
            .or(() -> compare("reverseRange(null, middle)", rows(store.reverseRange(null, key)),
                rows(head.descendingMap())))
            .or(() -> compare("reverseRange(middle, null)", rows(store.reverseRange(key, null)),
                rows(tail.descendingMap())));
    }

    private Optional<String> comparePoints(final KeyValueStore<byte[], V> store) {
        for (final Bytes key : model.keySet()) {
            final Bytes successor = successor(key);
            final Optional<String> difference =
                comparePoint("get()", slot(key), model.get(key), form.found(store.get(key.get())))
                .or(() -> comparePoint("get()", slot(successor), model.get(successor),
                    form.found(store.get(successor.get()))));
            if (difference.isPresent()) {
                return difference;
            }
        }
        return Optional.empty();
    }

    @Override
    List<Event> furtherWrites() {
        final List<Event> writes = new ArrayList<>();
        final List<Bytes> old = new ArrayList<>(model.keySet());
        for (final Bytes key : newKeys()) {
            writes.add(write(key, bytes("new " + writes.size()), writes.size()));
        }
        if (!old.isEmpty()) {
            for (final int at : new int[] {0, old.size() / 2, old.size() - 1}) {
                writes.add(write(old.get(at), bytes("overwritten " + at), writes.size()));
            }
            writes.add(write(old.get(old.size() / 3), new byte[0], 0));
            writes.add(write(old.get(old.size() / 4), null, 0));
            writes.add(write(old.get(old.size() - 1 - old.size() / 4), null, 1));
        }
        writes.add(write(key("written"), null, 0));
        writes.add(write(key("never there"), null, 0));
        return writes;
    }

    private static Event write(final Bytes key, final byte[] value, final int number) {
        return Event.write(key, value, WRITTEN_AT, HEADERS.get(number % HEADERS.size()));
    }

    private Rows rows(final KeyValueIterator<byte[], V> found) {
        return new Rows() {
            @Override
            public boolean hasNext() {
                return found.hasNext();
            }

            @Override
            public Row next() {
                final var row = found.next();
                return new Row(slot(Bytes.wrap(row.key)), form.read(row.value));
            }

            @Override
            public void close() {
                found.close();
            }
        };
    }

    private static List<Row> rows(final Map<Bytes, Held> model) {
        return model.entrySet().stream().map(entry -> new Row(slot(entry.getKey()), entry.getValue())).toList();
    }

    private static Slot slot(final Bytes key) {
        return new Slot(key, null, null);
    }
}
