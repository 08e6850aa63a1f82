package stateferry.changelog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.StandbyUpdateListener;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.state.StoreBuilder;

/**
 * An application of one store. Its one argument says which, as JSON; what happens goes to standard output, a line of
 * JSON each; `dump FOLDER`, `counts` and `stop` are read from standard input, whose end is the application's.
 */
public final class Main {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private Main() {
    }

    public static void main(final String[] arguments) throws IOException, InterruptedException {
        JsonNode wanted = JSON.readTree(arguments[0]);
        var orders = new Orders(wanted.get("registry"), wanted.get("schema_id").intValue());
        Topology topology = topology(wanted, orders);
        var properties = new Properties();
        wanted.get("streams").properties().forEach(
            each -> properties.put(each.getKey(), each.getValue().asText()));
        properties.put("internal.leave.group.on.close", "true");  // releases before 4.2; later ones are asked at close
        var streams = new KafkaStreams(topology, properties);
        streams.setStateListener((now, before) -> tell(event("state").put("state", now.name())));
        streams.setGlobalStateRestoreListener(new Restored());
        streams.setStandbyUpdateListener(new Followed());
        streams.setUncaughtExceptionHandler(error -> {
            tell(event("failed").put("error", causes(error)));
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        obey(streams);
    }

    private static Topology topology(final JsonNode wanted, final Orders orders) {
        String input = wanted.get("input").textValue();
        String store = wanted.get("store").textValue();
        String kind = wanted.get("kind").textValue();
        if (kind.equals("suppressed")) {
            return Suppressing.topology(input, store);
        }
        Kind<?> made = Kind.of(kind, store, orders.serde(), wanted.get("retention_ms").longValue());
        return topology(made, orders, input, store, wanted.get("logged").booleanValue());
    }

    private static <S extends StateStore> Topology topology(
            final Kind<S> kind, final Orders orders, final String input, final String store, final boolean logged) {
        StoreBuilder<S> builder = kind.builder();
        return new Topology()
            .addSource("input", Serdes.String().deserializer(), Serdes.ByteArray().deserializer(), input)
            .addProcessor("collector", () -> new Collector<>(orders, kind, store), "input")
            .addStateStore(logged ? builder : builder.withLoggingDisabled(), "collector");
    }

    @SuppressWarnings("deprecation")  // its successor is in later releases only
    private static void obey(final KafkaStreams streams) throws IOException, InterruptedException {
        var commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ", 2);
            switch (words[0]) {
                case "counts" -> tell(event("counts")
                    .put("processed", Collector.PROCESSED.get()).put("active", Collector.ACTIVE.size()));
                case "dump" -> {
                    Path folder = Path.of(words[1]);
                    Collector.ACTIVE.forEach(each -> each.dumpInto(folder));
                    while (!Collector.ACTIVE.stream().allMatch(Collector::hasDumped)) {
                        Thread.sleep(10);
                    }
                    tell(event("dumped"));
                }
                case "stop" -> {
                    boolean closed = streams.close(new KafkaStreams.CloseOptions().leaveGroup(true).timeout(PATIENCE));
                    tell(event("stopped").put("clean", closed));
                    return;
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
        Runtime.getRuntime().halt(1);
    }

    private static ObjectNode event(final String name) {
        return JSON.createObjectNode().put("event", name);
    }

    private static synchronized void tell(final ObjectNode event) {
        System.out.println(event);
    }

    private static String causes(final Throwable error) {
        return error + (error.getCause() == null ? "" : "; " + causes(error.getCause()));
    }

    /** What an active task restores. */
    private static final class Restored implements StateRestoreListener {
        private final Map<TopicPartition, Long> since = new ConcurrentHashMap<>();

        @Override
        public void onRestoreStart(final TopicPartition changelog, final String store, final long start, final long end) {
            since.put(changelog, System.currentTimeMillis());
        }

        @Override
        public void onBatchRestored(final TopicPartition changelog, final String store, final long end, final long count) {
        }

        @Override
        public void onRestoreEnd(final TopicPartition changelog, final String store, final long count) {
            tell(event("restored").put("store", store).put("records", count)
                .put("since_ms", since.get(changelog)).put("at_ms", System.currentTimeMillis()));
        }
    }

    /** What a standby task loads. */
    private static final class Followed implements StandbyUpdateListener {
        @Override
        public void onUpdateStart(final TopicPartition changelog, final String store, final long start) {
        }

        @Override
        public void onBatchLoaded(final TopicPartition changelog, final String store, final TaskId task,
                final long lastOffset, final long count, final long end) {
            tell(event("loaded").put("store", store).put("records", count));
        }

        @Override
        public void onUpdateSuspended(final TopicPartition changelog, final String store, final long offset,
                final long end, final SuspendReason reason) {
        }
    }
}
