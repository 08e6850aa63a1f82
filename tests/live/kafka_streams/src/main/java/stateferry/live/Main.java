package stateferry.live;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.zip.GZIPInputStream;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * Makes and opens real state directories of Kafka Streams.
 *
 * <pre>
 * make --app-dir DIR --stores NAME=KIND:RETENTION,... --tasks 0_0,... --events DIR [--logged DIR]
 *     [--questions DIR --answers DIR]
 * make-dsl --app-dir DIR --topology NAME --store NAME [--format HEADERS]
 * open --app-dir DIR --stores NAME=KIND:RETENTION,... --tasks 0_0,... --expected DIR [--exactly-once yes]
 * ask --app-dir DIR --stores NAME=KIND:RETENTION,... --bootstrap SERVER --count EVENTS --questions FILE --answers FILE
 * upgrade --app-dir DIR --stores NAME=KIND:RETENTION --count RECORDS
 * </pre>
 *
 * RETENTION, in milliseconds, is that of windowed, session and versioned stores. {@code make} goes on in a directory
 * that is there; {@code make-dsl} makes stores that only the DSL makes (see {@link DslState}). DIR of {@code --events}
 * and {@code --expected} holds {@code TASK/STORE.jsonl.gz}: one {@link Event} a line. {@code make} leaves the records
 * of the changelog in {@code --logged} as {@code STORE.jsonl}, likewise, and asks the stores what
 * {@code TASK/STORE.jsonl} of {@code --questions} says: the {@link Answers} go into a file of the same name.
 * {@code ask} asks a {@link RunningApplication}, {@code upgrade} times a {@link LazyUpgrade}. {@code open} prints one JSON object; exit status 0 if all is as
 * expected, 1 if not, 2 if the program failed.
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
        if (command.equals("make-dsl")) {
            DslState.make(appDirectory, options.get("--topology"), options.get("--store"), options.get("--format"));
            return 0;
        }
        final SortedMap<String, NamedStore> stores = NamedStore.of(options.get("--stores"));
        if (command.equals("ask")) {
            RunningApplication.ask(appDirectory, stores, options);
            return 0;
        }
        if (command.equals("upgrade")) {
            System.out.println(LazyUpgrade.measure(appDirectory, stores, Integer.parseInt(options.get("--count"))));
            return 0;
        }
        final List<String> tasks = List.of(options.get("--tasks").split(","));
        return switch (command) {
            case "make" -> make(appDirectory, stores, tasks, options);
            case "open" -> open(appDirectory, stores, tasks, options);
            default -> throw new IllegalArgumentException("unknown command: " + command);
        };
    }

    private static int make(
        final Path appDirectory,
        final SortedMap<String, NamedStore> stores,
        final List<String> tasks,
        final Map<String, String> options
    ) throws Exception {
        final Path events = Path.of(options.get("--events"));
        for (final String name : tasks) {
            try (LiveTask task = new LiveTask(appDirectory, partition(name), stores, false)) {
                long sent = 0;
                for (final String store : stores.keySet()) {
                    for (final Event event : rows(events, name, store)) {
                        task.send(store, event);
                        if (++sent % COMMIT_EVERY == 0) {
                            task.commit();
                        }
                    }
                }
                task.commit();
                if (options.containsKey("--questions")) {
                    ask(task, name, stores.keySet(), options);
                }
                if (options.containsKey("--logged")) {
                    for (final String store : stores.keySet()) {
                        write(Path.of(options.get("--logged")).resolve(store + ".jsonl"), task.logged(store));
                    }
                }
            }
        }
        return 0;
    }

    private static void ask(
        final LiveTask task,
        final String name,
        final Set<String> stores,
        final Map<String, String> options
    ) throws IOException {
        for (final String store : stores) {
            final Path file = Path.of(name, store + ".jsonl");
            final Path answers = Path.of(options.get("--answers")).resolve(file);
            Files.createDirectories(answers.getParent());
            final Answers found = new Answers(task.store(store));
            try (var lines = Files.lines(Path.of(options.get("--questions")).resolve(file));
                 var to = Files.newBufferedWriter(answers)) {
                for (final String line : (Iterable<String>) lines::iterator) {
                    to.write(JSON.writeValueAsString(found.answer(JSON.readTree(line))));
                    to.newLine();
                }
            }
        }
    }

    private static int open(
        final Path appDirectory,
        final SortedMap<String, NamedStore> stores,
        final List<String> tasks,
        final Map<String, String> options
    ) throws IOException {
        final Map<String, Object> verdict = new LinkedHashMap<>();
        verdict.put("version", AppInfoParser.getVersion());
        final Map<String, Object> found = new TreeMap<>();
        String difference = null;
        for (final String name : tasks) {
            final TaskCheck check = new TaskCheck(appDirectory, name, stores, options.containsKey("--exactly-once"));
            for (final String store : stores.keySet()) {
                rows(Path.of(options.get("--expected")), name, store).forEach(row -> check.expect(store, row));
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

    private static List<Event> rows(final Path directory, final String task, final String store) throws IOException {
        final Path file = directory.resolve(task).resolve(store + ".jsonl.gz");
        try (var lines = new BufferedReader(
                new InputStreamReader(new GZIPInputStream(Files.newInputStream(file)), StandardCharsets.UTF_8))) {
            return JSON.readerFor(Event.class).<Event>readValues(lines).readAll();
        }
    }

    private static void write(final Path file, final List<Event> rows) throws IOException {
        final StringBuilder lines = new StringBuilder();
        for (final Event row : rows) {
            lines.append(JSON.writeValueAsString(row)).append('\n');
        }
        Files.writeString(file, lines);
    }

    private static Map<String, String> options(final String[] args) {
        final Map<String, String> options = new HashMap<>();
        for (int at = 1; at < args.length; at += 2) {
            options.put(args[at], args[at + 1]);
        }
        return options;
    }

    static int partition(final String task) {
        if (!task.matches("0_\\d+")) {
            throw new IllegalArgumentException("the program's topology has only subtopology 0: " + task);
        }
        return Integer.parseInt(task.substring(2));
    }
}
