package stateferry.live;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.ReadOnlySessionStore;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.VersionedRecordIterator;

/**
 * What an open store answers to questions: {"call", "args", "bound"}.
 *
 * <p>A call is a method of the store, or, named after its class, a query with a bound: "unbounded", "at" the store's
 * position or "beyond" it. Of arguments and answers, bytes are hexadecimal digits; an answer of many records is a list.
 */
record Answers(StateStore store) {
    /** The arguments of a question. */
    record Arguments(JsonNode all) {
        byte[] key(final int at) {
            return all.get(at).isNull() ? null : HexFormat.of().parseHex(all.get(at).textValue());
        }

        long time(final int at) {
            return all.get(at).longValue();
        }

        /** Null if there is none. */
        Instant instant(final int at) {
            return all.get(at).isNull() ? null : Instant.ofEpochMilli(time(at));
        }

        int count() {
            return all.size();
        }

        String order() {
            return all.get(count() - 1).textValue();
        }
    }

    Map<String, Object> answer(final JsonNode question) {
        final Map<String, Object> answer = new LinkedHashMap<>();
        final String call = question.get("call").textValue();
        final Arguments arguments = new Arguments(question.get("args"));
        try {
            if (call.endsWith("Query")) {
                addResult(answer, store.query(
                    Queries.of(call, arguments), bound(question.get("bound").textValue()), new QueryConfig(false)));
            } else {
                answer.put("found", written(ask(store, call, arguments)));
            }
        } catch (final RuntimeException error) {
            answer.put("error", error.getClass().getSimpleName());
        }
        return answer;
    }

    static void addResult(final Map<String, Object> answer, final QueryResult<?> result) {
        if (result.isFailure()) {
            answer.put("failure", result.getFailureReason().name());
        } else {
            answer.put("found", written(result.getResult()));
            answer.put("position", offsets(result.getPosition()));
        }
    }

    private PositionBound bound(final String word) {
        final Position position = store.getPosition().copy();
        return switch (word) {
            case "unbounded" -> PositionBound.unbounded();
            case "at" -> PositionBound.at(position);
            default -> {
                final Position beyond = Position.emptyPosition();
                position.getTopics().forEach(topic -> position.getPartitionPositions(topic)
                    .forEach((partition, offset) -> beyond.withComponent(topic, partition, offset + 1)));
                yield PositionBound.at(beyond);
            }
        };
    }

    static Map<String, Long> offsets(final Position position) {
        final Map<String, Long> offsets = new TreeMap<>();
        position.getTopics().forEach(topic -> position.getPartitionPositions(topic)
            .forEach((number, offset) -> offsets.put(topic + "-" + number, offset)));
        return offsets;
    }

    /** Asks a store, or a view of its partitions. */
    static Object ask(final Object store, final String call, final Arguments of) {
        if (store instanceof ReadOnlyWindowStore) {
            return askWindows(StoreKind.cast(store), call, of);
        }
        if (store instanceof ReadOnlySessionStore) {
            return askSessions(StoreKind.cast(store), call, of);
        }
        if (store instanceof VersionedKeyValueStore) {
            final VersionedKeyValueStore<byte[], Object> versioned = StoreKind.cast(store);
            return of.count() == 1 ? versioned.get(of.key(0)) : versioned.get(of.key(0), of.time(1));
        }
        return askKeys(StoreKind.cast(store), call, of);
    }

    private static Object askKeys(final ReadOnlyKeyValueStore<byte[], ?> keyValue, final String call, final Arguments of) {
        return switch (call) {
            case "get" -> keyValue.get(of.key(0));
            case "range" -> keyValue.range(of.key(0), of.key(1));
            case "reverse_range" -> keyValue.reverseRange(of.key(0), of.key(1));
            case "prefix_scan" -> keyValue.prefixScan(of.key(0), new ByteArraySerializer());
            case "all" -> keyValue.all();
            case "reverse_all" -> keyValue.reverseAll();
            default -> throw new IllegalStateException(call);
        };
    }

    private static Object askWindows(final ReadOnlyWindowStore<byte[], ?> windows, final String call, final Arguments of) {
        return switch (call) {
            case "fetch" -> of.count() == 2 ? windows.fetch(of.key(0), of.time(1))
                : windows.fetch(of.key(0), of.instant(1), of.instant(2));
            case "backward_fetch" -> windows.backwardFetch(of.key(0), of.instant(1), of.instant(2));
            case "fetch_keys" -> windows.fetch(of.key(0), of.key(1), of.instant(2), of.instant(3));
            case "backward_fetch_keys" -> windows.backwardFetch(of.key(0), of.key(1), of.instant(2), of.instant(3));
            case "fetch_all" -> windows.fetchAll(of.instant(0), of.instant(1));
            case "backward_fetch_all" -> windows.backwardFetchAll(of.instant(0), of.instant(1));
            case "all" -> windows.all();
            case "backward_all" -> windows.backwardAll();
            default -> throw new IllegalStateException(call);
        };
    }

    private static Object askSessions(final ReadOnlySessionStore<byte[], ?> sessions, final String call, final Arguments of) {
        final boolean ofOneKey = of.count() % 2 == 1;
        return switch (call) {
            case "fetch" -> ofOneKey ? sessions.fetch(of.key(0)) : sessions.fetch(of.key(0), of.key(1));
            case "backward_fetch" -> ofOneKey ? sessions.backwardFetch(of.key(0))
                : sessions.backwardFetch(of.key(0), of.key(1));
            case "fetch_session" -> sessions.fetchSession(of.key(0), of.time(1), of.time(2));
            case "find_sessions" -> ofOneKey ? sessions.findSessions(of.key(0), of.time(1), of.time(2))
                : sessions.findSessions(of.key(0), of.key(1), of.time(2), of.time(3));
            case "backward_find_sessions" -> ofOneKey
                ? sessions.backwardFindSessions(of.key(0), of.time(1), of.time(2))
                : sessions.backwardFindSessions(of.key(0), of.key(1), of.time(2), of.time(3));
            default -> throw new IllegalStateException(call);
        };
    }

    /** As it goes into JSON; iterators are closed. */
    static Object written(final Object found) {
        if (found instanceof byte[] bytes) {
            return HexFormat.of().formatHex(bytes);
        } else if (found instanceof KeyValueIterator<?, ?> rows) {
            try (rows) {
                return rows(rows);
            }
        } else if (found instanceof VersionedRecordIterator<?> versions) {
            try (versions) {
                return rows(versions);
            }
        } else if (found instanceof KeyValue<?, ?> row) {
            return Arrays.asList(written(row.key), written(row.value));
        } else if (found instanceof Windowed<?> key) {
            return List.of(written(key.key()), key.window().start(), key.window().end());
        } else if (found instanceof ValueAndTimestamp<?> value) {
            return List.of(written(value.value()), value.timestamp());
        } else if (found instanceof VersionedRecord<?> version) {
            return Arrays.asList(written(version.value()), version.timestamp(), version.validTo().orElse(null));
        }
        return found == null || found instanceof Long ? found : StoreKind.newer("written", Object.class, found);
    }

    private static List<Object> rows(final Iterator<?> rows) {
        final List<Object> all = new ArrayList<>();
        rows.forEachRemaining(row -> all.add(written(row)));
        return all;
    }
}
