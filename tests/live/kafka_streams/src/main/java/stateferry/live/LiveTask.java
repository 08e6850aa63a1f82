package stateferry.live;

import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.internals.StateDirectory;
import org.apache.kafka.streams.processor.internals.StreamTask;
import org.apache.kafka.streams.state.internals.RocksDBStore;
import org.apache.kafka.streams.state.internals.WrappedStateStore;

/**
 * One task of an application, run by TopologyTestDriver in the application's own state directory.
 *
 * <p>The driver knows only task 0_0, forgets offsets between runs, and wipes the state directory when closed. This
 * class gives it another partition, the offsets found on disk, and something harmless to wipe; the task itself is
 * started, committed and closed by Kafka Streams' own code, so what lies on disk is what a clean shutdown leaves.
 */
final class LiveTask implements AutoCloseable {
    private static final String INPUT = "-events";

    private final TopologyTestDriver driver;
    private final StreamTask task;
    private final StateDirectory directory;
    private final SortedMap<String, StoreKind> stores;
    private final Path appDirectory;
    private final int partition;
    private final Map<TopicPartition, Long> nextOffsets;
    private final Map<String, Long> inputOffsets = new HashMap<>();

    LiveTask(
        final Path appDirectory,
        final int partition,
        final SortedMap<String, StoreKind> stores,
        final boolean exactlyOnce
    ) throws ReflectiveOperationException {
        this.stores = stores;
        this.partition = partition;
        this.appDirectory = appDirectory;
        field(TaskId.class, "partition").setInt(field(TopologyTestDriver.class, "TASK_ID").get(null), partition);
        driver = new TopologyTestDriver(topology(stores), properties(appDirectory, exactlyOnce));
        task = (StreamTask) field(TopologyTestDriver.class, "task").get(driver);
        directory = (StateDirectory) field(TopologyTestDriver.class, "stateDirectory").get(driver);
        directory.initializeProcessId();
        nextOffsets = Map.copyOf(task.stateManager().changelogOffsets());
        continueOffsets();
    }

    /** Sends one record through the topology, to be put into the store; a null value deletes. */
    void send(final String store, final byte[] key, final byte[] value, final long timestamp) {
        final String topic = store + INPUT;
        final long offset = inputOffsets.merge(topic, 1L, Long::sum) - 1;
        final ConsumerRecord<byte[], byte[]> record = new ConsumerRecord<>(
            topic, partition, offset, timestamp, TimestampType.CREATE_TIME, key.length,
            value == null ? ConsumerRecord.NULL_SIZE : value.length, key, value, new RecordHeaders(), Optional.empty());
        task.addRecords(new TopicPartition(topic, 0), List.of(record));
        if (!task.process(System.currentTimeMillis())) {
            throw new IllegalStateException("the task did not process a record of " + topic);
        }
    }

    void commit() {
        driver.advanceWallClockTime(Duration.ofMillis(1));
    }

    StoreView<?> view(final String store) {
        return stores.get(store).view(driver, store);
    }

    static TopicPartition changelog(final Path appDirectory, final String store, final int partition) {
        return new TopicPartition(appDirectory.getFileName() + "-" + store + "-changelog", partition);
    }

    /** The offset from which Kafka Streams would restore the store, as found when the task started; 0 if unknown. */
    long nextOffset(final String store) {
        return nextOffsets.get(changelog(appDirectory, store, partition));
    }

    /** How far the store says it has read its input, by "topic-partition". */
    Map<String, Long> position(final String store) {
        final Map<String, Long> offsets = new TreeMap<>();
        final var position = driver.getAllStateStores().get(store).getPosition();
        position.getTopics().forEach(topic -> position.getPartitionPositions(topic)
            .forEach((number, offset) -> offsets.put(topic + "-" + number, offset)));
        return offsets;
    }

    /** Whether the store still holds records of its older kind (two column families read as one). */
    boolean inUpgradeMode(final String store) throws ReflectiveOperationException {
        StateStore inner = driver.getAllStateStores().get(store);
        while (inner instanceof WrappedStateStore<?, ?, ?> wrapper) {
            inner = wrapper.wrapped();
        }
        final String accessor = field(RocksDBStore.class, "cfAccessor").get(inner).getClass().getSimpleName();
        return switch (accessor) {
            case "SingleColumnFamilyAccessor" -> false;
            case "DualColumnFamilyAccessor" -> true;
            default -> throw new IllegalStateException("unknown column family accessor: " + accessor);
        };
    }

    /** Closes the task by the driver's own close, which then wipes a directory that does not exist. */
    @Override
    public void close() throws ReflectiveOperationException, IOException {
        final Path scratch = Files.createTempDirectory("nothing-to-wipe");
        final Properties properties = properties(scratch.resolve("absent").resolve(appDirectory.getFileName()), false);
        final StateDirectory absent = new StateDirectory(new StreamsConfig(properties), Time.SYSTEM, false, false);
        field(TopologyTestDriver.class, "stateDirectory").set(driver, absent);
        driver.close();
        directory.close();
        Files.delete(scratch);
    }

    /** Lets the mocked producer know all partitions of the changelogs, and go on where they ended. */
    private void continueOffsets() throws ReflectiveOperationException {
        final Object producer = field(TopologyTestDriver.class, "producer").get(driver);
        final List<PartitionInfo> partitions = new ArrayList<>();
        for (final String store : stores.keySet()) {
            final String topic = changelog(appDirectory, store, partition).topic();
            for (int number = 0; number <= partition; number++) {
                partitions.add(new PartitionInfo(topic, number, null, null, null));
            }
            position(store).forEach((topicPartition, offset) -> {
                if (topicPartition.equals(store + INPUT + "-" + partition)) {
                    inputOffsets.put(store + INPUT, offset + 1);
                }
            });
        }
        final Cluster cluster = new Cluster("mocked", List.<Node>of(), partitions, Set.of(), Set.of());
        field(MockProducer.class, "cluster").set(producer, cluster);
        @SuppressWarnings("unchecked")
        final var produced = (Map<TopicPartition, Long>) field(MockProducer.class, "offsets").get(producer);
        produced.putAll(nextOffsets);
    }

    private static Topology topology(final SortedMap<String, StoreKind> stores) {
        final Topology topology = new Topology();
        for (final String store : stores.keySet()) {
            topology.addSource(store, new ByteArrayDeserializer(), new ByteArrayDeserializer(), store + INPUT);
        }
        topology.addProcessor("put", () -> new PutProcessor(stores), stores.keySet().toArray(String[]::new));
        stores.forEach((store, kind) -> topology.addStateStore(kind.builder(store), "put"));
        return topology;
    }

    private static Properties properties(final Path appDirectory, final boolean exactlyOnce) {
        final Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, appDirectory.getFileName().toString());
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:0");
        properties.put(StreamsConfig.STATE_DIR_CONFIG, appDirectory.getParent().toString());
        properties.put(StreamsConfig.MAX_TASK_IDLE_MS_CONFIG, -1L);
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG,
            exactlyOnce ? StreamsConfig.EXACTLY_ONCE_V2 : StreamsConfig.AT_LEAST_ONCE);
        return properties;
    }

    private static Field field(final Class<?> owner, final String name) throws NoSuchFieldException {
        final Field field = owner.getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }

    /** Puts each record into the store its topic is named after. */
    private static final class PutProcessor implements Processor<byte[], byte[], Void, Void> {
        private final Map<String, StoreKind> kinds;
        private ProcessorContext<Void, Void> context;

        PutProcessor(final Map<String, StoreKind> kinds) {
            this.kinds = kinds;
        }

        @Override
        public void init(final ProcessorContext<Void, Void> processorContext) {
            context = processorContext;
        }

        @Override
        public void process(final Record<byte[], byte[]> record) {
            final String topic = context.recordMetadata().orElseThrow().topic();
            final String store = topic.substring(0, topic.length() - INPUT.length());
            kinds.get(store).put(context.getStateStore(store), record);
        }
    }
}
