package stateferry.live;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.state.internals.OffsetCheckpoint;
import org.rocksdb.ColumnFamilyDescriptor;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.DBOptions;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;

/** Where a task directory says a store's changelog was read up to, before Kafka Streams opens it. */
record DiskOffsets(String source, Long offset) {
    private static final String FAMILY = "offsets";

    /** A checkpoint file goes before the "offsets" column family of newer stores, as in Kafka Streams itself. */
    static DiskOffsets of(final Path taskDirectory, final String store, final TopicPartition changelog)
        throws IOException, RocksDBException {
        final OffsetCheckpoint checkpoint = new OffsetCheckpoint(taskDirectory.resolve(".checkpoint").toFile());
        final Long checkpointed = checkpoint.read().get(changelog);
        if (checkpointed != null) {
            return new DiskOffsets("checkpoint", checkpointed);
        }
        Long committed = null;
        for (final Path database : databases(taskDirectory, store)) {
            committed = committed == null ? committed(database, changelog) : committed;
        }
        return new DiskOffsets(committed == null ? "none" : FAMILY, committed);
    }

    /** Whether the task directory has the store at all. */
    static boolean isThere(final Path taskDirectory, final String store) {
        return Files.isDirectory(taskDirectory.resolve("rocksdb").resolve(store))
            || Files.isDirectory(taskDirectory.resolve(store));
    }

    /** The store's one database, or those of its segments, the newest first. */
    private static List<Path> databases(final Path taskDirectory, final String store) throws IOException {
        final Path single = taskDirectory.resolve("rocksdb").resolve(store);
        if (!Files.isDirectory(taskDirectory.resolve(store))) {
            return Files.exists(single.resolve("CURRENT")) ? List.of(single) : List.of();
        }
        try (var segments = Files.list(taskDirectory.resolve(store))) {
            return segments.filter(segment -> Files.exists(segment.resolve("CURRENT")))
                .sorted(Comparator.comparingLong(DiskOffsets::start).reversed()).toList();
        }
    }

    private static long start(final Path segment) {
        final String name = segment.getFileName().toString();
        return Long.parseLong(name.substring(name.lastIndexOf('.') + 1));
    }

    private static Long committed(final Path database, final TopicPartition changelog) throws RocksDBException {
        final List<ColumnFamilyDescriptor> families = new ArrayList<>();
        try (Options options = new Options()) {
            for (final byte[] name : RocksDB.listColumnFamilies(options, database.toString())) {
                families.add(new ColumnFamilyDescriptor(name));
            }
        }
        final List<ColumnFamilyHandle> handles = new ArrayList<>();
        try (DBOptions options = new DBOptions();
             RocksDB db = RocksDB.openReadOnly(options, database.toString(), families, handles)) {
            Long offset = null;
            for (final ColumnFamilyHandle handle : handles) {
                if (FAMILY.equals(new String(handle.getName(), StandardCharsets.UTF_8))) {
                    final byte[] value = db.get(handle, changelog.toString().getBytes(StandardCharsets.UTF_8));
                    offset = value == null ? null : (Long) ByteBuffer.wrap(value).getLong();
                }
            }
            handles.forEach(ColumnFamilyHandle::close);
            return offset;
        }
    }

    Map<String, Object> found() {
        final Map<String, Object> found = new LinkedHashMap<>();
        found.put("offset_source", source);
        found.put("offset", offset);
        return found;
    }
}
