package stateferry.partitions;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.query.MultiVersionedKeyQuery;
import org.apache.kafka.streams.query.StateQueryRequest;
import org.apache.kafka.streams.state.QueryableStoreType;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.TimestampedWindowStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedKeyValueStore;

/** A store: how it is made, written to, and asked for a key in one partition. */
interface Kept {
    Duration RETENTION = Duration.ofHours(2);
    Duration MINUTE = Duration.ofMinutes(1);

    String kind();

    String name();

    Serde<String> keys();

    StoreBuilder<? extends StateStore> builder();

    void put(StateStore store, String key, String value, long timestamp);

    /** What there is of the key, each part of it as text. */
    List<String> find(KafkaStreams streams, int partition, String key);

    static Kept of(final String kind, final String name, final Serde<String> keys) {
        return switch (kind) {
            case "timestamped-key-value" -> new Latest(kind, name, keys);
            case "timestamped-window" -> new ByMinute(kind, name, keys);
            case "session" -> new Sessions(kind, name, keys);
            case "versioned" -> new Versions(kind, name, keys);
            default -> throw new IllegalArgumentException(kind);
        };
    }

    static <T> T store(
            final KafkaStreams streams, final String name, final QueryableStoreType<T> type, final int partition) {
        return streams.store(StoreQueryParameters.fromNameAndType(name, type).withPartition(partition));
    }

    static ValueAndTimestamp<String> after(
            final ValueAndTimestamp<String> before, final String value, final long timestamp) {
        return ValueAndTimestamp.make(before == null ? value : before.value() + "," + value, timestamp);
    }

    record Latest(String kind, String name, Serde<String> keys) implements Kept {
        @Override
        public StoreBuilder<? extends StateStore> builder() {
            return Stores.timestampedKeyValueStoreBuilder(
                Stores.persistentTimestampedKeyValueStore(name), keys, Serdes.String());
        }

        @Override
        @SuppressWarnings("unchecked")
        public void put(final StateStore store, final String key, final String value, final long timestamp) {
            var mine = (TimestampedKeyValueStore<String, String>) store;
            mine.put(key, after(mine.get(key), value, timestamp));
        }

        @Override
        public List<String> find(final KafkaStreams streams, final int partition, final String key) {
            var type = QueryableStoreTypes.<String, String>timestampedKeyValueStore();
            ValueAndTimestamp<String> found = store(streams, name, type, partition).get(key);
            return found == null ? List.of() : List.of(found.toString());
        }
    }

    record ByMinute(String kind, String name, Serde<String> keys) implements Kept {
        @Override
        public StoreBuilder<? extends StateStore> builder() {
            return Stores.timestampedWindowStoreBuilder(
                Stores.persistentTimestampedWindowStore(name, RETENTION, MINUTE, false),
                keys, Serdes.String());
        }

        @Override
        @SuppressWarnings("unchecked")
        public void put(final StateStore store, final String key, final String value, final long timestamp) {
            var mine = (TimestampedWindowStore<String, String>) store;
            long start = timestamp - timestamp % MINUTE.toMillis();
            mine.put(key, after(mine.fetch(key, start), value, timestamp), start);
        }

        @Override
        public List<String> find(final KafkaStreams streams, final int partition, final String key) {
            var type = QueryableStoreTypes.<String, String>timestampedWindowStore();
            var found = new ArrayList<String>();
            try (var rows = store(streams, name, type, partition).fetch(key, Instant.EPOCH, Instant.now())) {
                rows.forEachRemaining(row -> found.add(row.key + "=" + row.value));
            }
            return found;
        }
    }

    record Sessions(String kind, String name, Serde<String> keys) implements Kept {
        @Override
        public StoreBuilder<? extends StateStore> builder() {
            return Stores.sessionStoreBuilder(
                Stores.persistentSessionStore(name, RETENTION), keys, Serdes.String());
        }

        @Override
        @SuppressWarnings("unchecked")
        public void put(final StateStore store, final String key, final String value, final long timestamp) {
            var session = new SessionWindow(timestamp, timestamp + 1000);
            ((SessionStore<String, String>) store).put(new Windowed<>(key, session), value);
        }

        @Override
        public List<String> find(final KafkaStreams streams, final int partition, final String key) {
            var type = QueryableStoreTypes.<String, String>sessionStore();
            var found = new ArrayList<String>();
            try (var rows = store(streams, name, type, partition).fetch(key)) {
                rows.forEachRemaining(row -> found.add(row.key.window().start() + "=" + row.value));
            }
            return found;
        }
    }

    record Versions(String kind, String name, Serde<String> keys) implements Kept {
        @Override
        public StoreBuilder<? extends StateStore> builder() {
            return Stores.versionedKeyValueStoreBuilder(
                Stores.persistentVersionedKeyValueStore(name, RETENTION), keys, Serdes.String());
        }

        @Override
        @SuppressWarnings("unchecked")
        public void put(final StateStore store, final String key, final String value, final long timestamp) {
            ((VersionedKeyValueStore<String, String>) store).put(key, value, timestamp);
        }

        @Override
        public List<String> find(final KafkaStreams streams, final int partition, final String key) {
            var request = StateQueryRequest.inStore(name)
                .withQuery(MultiVersionedKeyQuery.<String, String>withKey(key)).withPartitions(Set.of(partition));
            var answer = streams.query(request).getPartitionResults().get(partition);
            var found = new ArrayList<String>();
            try (var rows = answer.getResult()) {
                rows.forEachRemaining(row -> found.add(row.timestamp() + "=" + row.value()));
            }
            return found;
        }
    }
}
