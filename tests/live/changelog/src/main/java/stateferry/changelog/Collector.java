package stateferry.changelog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.avro.generic.GenericData;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;

/** Collects the orders of each key in a list; an input without a value deletes the list. */
final class Collector<S extends StateStore> extends ContextualProcessor<String, byte[], Void, Void> {
    static final Set<Collector<?>> ACTIVE = ConcurrentHashMap.newKeySet();
    static final AtomicLong PROCESSED = new AtomicLong();
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration SOON = Duration.ofMillis(20);
    private final Orders orders;
    private final Kind<S> kind;
    private final String name;
    private S store;
    /** The file to dump the store to; a task's own thread does it. */
    private volatile Path wanted;

    Collector(final Orders orders, final Kind<S> kind, final String name) {
        this.orders = orders;
        this.kind = kind;
        this.name = name;
    }

    @Override
    public void init(final ProcessorContext<Void, Void> context) {
        super.init(context);
        store = context.getStateStore(name);
        context.schedule(SOON, PunctuationType.WALL_CLOCK_TIME, now -> dumpIfWanted());
        ACTIVE.add(this);
    }

    @Override
    public void close() {
        ACTIVE.remove(this);
    }

    @Override
    public void process(final Record<String, byte[]> input) {
        kind.put(store, input.key(), input.timestamp(), input.value() == null ? null : after(input));
        PROCESSED.incrementAndGet();
    }

    private Held after(final Record<String, byte[]> input) {
        Held before = kind.get(store, input.key(), input.timestamp());
        List<Object> list = before == null ? new ArrayList<>() : new ArrayList<>(before.orders());
        list.add(orders.order(json(input.value())));
        return new Held(list, input.timestamp(), input.headers());
    }

    void dumpInto(final Path folder) {
        wanted = folder.resolve(context().taskId() + ".jsonl");
    }

    boolean hasDumped() {
        return wanted == null;
    }

    private void dumpIfWanted() {
        if (wanted == null) {
            return;
        }
        var lines = new ArrayList<String>();
        kind.each(store, entry -> lines.add(line(entry)));
        try {
            Files.write(wanted, lines);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        wanted = null;
    }

    private static String line(final Held.Entry entry) {
        Held held = entry.held();
        var line = JSON.createObjectNode().put("key", entry.key()).put("window", entry.window());
        line.set("orders", json(GenericData.get().toString(held.orders()).getBytes(StandardCharsets.UTF_8)));
        line.put("timestamp", held.timestamp());
        var headers = line.putArray("headers");
        if (held.headers() != null) {
            for (Header header : held.headers()) {
                headers.addArray().add(header.key()).add(new String(header.value(), StandardCharsets.UTF_8));
            }
        }
        return line.toString();
    }

    private static JsonNode json(final byte[] text) {
        try {
            return JSON.readTree(text);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
