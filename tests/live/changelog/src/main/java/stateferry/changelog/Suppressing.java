package stateferry.changelog;

import java.time.Duration;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.WindowStore;

/** The last value of each window, which waits in the buffer of suppress() until the window closes. */
final class Suppressing {
    static final String BUFFER = "last";

    private Suppressing() {
    }

    static Topology topology(final String input, final String store) {
        var builder = new StreamsBuilder();
        builder.stream(input, Consumed.with(Serdes.String(), Serdes.ByteArray()))
            .groupByKey()
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(10), Duration.ofHours(1)))
            .reduce((before, now) -> now, Materialized.<String, byte[], WindowStore<Bytes, byte[]>>as(store)
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.ByteArray()))
            .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()).withName(BUFFER))
            .toStream()
            .foreach((window, value) -> { });
        return builder.build();
    }
}
