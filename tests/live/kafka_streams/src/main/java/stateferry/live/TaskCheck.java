package stateferry.live;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.AbstractMap.SimpleImmutableEntry;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Bytes;
import stateferry.live.StoreKind.Held;

/** Opens one task, compares its stores with what they must hold, writes to them, reopens and compares again. */
final class TaskCheck {
    private static final long WRITTEN_AT = 1_900_000_000_000L;

    private final Path appDirectory;
    private final String name;
    private final SortedMap<String, StoreKind> stores;
    private final boolean exactlyOnce;
    private final Map<String, NavigableMap<Bytes, Held>> models = new HashMap<>();
    private final Map<String, Long> nextOffsets = new HashMap<>();
    private final Map<String, Map<String, Object>> found = new TreeMap<>();

    TaskCheck(
        final Path appDirectory,
        final String name,
        final SortedMap<String, StoreKind> stores,
        final boolean exactlyOnce
    ) {
        this.appDirectory = appDirectory;
        this.name = name;
        this.stores = stores;
        this.exactlyOnce = exactlyOnce;
        stores.keySet().forEach(store -> models.put(store, new TreeMap<>()));
    }

    void expect(final String store, final byte[] key, final byte[] value, final Long timestamp) {
        final StoreKind kind = stores.get(store);
        if (kind == StoreKind.TIMESTAMPED_KEY_VALUE && timestamp == null) {
            throw new IllegalArgumentException("no timestamp is given for expected records of " + store);
        }
        models.get(store).put(Bytes.wrap(key), kind.held(Bytes.wrap(value), timestamp == null ? 0 : timestamp));
    }

    /** The first difference, or null if all is as expected. */
    String run() {
        try {
            final String difference = openAndWrite();
            return difference == null ? reopen() : difference;
        } catch (final Exception failure) {
            failure.printStackTrace();
            return name + ": " + causes(failure);
        }
    }

    /** What was found, by store. */
    Map<String, Map<String, Object>> found() {
        return found;
    }

    private String openAndWrite() throws Exception {
        final Map<String, DiskOffsets> onDisk = new HashMap<>();
        for (final String store : stores.keySet()) {
            final Path taskDirectory = appDirectory.resolve(name);
            if (!Files.isDirectory(taskDirectory.resolve("rocksdb").resolve(store))) {
                return name + "/" + store + ": no such store on disk";
            }
            final TopicPartition changelog = LiveTask.changelog(appDirectory, store, Main.partition(name));
            onDisk.put(store, DiskOffsets.of(taskDirectory, store, changelog));
        }
        try (LiveTask task = start()) {
            for (final String store : stores.keySet()) {
                final String difference = inspect(task, store, onDisk.get(store));
                if (difference != null) {
                    return name + "/" + store + ": " + difference;
                }
            }
            for (final String store : stores.keySet()) {
                nextOffsets.put(store, task.nextOffset(store) + write(task, store));
            }
            task.commit();
            return compare(task, "after writes");
        }
    }

    private String reopen() throws Exception {
        try (LiveTask task = start()) {
            for (final String store : stores.keySet()) {
                if (task.nextOffset(store) != nextOffsets.get(store)) {
                    return name + "/" + store + ": reopened: expected next changelog offset " + nextOffsets.get(store)
                        + ", found " + task.nextOffset(store);
                }
            }
            return compare(task, "reopened");
        }
    }

    private LiveTask start() throws ReflectiveOperationException {
        return new LiveTask(appDirectory, Main.partition(name), stores, exactlyOnce);
    }

    private String inspect(final LiveTask task, final String store, final DiskOffsets onDisk) throws Exception {
        final Map<String, Object> facts = new LinkedHashMap<>(onDisk.found());
        facts.put("upgrade_mode", task.inUpgradeMode(store));
        facts.put("position", task.position(store));
        found.put(store, facts);
        if (onDisk.offset() == null) {
            return "no changelog offset is known for it, so Kafka Streams would replay the whole changelog";
        }
        if (task.nextOffset(store) != onDisk.offset() + 1) {
            return "changelog offset on disk is " + onDisk.offset() + " (" + onDisk.source()
                + "), but Kafka Streams would restore from " + task.nextOffset(store);
        }
        final String difference = task.view(store).firstDifference(models.get(store));
        if (difference == null) {
            facts.put("records", models.get(store).size());
        }
        return difference;
    }

    private String compare(final LiveTask task, final String when) {
        for (final String store : stores.keySet()) {
            final String difference = task.view(store).firstDifference(models.get(store));
            if (difference != null) {
                return name + "/" + store + ": " + when + ": " + difference;
            }
        }
        return null;
    }

    /** New keys at both ends and in the middle, overwrites, deletes of old, new and absent keys; returns how many. */
    private long write(final LiveTask task, final String store) {
        final NavigableMap<Bytes, Held> model = models.get(store);
        final List<Map.Entry<Bytes, byte[]>> writes = writes(new ArrayList<>(model.keySet()));
        for (final Map.Entry<Bytes, byte[]> entry : writes) {
            task.send(store, entry.getKey().get(), entry.getValue(), WRITTEN_AT);
            if (entry.getValue() == null) {
                model.remove(entry.getKey());
            } else {
                model.put(entry.getKey(), stores.get(store).held(Bytes.wrap(entry.getValue()), WRITTEN_AT));
            }
        }
        return writes.size();
    }

    private static List<Map.Entry<Bytes, byte[]>> writes(final List<Bytes> old) {
        final List<Map.Entry<Bytes, byte[]>> writes = new ArrayList<>();
        final byte[] last = new byte[64];
        Arrays.fill(last, (byte) 0xff);
        for (final byte[] key : new byte[][] {{0}, bytes("written"), last}) {
            writes.add(write(key, bytes("new " + writes.size())));
        }
        if (!old.isEmpty()) {
            for (final int at : new int[] {0, old.size() / 2, old.size() - 1}) {
                writes.add(write(old.get(at).get(), bytes("overwritten " + at)));
            }
            writes.add(write(old.get(old.size() / 3).get(), new byte[0]));
            writes.add(write(old.get(old.size() / 4).get(), null));
            writes.add(write(old.get(old.size() - 1 - old.size() / 4).get(), null));
        }
        writes.add(write(bytes("written"), null));
        writes.add(write(bytes("never there"), null));
        return writes;
    }

    private static Map.Entry<Bytes, byte[]> write(final byte[] key, final byte[] value) {
        return new SimpleImmutableEntry<>(Bytes.wrap(key), value);
    }

    private static byte[] bytes(final String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String causes(final Throwable failure) {
        final List<String> causes = new ArrayList<>();
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            causes.add(cause.getClass().getSimpleName() + ": " + cause.getMessage());
        }
        return String.join("; ", causes);
    }
}
