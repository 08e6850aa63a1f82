package stateferry.live;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.zip.GZIPInputStream;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * Makes and opens real state directories of Kafka Streams.
 *
 * <pre>
 * make --app-dir DIR --stores NAME=KIND,... --tasks 0_0,... --events DIR
 * open --app-dir DIR --stores NAME=KIND,... --tasks 0_0,... --expected DIR [--timestamp MS] [--exactly-once yes]
 * </pre>
 *
 * DIR of {@code --events} and {@code --expected} holds {@code TASK/STORE.jsonl.gz}: one object a line with "key"
 * (hex), "value" (hex; null in events deletes) and "timestamp" (null for stores without). {@code open} prints one
 * JSON object; exit status 0 if all is as expected, 1 if not, 2 if the program failed.
 */
public final class Main {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int COMMIT_EVERY = 1000;

    private Main() {
    }

    public static void main(final String[] args) {
        int status = 2;
        try {
            status = run(args[0], options(args));
        } catch (final Exception failure) {
            failure.printStackTrace();
        }
        System.exit(status);
    }

    private static int run(final String command, final Map<String, String> options) throws Exception {
        final Path appDirectory = Path.of(options.get("--app-dir")).toAbsolutePath();
        final SortedMap<String, StoreKind> stores = stores(options.get("--stores"));
        final List<String> tasks = List.of(options.get("--tasks").split(","));
        return switch (command) {
            case "make" -> make(appDirectory, stores, tasks, Path.of(options.get("--events")));
            case "open" -> open(appDirectory, stores, tasks, options);
            default -> throw new IllegalArgumentException("unknown command: " + command);
        };
    }

    private static int make(
        final Path appDirectory,
        final SortedMap<String, StoreKind> stores,
        final List<String> tasks,
        final Path events
    ) throws Exception {
        for (final String name : tasks) {
            try (LiveTask task = new LiveTask(appDirectory, partition(name), stores, false)) {
                long sent = 0;
                for (final String store : stores.keySet()) {
                    for (final Row row : rows(events, name, store)) {
                        task.send(store, row.keyBytes(), row.valueBytes(), row.timestamp());
                        if (++sent % COMMIT_EVERY == 0) {
                            task.commit();
                        }
                    }
                }
                task.commit();
            }
        }
        return 0;
    }

    private static int open(
        final Path appDirectory,
        final SortedMap<String, StoreKind> stores,
        final List<String> tasks,
        final Map<String, String> options
    ) throws IOException {
        final Long timestamp = options.containsKey("--timestamp") ? Long.valueOf(options.get("--timestamp")) : null;
        final Map<String, Object> verdict = new LinkedHashMap<>();
        verdict.put("version", AppInfoParser.getVersion());
        final Map<String, Object> found = new TreeMap<>();
        String difference = null;
        for (final String name : tasks) {
            final TaskCheck check = new TaskCheck(appDirectory, name, stores, options.containsKey("--exactly-once"));
            for (final var store : stores.entrySet()) {
                for (final Row row : rows(Path.of(options.get("--expected")), name, store.getKey())) {
                    check.expect(store.getKey(), row.keyBytes(), row.valueBytes(),
                        row.timestamp() == null ? timestamp : row.timestamp());
                }
            }
            difference = check.run();
            found.put(name, check.found());
            if (difference != null) {
                break;
            }
        }
        verdict.put("ok", difference == null);
        verdict.put("difference", difference);
        verdict.put("tasks", found);
        System.out.println(JSON.writeValueAsString(verdict));
        return difference == null ? 0 : 1;
    }

    private static List<Row> rows(final Path directory, final String task, final String store) throws IOException {
        final Path file = directory.resolve(task).resolve(store + ".jsonl.gz");
        try (var lines = new BufferedReader(
                new InputStreamReader(new GZIPInputStream(Files.newInputStream(file)), StandardCharsets.UTF_8))) {
            return JSON.readerFor(Row.class).<Row>readValues(lines).readAll();
        }
    }

    private static Map<String, String> options(final String[] args) {
        final Map<String, String> options = new HashMap<>();
        for (int at = 1; at < args.length; at += 2) {
            options.put(args[at], args[at + 1]);
        }
        return options;
    }

    private static SortedMap<String, StoreKind> stores(final String list) {
        final SortedMap<String, StoreKind> stores = new TreeMap<>();
        for (final String item : list.split(",")) {
            final String[] pair = item.split("=", 2);
            stores.put(pair[0], StoreKind.of(pair[1]));
        }
        return stores;
    }

    static int partition(final String task) {
        if (!task.matches("0_\\d+")) {
            throw new IllegalArgumentException("the program's topology has only subtopology 0: " + task);
        }
        return Integer.parseInt(task.substring(2));
    }

    /** One line of an events or expected file. */
    record Row(String key, String value, Long timestamp) {
        byte[] keyBytes() {
            return HexFormat.of().parseHex(key);
        }

        byte[] valueBytes() {
            return value == null ? null : HexFormat.of().parseHex(value);
        }
    }
}
