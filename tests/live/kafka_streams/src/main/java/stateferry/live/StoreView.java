package stateferry.live;

import java.util.AbstractMap.SimpleImmutableEntry;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.function.Function;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import stateferry.live.StoreKind.Held;

/** Reads one store by every public read there is and compares it with a model. */
final class StoreView<V> {
    private final KeyValueStore<byte[], V> store;
    private final Function<V, Held> held;

    StoreView(final KeyValueStore<byte[], V> store, final Function<V, Held> held) {
        this.store = store;
        this.held = held;
    }

    /** The first difference between the store and the model, or null. */
    String firstDifference(final NavigableMap<Bytes, Held> model) {
        return Optional.<String>empty()
            .or(() -> compare("all()", store.all(), model))
            .or(() -> compare("reverseAll()", store.reverseAll(), model.descendingMap()))
            .or(() -> compareHalves(model))
            .or(() -> comparePoints(model))
            .orElse(null);
    }

    private Optional<String> compareHalves(final NavigableMap<Bytes, Held> model) {
        if (model.isEmpty()) {
            return Optional.empty();
        }
        final List<Bytes> keys = new ArrayList<>(model.keySet());
        final Bytes middle = keys.get(keys.size() / 2);
        return compare("range(null, middle)", store.range(null, middle.get()), model.headMap(middle, true))
            .or(() -> compare("range(middle, null)", store.range(middle.get(), null), model.tailMap(middle, true)));
    }

    private Optional<String> comparePoints(final NavigableMap<Bytes, Held> model) {
        for (final Map.Entry<Bytes, Held> entry : model.entrySet()) {
            final Held found = get(entry.getKey());
            if (!entry.getValue().equals(found)) {
                return Optional.of("get(): " + difference(entry.getKey(), entry.getValue(), found));
            }
            final Bytes successor = successor(entry.getKey());
            final Held stray = model.containsKey(successor) ? null : get(successor);
            if (stray != null) {
                return Optional.of("get(): " + difference(successor, null, stray));
            }
        }
        return Optional.empty();
    }

    private Held get(final Bytes key) {
        final V value = store.get(key.get());
        return value == null ? null : held.apply(value);
    }

    private Optional<String> compare(
        final String read,
        final KeyValueIterator<byte[], V> rows,
        final NavigableMap<Bytes, Held> model
    ) {
        try (rows) {
            final Iterator<Map.Entry<Bytes, Held>> expected = model.entrySet().iterator();
            for (long row = 0; rows.hasNext() || expected.hasNext(); row++) {
                final Map.Entry<Bytes, Held> want = expected.hasNext() ? expected.next() : null;
                final Map.Entry<Bytes, Held> have = rows.hasNext() ? entry(rows) : null;
                if (want == null || have == null || !want.getKey().equals(have.getKey())) {
                    return Optional.of(read + ": row " + row + ": expected " + show(want) + ", found " + show(have));
                }
                if (!want.getValue().equals(have.getValue())) {
                    return Optional.of(read + ": " + difference(want.getKey(), want.getValue(), have.getValue()));
                }
            }
            return Optional.empty();
        }
    }

    private Map.Entry<Bytes, Held> entry(final KeyValueIterator<byte[], V> rows) {
        final var row = rows.next();
        return new SimpleImmutableEntry<>(Bytes.wrap(row.key), held.apply(row.value));
    }

    private static Bytes successor(final Bytes key) {
        return Bytes.wrap(Arrays.copyOf(key.get(), key.get().length + 1));
    }

    private static String show(final Map.Entry<Bytes, Held> entry) {
        return entry == null ? "nothing" : "key " + hex(entry.getKey()) + " " + entry.getValue();
    }

    private static String difference(final Bytes key, final Held want, final Held have) {
        return "key " + hex(key) + ": expected " + orNothing(want) + ", found " + orNothing(have);
    }

    private static String orNothing(final Held held) {
        return held == null ? "nothing" : held.toString();
    }

    private static String hex(final Bytes key) {
        return HexFormat.of().formatHex(key.get());
    }
}
