package stateferry.live;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
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
        final Path database = taskDirectory.resolve("rocksdb").resolve(store);
        final Long committed = Files.exists(database.resolve("CURRENT")) ? committed(database, changelog) : null;
        return new DiskOffsets(committed == null ? "none" : FAMILY, committed);
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
