package stateferry.live;

import java.util.HexFormat;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;

/** The kinds of store this program knows: how each is built, written and read through the public API. */
enum StoreKind {
    KEY_VALUE("key-value") {
        @Override
        StoreBuilder<?> builder(final String store) {
            return Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(store), BYTES, BYTES);
        }

        @Override
        void put(final StateStore store, final Record<byte[], byte[]> record) {
            StoreKind.<KeyValueStore<byte[], byte[]>>cast(store).put(record.key(), record.value());
        }

        @Override
        StoreView<?> view(final TopologyTestDriver driver, final String store) {
            return new StoreView<byte[]>(driver.getKeyValueStore(store), value -> new Held(Bytes.wrap(value), null));
        }
    },

    TIMESTAMPED_KEY_VALUE("timestamped-key-value") {
        @Override
        StoreBuilder<?> builder(final String store) {
            final var supplier = Stores.persistentTimestampedKeyValueStore(store);
            return Stores.timestampedKeyValueStoreBuilder(supplier, BYTES, BYTES);
        }

        @Override
        void put(final StateStore store, final Record<byte[], byte[]> record) {
            StoreKind.<TimestampedKeyValueStore<byte[], byte[]>>cast(store)
                .put(record.key(), ValueAndTimestamp.make(record.value(), record.timestamp()));
        }

        @Override
        StoreView<?> view(final TopologyTestDriver driver, final String store) {
            return new StoreView<ValueAndTimestamp<byte[]>>(
                driver.getTimestampedKeyValueStore(store),
                value -> new Held(Bytes.wrap(value.value()), value.timestamp()));
        }
    };

    private static final Serde<byte[]> BYTES = Serdes.ByteArray();

    private final String word;

    StoreKind(final String word) {
        this.word = word;
    }

    abstract StoreBuilder<?> builder(String store);

    /** Writes one record; a null value deletes. */
    abstract void put(StateStore store, Record<byte[], byte[]> record);

    abstract StoreView<?> view(TopologyTestDriver driver, String store);

    /** What a store of this kind holds after a write. */
    Held held(final Bytes value, final long timestamp) {
        return new Held(value, this == KEY_VALUE ? null : (Long) timestamp);
    }

    static StoreKind of(final String word) {
        for (final StoreKind kind : values()) {
            if (kind.word.equals(word)) {
                return kind;
            }
        }
        throw new IllegalArgumentException("unknown kind of store: " + word);
    }

    @SuppressWarnings("unchecked")
    private static <T> T cast(final StateStore store) {
        return (T) store;
    }

    /** A value as a store holds it; the timestamp is null where the kind has none. */
    record Held(Bytes value, Long timestamp) {
        @Override
        public String toString() {
            final String hex = HexFormat.of().formatHex(value.get());
            return "value " + (hex.isEmpty() ? "(empty)" : hex) + (timestamp == null ? "" : " at " + timestamp);
        }
    }
}
