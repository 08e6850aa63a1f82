import java.util.ArrayList;
import java.util.List;
import org.rocksdb.ColumnFamilyDescriptor;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.DBOptions;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksIterator;

/** The program that owns a store: `make DIRECTORY RECORDS`, or `use DIRECTORY FAMILY`, which prints what it finds. */
public final class Owner {
    private Owner() {}

    public static void main(final String[] args) throws Exception {
        RocksDB.loadLibrary();
        if (args[0].equals("make")) {
            make(args[1], Integer.parseInt(args[2]));
        } else {
            use(args[1], args[2], true);
            use(args[1], args[2], false);
        }
    }

    private static void make(final String directory, final int records) throws Exception {
        try (Options options = new Options().setCreateIfMissing(true); RocksDB database = RocksDB.open(options, directory)) {
            for (int number = 0; number < records; number++) {
                database.put(String.format("k%05d", number).getBytes(), ("v" + number).getBytes());
            }
        }
    }

    /** Read everything; and, if asked, write, compact and read again. */
    private static void use(final String directory, final String wanted, final boolean change) throws Exception {
        final List<ColumnFamilyDescriptor> families = new ArrayList<>();
        for (final byte[] name : RocksDB.listColumnFamilies(new Options(), directory)) {
            families.add(new ColumnFamilyDescriptor(name));
        }
        final List<ColumnFamilyHandle> handles = new ArrayList<>();
        try (DBOptions options = new DBOptions(); RocksDB database = RocksDB.open(options, directory, families, handles)) {
            for (final ColumnFamilyHandle handle : handles) {
                if (new String(handle.getName()).equals(wanted)) {
                    count(database, handle);
                    if (change) {
                        database.put(handle, "new".getBytes(), "12345678new".getBytes());
                        database.compactRange(handle);
                        count(database, handle);
                    }
                }
            }
            handles.forEach(ColumnFamilyHandle::close);
        }
    }

    private static void count(final RocksDB database, final ColumnFamilyHandle family) throws Exception {
        int records = 0;
        try (RocksIterator each = database.newIterator(family)) {
            for (each.seekToFirst(); each.isValid(); each.next()) {
                records++;
            }
            each.status();
        }
        System.out.println(records);
    }
}
