package stateferry.live;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.test.TestRecord;

/** Makes the stores of a few operators of the DSL in task 0_0: those that no store of the public API is like. */
final class DslState {
    private static final Serde<String> TEXT = Serdes.String();
    private static final Duration SIZE = Duration.ofMinutes(1);
    private static final Duration GRACE = Duration.ofMinutes(10);
    private static final Instant START = Instant.ofEpochMilli(1_700_000_000_000L);
    private static final int RECORDS = 60;

    private DslState() {
    }

    static void make(final Path appDirectory, final String topology, final String store, final String format)
        throws Exception {
        final Properties properties = LiveTask.properties(appDirectory, false);
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, TEXT.getClass());
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, TEXT.getClass());
        if (format != null) {
            properties.put("dsl.store.format", format);
        }
        final TopologyTestDriver driver = new TopologyTestDriver(topology(topology, store), properties, START);
        LiveTask.lock(driver);
        final List<TestInputTopic<String, String>> inputs = List.of(
            driver.createInputTopic("left", new StringSerializer(), new StringSerializer()),
            driver.createInputTopic("right", new StringSerializer(), new StringSerializer()));
        for (int number = 0; number < RECORDS; number++) {
            final RecordHeaders headers = new RecordHeaders();
            if (number % 2 == 0) {
                headers.add(new RecordHeader("h", Integer.toString(number).getBytes(StandardCharsets.UTF_8)));
            }
            // The right side lacks every third key, and the table's values are keys of the right side.
            final TestRecord<String, String> record = new TestRecord<>(
                "k" + number % 20, "k" + number % 7, headers, START.plusSeconds(20L * number));
            inputs.get(0).pipeInput(record);
            if (number % 3 != 0 && !topology.startsWith("emit-final")) {
                inputs.get(1).pipeInput(record);
            }
        }
        driver.advanceWallClockTime(Duration.ofSeconds(1));
        LiveTask.close(driver, appDirectory);
    }

    private static Topology topology(final String name, final String store) {
        final StreamsBuilder builder = new StreamsBuilder();
        final Consumed<String, String> consumed = Consumed.with(TEXT, TEXT);
        switch (name) {
            case "outer-join" -> {
                final KStream<String, String> right = builder.stream("right", consumed);
                builder.stream("left", consumed).outerJoin(right, (one, other) -> one + other,
                    JoinWindows.ofTimeDifferenceAndGrace(SIZE, GRACE),
                    StreamJoined.with(TEXT, TEXT, TEXT).withName(store).withStoreName(store));
            }
            case "foreign-key" -> builder.table("left", consumed).join(
                builder.table("right", consumed), value -> value, (one, other) -> one + other,
                TableJoined.as(store), Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as(store + "-result"));
            default -> emitFinal(name, builder.stream("left", consumed).groupByKey(Grouped.with(TEXT, TEXT)), store);
        }
        return builder.build();
    }

    private static void emitFinal(final String name, final KGroupedStream<String, String> grouped, final String store) {
        final Materialized<String, Long, WindowStore<Bytes, byte[]>> windows = Materialized.as(store);
        switch (name) {
            case "emit-final-window" -> grouped.windowedBy(TimeWindows.ofSizeAndGrace(SIZE, GRACE))
                .emitStrategy(EmitStrategy.onWindowClose()).count(windows);
            case "emit-final-sliding-window" -> grouped
                .windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(SIZE, GRACE))
                .emitStrategy(EmitStrategy.onWindowClose()).count(windows);
            case "emit-final-session" -> grouped.windowedBy(SessionWindows.ofInactivityGapAndGrace(SIZE, GRACE))
                .emitStrategy(EmitStrategy.onWindowClose())
                .count(Materialized.<String, Long, SessionStore<Bytes, byte[]>>as(store));
            default -> throw new IllegalArgumentException("unknown topology: " + name);
        }
    }
}
