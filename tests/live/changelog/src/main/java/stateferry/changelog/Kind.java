package stateferry.changelog;

import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Function;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.WindowStore;

/** A kind of store: how it is built, read and written. */
interface Kind<S extends StateStore> {
    Serde<String> KEYS = Serdes.String();
    Duration WINDOW = Duration.ofMinutes(1);

    /** How a store of this kind holds a value. */
    record Form<V>(Function<Held, V> make, Function<V, Held> read) {
    }

    Form<List<Object>> PLAIN = new Form<>(Held::orders, orders -> new Held(orders, null, null));
    Form<ValueAndTimestamp<List<Object>>> TIMESTAMPED = new Form<>(
        held -> ValueAndTimestamp.make(held.orders(), held.timestamp()),
        value -> new Held(value.value(), value.timestamp(), null));

    StoreBuilder<S> builder();

    Held get(S store, String key, long timestamp);

    /** No `held`: delete. */
    void put(S store, String key, long timestamp, Held held);

    void each(S store, Consumer<Held.Entry> seen);

    static Kind<?> of(final String word, final String store, final Serde<List<Object>> orders, final long retentionMs) {
        Duration retention = Duration.ofMillis(retentionMs);
        return switch (word) {
            case "key-value" -> keyValue(PLAIN,
                Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(store), KEYS, orders));
            case "timestamped-key-value" -> keyValue(TIMESTAMPED, Stores.timestampedKeyValueStoreBuilder(
                Stores.persistentTimestampedKeyValueStore(store), KEYS, orders));
            case "window" -> window(PLAIN, Stores.windowStoreBuilder(
                Stores.persistentWindowStore(store, retention, WINDOW, false), KEYS, orders));
            case "timestamped-window" -> window(TIMESTAMPED, Stores.timestampedWindowStoreBuilder(
                Stores.persistentTimestampedWindowStore(store, retention, WINDOW, false), KEYS, orders));
            default -> withHeaders(word, store, orders);
        };
    }

    private static Kind<?> withHeaders(final String word, final String store, final Serde<List<Object>> orders) {
        try {  // only some releases have such stores
            return (Kind<?>) Class.forName("stateferry.changelog.HeadersKind")
                .getDeclaredMethod("of", String.class, String.class, Serde.class)
                .invoke(null, word, store, orders);
        } catch (ReflectiveOperationException error) {
            throw new IllegalArgumentException("unknown kind of store: " + word, error);
        }
    }

    static <V> Kind<KeyValueStore<String, V>> keyValue(
            final Form<V> form, final StoreBuilder<? extends KeyValueStore<String, V>> builder) {
        return new Kind<>() {
            @Override
            @SuppressWarnings("unchecked")
            public StoreBuilder<KeyValueStore<String, V>> builder() {
                return (StoreBuilder<KeyValueStore<String, V>>) builder;
            }

            @Override
            public Held get(final KeyValueStore<String, V> store, final String key, final long timestamp) {
                V found = store.get(key);
                return found == null ? null : form.read().apply(found);
            }

            @Override
            public void put(final KeyValueStore<String, V> store, final String key, final long timestamp, final Held held) {
                if (held == null) {
                    store.delete(key);
                } else {
                    store.put(key, form.make().apply(held));
                }
            }

            @Override
            public void each(final KeyValueStore<String, V> store, final Consumer<Held.Entry> seen) {
                try (var rows = store.all()) {
                    rows.forEachRemaining(row -> seen.accept(
                        new Held.Entry(row.key, null, form.read().apply(row.value))));
                }
            }
        };
    }

    static <V> Kind<WindowStore<String, V>> window(
            final Form<V> form, final StoreBuilder<? extends WindowStore<String, V>> builder) {
        return new Kind<>() {
            @Override
            @SuppressWarnings("unchecked")
            public StoreBuilder<WindowStore<String, V>> builder() {
                return (StoreBuilder<WindowStore<String, V>>) builder;
            }

            @Override
            public Held get(final WindowStore<String, V> store, final String key, final long timestamp) {
                V found = store.fetch(key, start(timestamp));
                return found == null ? null : form.read().apply(found);
            }

            @Override
            public void put(final WindowStore<String, V> store, final String key, final long timestamp, final Held held) {
                store.put(key, held == null ? null : form.make().apply(held), start(timestamp));
            }

            @Override
            public void each(final WindowStore<String, V> store, final Consumer<Held.Entry> seen) {
                try (var rows = store.all()) {
                    rows.forEachRemaining(row -> seen.accept(
                        new Held.Entry(row.key.key(), row.key.window().start(), form.read().apply(row.value))));
                }
            }

            private long start(final long timestamp) {
                return timestamp - timestamp % WINDOW.toMillis();
            }
        };
    }
}
