import java.util.ArrayList;
import java.util.List;
import org.rocksdb.*;

/**
 * Rewrites every table of RocksDB directories with LZ4, with the application stopped.
 *
 * java -cp rocksdbjni.jar Recompress.java DIRECTORY...
 *
 * Use the rocksdbjni that the application uses. Kafka Streams reads the result without a change of its own.
 */
public class Recompress {
    public static void main(String[] directories) throws RocksDBException {
        RocksDB.loadLibrary();
        for (String directory : directories) {
            recompress(directory);
        }
    }

    static void recompress(String directory) throws RocksDBException {
        ColumnFamilyOptions lz4 = new ColumnFamilyOptions()
                .setCompressionType(CompressionType.LZ4_COMPRESSION)
                .setCompactionStyle(CompactionStyle.UNIVERSAL);
        List<ColumnFamilyDescriptor> families = new ArrayList<>();
        for (byte[] name : RocksDB.listColumnFamilies(new Options(), directory)) {
            families.add(new ColumnFamilyDescriptor(name, lz4));
        }
        List<ColumnFamilyHandle> handles = new ArrayList<>();
        try (RocksDB database = RocksDB.open(new DBOptions(), directory, families, handles);
                FlushOptions flush = new FlushOptions().setWaitForFlush(true);
                CompactRangeOptions everything = new CompactRangeOptions().setBottommostLevelCompaction(
                        CompactRangeOptions.BottommostLevelCompaction.kForce)) {
            database.flush(flush, handles);
            for (ColumnFamilyHandle handle : handles) {
                database.compactRange(handle, null, null, everything);
                handle.close();
            }
        }
        System.out.println(directory + ": every table is compressed with LZ4");
    }
}
