package stateferry.live;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyQueryMetadata;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.query.StateQueryRequest;
import org.apache.kafka.streams.query.StateQueryResult;
import org.apache.kafka.streams.state.QueryableStoreType;
import org.apache.kafka.streams.state.QueryableStoreTypes;

/**
 * A running application with a broker: topics {@code STORE-events} have {@link Event}s as JSON, as many as it is told.
 * It is asked by {@code streams.store}, {@code streams.query} and {@code streams.queryMetadataForKey}, then closed.
 */
final class RunningApplication {
    static final String HOST = "kafka-host:7654";
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration PATIENCE = Duration.ofSeconds(90);

    private final CountDownLatch left;
    private final KafkaStreams streams;

    private RunningApplication(final SortedMap<String, NamedStore> stores, final Properties properties, final int events) {
        left = new CountDownLatch(events);
        streams = new KafkaStreams(LiveTask.topology(stores, RunningApplication::event, left::countDown), properties);
    }

    /** The questions name their store; the answers come in their order. */
    static void ask(final Path appDirectory, final SortedMap<String, NamedStore> stores, final Map<String, String> options)
        throws Exception {
        final Properties properties = LiveTask.properties(appDirectory, false);
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, options.get("--bootstrap"));
        properties.put(StreamsConfig.APPLICATION_SERVER_CONFIG, HOST);
        properties.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        final var running = new RunningApplication(stores, properties, Integer.parseInt(options.get("--count")));
        running.streams.start();
        try (var to = Files.newBufferedWriter(Path.of(options.get("--answers")))) {
            if (!running.left.await(PATIENCE.toSeconds(), TimeUnit.SECONDS)) {
                throw new IllegalStateException("events are missing: " + running.left.getCount());
            }
            for (final String line : Files.readAllLines(Path.of(options.get("--questions")))) {
                to.write(JSON.writeValueAsString(running.answer(JSON.readTree(line))));
                to.newLine();
            }
        } finally {
            running.streams.close(PATIENCE);
        }
    }

    private Map<String, Object> answer(final JsonNode question) {
        final Map<String, Object> answer = new LinkedHashMap<>();
        final String store = question.get("store").textValue();
        final String call = question.get("call").textValue();
        final Answers.Arguments arguments = new Answers.Arguments(question.get("args"));
        try {
            if (call.equals("key_metadata")) {
                answer.put("found", metadata(store, question.get("args").get(0)));
            } else if (call.endsWith("Query")) {
                final StateQueryResult<?> result = streams.query(
                    StateQueryRequest.inStore(store).withQuery(Queries.of(call, arguments)));
                final Map<Integer, Object> partitions = new TreeMap<>();
                result.getPartitionResults().forEach((partition, each) -> partitions.put(partition, written(each)));
                answer.put("partitions", partitions);
                answer.put("position", Answers.offsets(result.getPosition()));
            } else {
                final Object view = view(store, type(question.get("type").textValue()), question.get("partition"));
                answer.put("found", Answers.written(Answers.ask(view, call, arguments)));
            }
        } catch (final RuntimeException error) {
            answer.put("error", error.getClass().getSimpleName());
        }
        return answer;
    }

    private static Map<String, Object> written(final QueryResult<?> result) {
        final Map<String, Object> written = new LinkedHashMap<>();
        Answers.addResult(written, result);
        return written;
    }

    private <T> T view(final String store, final QueryableStoreType<T> type, final JsonNode partition) {
        final StoreQueryParameters<T> wanted = StoreQueryParameters.fromNameAndType(store, type);
        return streams.store(partition.isNull() ? wanted : wanted.withPartition(partition.intValue()));
    }

    /** Of a string, a number, or {"bytes"}; and the partition if there were very many, which tells more of the hash. */
    private List<Object> metadata(final String store, final JsonNode key) {
        return key.isTextual() ? metadata(store, key.textValue(), new StringSerializer())
            : key.isNumber() ? metadata(store, key.longValue(), new LongSerializer())
            : metadata(store, HexFormat.of().parseHex(key.get("bytes").textValue()), new ByteArraySerializer());
    }

    private <K> List<Object> metadata(final String store, final K key, final Serializer<K> serializer) {
        final KeyQueryMetadata found = streams.queryMetadataForKey(store, key, serializer);
        final int ofMany = BuiltInPartitioner.partitionForKey(serializer.serialize(null, key), Integer.MAX_VALUE);
        return List.of(found.partition(), found.activeHost().host() + ":" + found.activeHost().port(), found.standbyHosts().size(), ofMany);
    }

    private static QueryableStoreType<?> type(final String name) {
        return switch (name) {
            case "key_value" -> QueryableStoreTypes.keyValueStore();
            case "timestamped_key_value" -> QueryableStoreTypes.timestampedKeyValueStore();
            case "window" -> QueryableStoreTypes.windowStore();
            case "timestamped_window" -> QueryableStoreTypes.timestampedWindowStore();
            default -> QueryableStoreTypes.sessionStore();
        };
    }

    private static Event event(final Record<byte[], byte[]> record) {
        try {
            return JSON.readValue(record.value(), Event.class);
        } catch (final IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
