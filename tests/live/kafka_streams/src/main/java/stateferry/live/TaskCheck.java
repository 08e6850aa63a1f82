package stateferry.live;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;

/** Opens one task, compares its stores with what they must hold, writes to them, reopens and compares again. */
final class TaskCheck {
    private final Path appDirectory;
    private final String name;
    private final SortedMap<String, NamedStore> stores;
    private final boolean exactlyOnce;
    private final Map<String, StoreCheck> checks = new TreeMap<>();
    private final Map<String, Long> nextOffsets = new HashMap<>();
    private final Map<String, Map<String, Long>> positions = new HashMap<>();
    private final Map<String, Map<String, Object>> found = new TreeMap<>();

    TaskCheck(
        final Path appDirectory,
        final String name,
        final SortedMap<String, NamedStore> stores,
        final boolean exactlyOnce
    ) {
        this.appDirectory = appDirectory;
        this.name = name;
        this.stores = stores;
        this.exactlyOnce = exactlyOnce;
        stores.forEach((store, named) -> checks.put(store, named.check()));
    }

    void expect(final String store, final Event row) {
        checks.get(store).expect(row);
    }

    /** The first difference, or null if all is as expected. */
    String run() {
        try {
            final Optional<String> difference = openAndWrite();
            return (difference.isPresent() ? difference : reopen()).orElse(null);
        } catch (final Exception failure) {
            failure.printStackTrace();
            return name + ": " + causes(failure);
        }
    }

    /** What was found, by store. */
    Map<String, Map<String, Object>> found() {
        return found;
    }

    private Optional<String> openAndWrite() throws Exception {
        final Map<String, DiskOffsets> onDisk = new HashMap<>();
        for (final String store : stores.keySet()) {
            final Path taskDirectory = appDirectory.resolve(name);
            if (!DiskOffsets.isThere(taskDirectory, store)) {
                return Optional.of(name + "/" + store + ": no such store on disk");
            }
            final TopicPartition changelog = LiveTask.changelog(appDirectory, store, Main.partition(name));
            onDisk.put(store, DiskOffsets.of(taskDirectory, store, changelog));
        }
        try (LiveTask task = start()) {
            for (final String store : stores.keySet()) {
                final Optional<String> difference = inspect(task, store, onDisk.get(store));
                if (difference.isPresent()) {
                    return difference.map(text -> name + "/" + store + ": " + text);
                }
            }
            for (final String store : stores.keySet()) {
                final long written = write(task, store, checks.get(store).furtherWrites());
                nextOffsets.merge(store, written, Long::sum);
            }
            task.commit();
            final Optional<String> difference = compare(task, "after writes");
            for (final String store : stores.keySet()) {
                positions.put(store, task.position(store));
            }
            return difference;
        }
    }

    private Optional<String> reopen() throws Exception {
        checks.values().forEach(StoreCheck::reopened);
        try (LiveTask task = start()) {
            for (final String store : stores.keySet()) {
                if (task.nextOffset(store) != nextOffsets.get(store)) {
                    return Optional.of(name + "/" + store + ": reopened: expected next changelog offset "
                        + nextOffsets.get(store) + ", found " + task.nextOffset(store));
                }
                if (checks.get(store).keepsPosition() && !task.position(store).equals(positions.get(store))) {
                    return Optional.of(name + "/" + store + ": reopened: expected position " + positions.get(store)
                        + ", found " + task.position(store));
                }
                write(task, store, checks.get(store).registration());
            }
            return compare(task, "reopened");
        }
    }

    private LiveTask start() throws ReflectiveOperationException {
        return new LiveTask(appDirectory, Main.partition(name), stores, exactlyOnce);
    }

    private Optional<String> inspect(final LiveTask task, final String store, final DiskOffsets onDisk)
        throws Exception {
        final StoreCheck check = checks.get(store);
        final Map<String, Object> facts = new LinkedHashMap<>(onDisk.found());
        facts.put("upgrade_mode", task.inUpgradeMode(store));
        facts.put("position", task.position(store));
        found.put(store, facts);
        if (onDisk.offset() == null) {
            return Optional.of(
                "no changelog offset is known for it, so Kafka Streams would replay the whole changelog");
        }
        if (task.nextOffset(store) != onDisk.offset() + 1) {
            return Optional.of("changelog offset on disk is " + onDisk.offset() + " (" + onDisk.source()
                + "), but Kafka Streams would restore from " + task.nextOffset(store));
        }
        Optional<String> difference = check.firstDifferenceAtOpen(task.store(store));
        if (difference.isEmpty()) {
            final int records = check.records();
            nextOffsets.put(store, task.nextOffset(store) + write(task, store, check.registration()));
            difference = check.firstDifference(task.store(store));
            if (difference.isEmpty()) {
                facts.put("records", records);
            }
        }
        return difference;
    }

    private Optional<String> compare(final LiveTask task, final String when) {
        for (final String store : stores.keySet()) {
            final Optional<String> difference = checks.get(store).firstDifference(task.store(store));
            if (difference.isPresent()) {
                return difference.map(text -> name + "/" + store + ": " + when + ": " + text);
            }
        }
        return Optional.empty();
    }

    /** Writes to the store and to its model; returns how many records went to the changelog. */
    private long write(final LiveTask task, final String store, final List<Event> writes) {
        for (final Event event : writes) {
            task.send(store, event);
            checks.get(store).apply(event);
        }
        return writes.size();
    }

    private static String causes(final Throwable failure) {
        final List<String> causes = new ArrayList<>();
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            causes.add(cause.getClass().getSimpleName() + ": " + cause.getMessage());
        }
        return String.join("; ", causes);
    }
}
