package stateferry.live;

import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
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
import java.util.function.Function;
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
import org.apache.kafka.streams.state.internals.AbstractRocksDBSegmentedBytesStore;
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
    private final SortedMap<String, NamedStore> stores;
    private final Path appDirectory;
    private final int partition;
    private final Map<TopicPartition, Long> nextOffsets;
    private final Map<String, Long> inputOffsets = new HashMap<>();
    private Event sent;

    LiveTask(
        final Path appDirectory,
        final int partition,
        final SortedMap<String, NamedStore> stores,
        final boolean exactlyOnce
    ) throws ReflectiveOperationException {
        this.stores = stores;
        this.partition = partition;
        this.appDirectory = appDirectory;
        field(TaskId.class, "partition").setInt(field(TopologyTestDriver.class, "TASK_ID").get(null), partition);
        driver = new TopologyTestDriver(topology(stores, record -> sent, () -> { }), properties(appDirectory, exactlyOnce));
        task = (StreamTask) field(TopologyTestDriver.class, "task").get(driver);
        lock(driver);
        nextOffsets = Map.copyOf(task.stateManager().changelogOffsets());
        continueOffsets();
    }

    /** Sends one record through the topology, to be applied to the store. */
    void send(final String store, final Event event) {
        final String topic = store + INPUT;
        final byte[] key = event.keyBytes().get();
        final byte[] value = event.valueBytes();
        final long offset = inputOffsets.merge(topic, 1L, Long::sum) - 1;
        final ConsumerRecord<byte[], byte[]> record = new ConsumerRecord<>(
            topic, partition, offset, event.timestamp(), TimestampType.CREATE_TIME, key.length,
            value == null ? ConsumerRecord.NULL_SIZE : value.length, key, value,
            new RecordHeaders(event.headerList()), Optional.empty());
        sent = event;
        task.addRecords(new TopicPartition(topic, 0), List.of(record));
        if (!task.process(System.currentTimeMillis())) {
            throw new IllegalStateException("the task did not process a record of " + topic);
        }
    }

    void commit() {
        driver.advanceWallClockTime(Duration.ofMillis(1));
    }

    /** The records that the store has written to its changelog since the task was started. */
    List<Event> logged(final String store) {
        final String topic = changelog(appDirectory, store, partition).topic();
        if (!driver.producedTopicNames().contains(topic)) {
            return List.of();
        }
        return driver.createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer())
            .readRecordsToList().stream()
            .map(record -> Event.of(record.key(), record.value(), record.timestamp(), record.headers()))
            .toList();
    }

    StateStore store(final String store) {
        return driver.getAllStateStores().get(store);
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
        return Answers.offsets(driver.getAllStateStores().get(store).getPosition());
    }

    /** Whether the store still holds records of its older kind (two column families read as one). */
    boolean inUpgradeMode(final String store) throws ReflectiveOperationException {
        StateStore inner = driver.getAllStateStores().get(store);
        while (inner instanceof WrappedStateStore<?, ?, ?> wrapper) {
            inner = wrapper.wrapped();
        }
        if (inner instanceof RocksDBStore) {
            return isDual(inner);
        }
        if (inner instanceof AbstractRocksDBSegmentedBytesStore<?>) {
            final Method segments = AbstractRocksDBSegmentedBytesStore.class.getDeclaredMethod("getSegments");
            segments.setAccessible(true);
            for (final Object segment : (List<?>) segments.invoke(inner)) {
                if (isDual(segment)) {
                    return true;
                }
            }
        }
        return false;
    }

    private static boolean isDual(final Object database) throws ReflectiveOperationException {
        final String accessor = field(RocksDBStore.class, "cfAccessor").get(database).getClass().getSimpleName();
        return switch (accessor) {
            case "SingleColumnFamilyAccessor" -> false;
            case "DualColumnFamilyAccessor" -> true;
            default -> throw new IllegalStateException("unknown column family accessor: " + accessor);
        };
    }

    /** Takes the lock of the application's directory, as an application does and the driver does not. */
    static void lock(final TopologyTestDriver driver) throws ReflectiveOperationException {
        ((StateDirectory) field(TopologyTestDriver.class, "stateDirectory").get(driver)).initializeProcessId();
    }

    @Override
    public void close() throws ReflectiveOperationException, IOException {
        close(driver, appDirectory);
    }

    /** Closes a task by the driver's own close, which then wipes a directory that does not exist. */
    static void close(final TopologyTestDriver driver, final Path appDirectory)
        throws ReflectiveOperationException, IOException {
        final Field directory = field(TopologyTestDriver.class, "stateDirectory");
        final StateDirectory real = (StateDirectory) directory.get(driver);
        final Path scratch = Files.createTempDirectory("nothing-to-wipe");
        final Properties properties = properties(scratch.resolve("absent").resolve(appDirectory.getFileName()), false);
        directory.set(driver, new StateDirectory(new StreamsConfig(properties), Time.SYSTEM, false, false));
        driver.close();
        real.close();
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

    /** Each store with a topic of its own, whose records are the events that are applied to it. */
    static Topology topology(
        final SortedMap<String, NamedStore> stores,
        final Function<Record<byte[], byte[]>, Event> event,
        final Runnable applied
    ) {
        final Topology topology = new Topology();
        for (final String store : stores.keySet()) {
            topology.addSource(store, new ByteArrayDeserializer(), new ByteArrayDeserializer(), store + INPUT);
        }
        topology.addProcessor("put", () -> new PutProcessor(stores, event, applied), stores.keySet().toArray(String[]::new));
        stores.values().forEach(store -> topology.addStateStore(store.builder(), "put"));
        return topology;
    }

    static Properties properties(final Path appDirectory, final boolean exactlyOnce) {
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

    /** Applies events to the store that their topic is named after. */
    private static final class PutProcessor implements Processor<byte[], byte[], Void, Void> {
        private final SortedMap<String, NamedStore> stores;
        private final Function<Record<byte[], byte[]>, Event> event;
        private final Runnable applied;
        private ProcessorContext<Void, Void> context;

        PutProcessor(
            final SortedMap<String, NamedStore> stores,
            final Function<Record<byte[], byte[]>, Event> event,
            final Runnable applied
        ) {
            this.stores = stores;
            this.event = event;
            this.applied = applied;
        }

        @Override
        public void init(final ProcessorContext<Void, Void> processorContext) {
            context = processorContext;
        }

        @Override
        public void process(final Record<byte[], byte[]> record) {
            final String topic = context.recordMetadata().orElseThrow().topic();
            final String store = topic.substring(0, topic.length() - INPUT.length());
            stores.get(store).kind().applier().apply(context.getStateStore(store), event.apply(record));
            applied.run();
        }
    }
}
