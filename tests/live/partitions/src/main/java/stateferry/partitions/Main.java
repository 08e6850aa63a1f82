package stateferry.partitions;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.StateRestoreListener;

/**
 * An application with stores of several kinds in each task. Its one argument says which, as JSON; `find KEYS ANSWERS`
 * asks for each key of a file what the partition holds that its own partitioner names; the rest is as in the
 * application of the changelogs.
 */
public final class Main {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private Main() {
    }

    public static void main(final String[] arguments) throws IOException {
        JsonNode wanted = JSON.readTree(arguments[0]);
        var stores = new ArrayList<Kept>();
        Serde<String> keys = Keys.serde(wanted.get("keys").textValue());
        wanted.get("stores").properties().forEach(
            each -> stores.add(Kept.of(each.getKey(), each.getValue().textValue(), keys)));
        var properties = new Properties();
        wanted.get("streams").properties().forEach(each -> properties.put(each.getKey(), each.getValue().asText()));
        properties.put("internal.leave.group.on.close", "true");  // releases before 4.2; later ones are asked at close
        var streams = new KafkaStreams(topology(wanted.get("input").textValue(), stores, keys), properties);
        streams.setStateListener((now, before) -> tell(event("state").put("state", now.name())));
        streams.setGlobalStateRestoreListener(new Restored());
        streams.setUncaughtExceptionHandler(error -> {
            tell(event("failed").put("error", error + "; " + error.getCause()));
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        obey(streams, stores);
    }

    private static Topology topology(final String input, final List<Kept> stores, final Serde<String> keys) {
        var topology = new Topology()
            .addSource("input", keys.deserializer(), Serdes.String().deserializer(), input)
            .addProcessor("keeper", () -> new Keeper(stores), "input");
        stores.forEach(each -> topology.addStateStore(each.builder(), "keeper"));
        return topology;
    }

    @SuppressWarnings("deprecation")  // its successor is in later releases only
    private static void obey(final KafkaStreams streams, final List<Kept> stores) throws IOException {
        var commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "find" -> {
                    find(streams, stores, Path.of(words[1]), Path.of(words[2]));
                    tell(event("found"));
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

    private static void find(
            final KafkaStreams streams, final List<Kept> stores, final Path keys, final Path answers)
            throws IOException {
        var lines = new ArrayList<String>();
        for (String key : Files.readAllLines(keys)) {
            ObjectNode line = JSON.createObjectNode().put("key", key);
            for (Kept each : stores) {
                int partition = streams.queryMetadataForKey(each.name(), key, each.keys().serializer()).partition();
                line.putPOJO(each.kind(), each.find(streams, partition, key));
            }
            lines.add(JSON.writeValueAsString(line));
        }
        Files.write(answers, lines);
    }

    private static ObjectNode event(final String name) {
        return JSON.createObjectNode().put("event", name);
    }

    private static synchronized void tell(final ObjectNode event) {
        System.out.println(event);
    }

    private static final class Restored implements StateRestoreListener {
        @Override
        public void onRestoreStart(final TopicPartition changelog, final String store, final long start, final long end) {
        }

        @Override
        public void onBatchRestored(final TopicPartition changelog, final String store, final long end, final long count) {
        }

        @Override
        public void onRestoreEnd(final TopicPartition changelog, final String store, final long count) {
            tell(event("restored").put("store", store).put("records", count));
        }
    }
}
