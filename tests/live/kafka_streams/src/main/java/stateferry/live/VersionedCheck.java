package stateferry.live;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;

/**
 * The model of a versioned store: every version of every key, by the time from which it is valid.
 *
 * <p>After a restart Kafka Streams does not show old versions until something was written into each of the store's
 * segments, hence the registration.
 */
final class VersionedCheck extends StoreCheck {
    private final long retention;
    private final long interval;
    private final NavigableMap<Bytes, NavigableMap<Long, Optional<Bytes>>> model = new TreeMap<>();
    private long streamTime = -1;
    private int openings;

    VersionedCheck(final long retention) {
        this.retention = retention;
        this.interval = interval(retention);
    }

    /** The interval that Stores.persistentVersionedKeyValueStore chooses. */
    private static long interval(final long retention) {
        if (retention <= 60_000) {
            return Math.max(retention / 3, 2_000);
        }
        if (retention <= 300_000) {
            return Math.max(retention / 5, 20_000);
        }
        return retention <= 3_600_000 ? Math.max(retention / 12, 60_000) : Math.max(retention / 24, 300_000);
    }

    static void apply(final StateStore stateStore, final Event event) {
        final VersionedKeyValueStore<byte[], byte[]> store = StoreKind.cast(stateStore);
        if (event.read()) {
            store.get(event.keyBytes().get());
        } else {
            store.put(event.keyBytes().get(), event.valueBytes(), event.timestamp());
        }
    }

    @Override
    void expect(final Event row) {
        version(row);
    }

    @Override
    void apply(final Event event) {
        if (event.timestamp() >= streamTime - retention) {
            streamTime = Math.max(streamTime, event.timestamp());
            version(event);
        }
    }

    private void version(final Event event) {
        model.computeIfAbsent(event.keyBytes(), key -> new TreeMap<>())
            .put(event.timestamp(), Optional.ofNullable(event.valueBytes()).map(Bytes::wrap));
    }

    /** Kafka Streams 4.3.1 forgets it. */
    @Override
    boolean keepsPosition() {
        return !AppInfoParser.getVersion().startsWith("4.3.");
    }

    @Override
    void reopened() {
        streamTime = -1;
        openings++;
    }

    /** All versions, deletions not counted. */
    @Override
    int records() {
        return (int) model.values().stream().flatMap(versions -> versions.values().stream())
            .filter(Optional::isPresent).count();
    }

    @Override
    Optional<String> firstDifferenceAtOpen(final StateStore stateStore) {
        final VersionedKeyValueStore<byte[], byte[]> store = StoreKind.cast(stateStore);
        for (final Bytes key : model.keySet()) {
            final Optional<String> difference = compareLatest(store, key);
            if (difference.isPresent()) {
                return difference;
            }
        }
        return Optional.empty();
    }

    @Override
    Optional<String> firstDifference(final StateStore stateStore) {
        final VersionedKeyValueStore<byte[], byte[]> store = StoreKind.cast(stateStore);
        for (final Bytes key : model.keySet()) {
            final Optional<String> difference = compareLatest(store, key).or(() -> compareHistory(store, key));
            if (difference.isPresent()) {
                return difference;
            }
        }
        return Optional.empty();
    }

    private Optional<String> compareLatest(final VersionedKeyValueStore<byte[], byte[]> store, final Bytes key) {
        final Map.Entry<Long, Optional<Bytes>> last = model.get(key).lastEntry();
        final Bytes stray = successor(key);
        return comparePoint("get(key)", new Slot(key, null, null), held(last), held(store.get(key.get())))
            .or(() -> model.containsKey(stray) ? Optional.empty()
                : comparePoint("get(key)", new Slot(stray, null, null), null, held(store.get(stray.get()))));
    }

    /** At, just before and just after the start of each version. */
    private Optional<String> compareHistory(final VersionedKeyValueStore<byte[], byte[]> store, final Bytes key) {
        for (final long start : model.get(key).keySet()) {
            for (final long time : new long[] {start - 1, start, start + 1}) {
                final Optional<String> difference = comparePoint("get(key, time)", new Slot(key, time, null),
                    asOf(key, time), held(store.get(key.get(), time)));
                if (difference.isPresent()) {
                    return difference;
                }
            }
        }
        return Optional.empty();
    }

    private Held asOf(final Bytes key, final long time) {
        final NavigableMap<Long, Optional<Bytes>> versions = model.get(key);
        final Map.Entry<Long, Optional<Bytes>> version = versions.floorEntry(time);
        final boolean latest = version != null && version.getKey().equals(versions.lastKey());
        return time < streamTime - retention && !latest ? null : held(version);
    }

    private static Held held(final Map.Entry<Long, Optional<Bytes>> version) {
        return version == null ? null : version.getValue().map(value -> new Held(value, version.getKey(), null))
            .orElse(null);
    }

    private static Held held(final VersionedRecord<byte[]> record) {
        return record == null ? null : new Held(Bytes.wrap(record.value()), record.timestamp(), null);
    }

    /** A version of one key ends in every segment in which any version does; the stream time gets to be as it was. */
    @Override
    List<Event> registration() {
        final SortedMap<Long, Long> newest = new TreeMap<>();
        model.values().forEach(versions ->
            versions.keySet().forEach(time -> newest.merge(time / interval, time, Math::max)));
        final List<Event> writes = new ArrayList<>();
        if (!newest.isEmpty()) {
            final Bytes key = key("registration " + openings);
            writes.add(write(key, bytes("before"), newest.firstKey() * interval - 1));
            newest.forEach((id, time) -> writes.add(write(key, bytes("segment " + id), time)));
        }
        return writes;
    }

    @Override
    List<Event> furtherWrites() {
        final List<Event> writes = new ArrayList<>();
        final List<Bytes> old = new ArrayList<>(model.keySet());
        final long now = 1_000 + model.values().stream().mapToLong(NavigableMap::lastKey).max()
            .orElse(1_700_000_000_000L);
        for (final Bytes key : newKeys()) {
            writes.add(write(key, bytes("new " + writes.size()), now + writes.size()));
        }
        if (!old.isEmpty()) {
            for (final int at : new int[] {0, old.size() / 2, old.size() - 1}) {
                final long before = Math.max(now - retention + interval, model.get(old.get(at)).lastKey() - 3);
                writes.add(write(old.get(at), bytes("before the latest"), before));
                writes.add(write(old.get(at), bytes("overwritten " + at), now + at));
            }
            writes.add(write(old.get(old.size() / 3), new byte[0], now));
            writes.add(write(old.get(old.size() / 4), null, now));
            writes.add(write(old.get(old.size() - 1 - old.size() / 4), null, now + 1));
        }
        writes.add(write(key("written"), null, now + interval));
        writes.add(write(key("never there"), null, now));
        return writes;
    }

    private static Event write(final Bytes key, final byte[] value, final long timestamp) {
        return Event.write(key, value, timestamp, List.of());
    }
}
