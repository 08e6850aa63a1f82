package stateferry.live;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.SortedMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/** Times Kafka Streams' own upgrade of a store, which moves a record when its key is read. For benchmarks. */
final class LazyUpgrade {
    private static final OperatingSystemMXBean SYSTEM =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private LazyUpgrade() {
    }

    /** Reads each of so many keys once, in random order, and closes the store; returns seconds as JSON. */
    static String measure(final Path appDirectory, final SortedMap<String, NamedStore> stores, final int count)
        throws Exception {
        final List<byte[]> keys = IntStream.range(0, count)
            .mapToObj(number -> String.format("k%016d", number).getBytes(StandardCharsets.US_ASCII))
            .collect(Collectors.toList());
        Collections.shuffle(keys, new Random(1));
        final long wall = System.nanoTime();
        final long cpu = SYSTEM.getProcessCpuTime();
        try (LiveTask task = new LiveTask(appDirectory, 0, stores, false)) {
            if (!task.inUpgradeMode(stores.firstKey())) {
                throw new IllegalStateException("the store is not in upgrade mode");
            }
            final ReadOnlyKeyValueStore<byte[], ?> store = StoreKind.cast(task.store(stores.firstKey()));
            for (final byte[] key : keys) {
                if (store.get(key) == null) {
                    throw new IllegalStateException("no record of " + new String(key, StandardCharsets.US_ASCII));
                }
            }
        }
        return String.format("{\"wall\": %.6f, \"cpu\": %.6f}",
            (System.nanoTime() - wall) / 1e9, (SYSTEM.getProcessCpuTime() - cpu) / 1e9);
    }
}
