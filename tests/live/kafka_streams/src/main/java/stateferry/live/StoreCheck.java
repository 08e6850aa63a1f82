package stateferry.live;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.processor.StateStore;

/** What one store of one task must hold, compared with the store by every public read there is. */
abstract class StoreCheck {
    /** No headers, one, one without content, several of one name. */
    static final List<List<List<String>>> HEADERS = List.of(
        List.of(),
        List.of(List.of("h", "78")),
        List.of(Arrays.asList("h", null)),
        List.of(List.of("a", ""), List.of("b", "00ff"), List.of("a", "7a")));

    /** Takes one record that lies in the store when it is opened. */
    abstract void expect(Event row);

    /** Takes one write to the open store. */
    abstract void apply(Event event);

    /** The store was closed and opened again, which loses what Kafka Streams keeps in memory only. */
    abstract void reopened();

    /** The first difference between the open store and what it must hold. */
    abstract Optional<String> firstDifference(StateStore store);

    /** Writes new, overwriting and deleting, at both ends and in between. */
    abstract List<Event> furtherWrites();

    abstract int records();

    /** The first difference that can be seen before the registration is written. */
    Optional<String> firstDifferenceAtOpen(final StateStore store) {
        return Optional.empty();
    }

    /** Writes without which Kafka Streams does not show all that a store holds. */
    List<Event> registration() {
        return List.of();
    }

    /** Whether Kafka Streams knows after a restart how far the store has read its input. */
    boolean keepsPosition() {
        return true;
    }

    /** Where a record lies: its key and, in windowed and session stores, its times. */
    record Slot(Bytes key, Long start, Long end) {
        @Override
        public String toString() {
            return "key " + hex(key) + (start == null ? "" : " from " + start) + (end == null ? "" : " to " + end);
        }
    }

    /** One record. */
    record Row(Slot slot, Held held) {
    }

    /** Rows as a store gives them, to be closed after use. */
    interface Rows extends Iterator<Row>, AutoCloseable {
        @Override
        void close();
    }

    static Optional<String> compare(final String read, final Rows found, final Iterable<Row> wanted) {
        try (found) {
            final Iterator<Row> expected = wanted.iterator();
            for (long row = 0; found.hasNext() || expected.hasNext(); row++) {
                final Row want = expected.hasNext() ? expected.next() : null;
                final Row have = found.hasNext() ? found.next() : null;
                if (want == null || have == null || !want.slot().equals(have.slot())) {
                    return Optional.of(read + ": row " + row + ": expected " + show(want) + ", found " + show(have));
                }
                if (!want.held().equals(have.held())) {
                    return difference(read, want.slot(), want.held(), have.held());
                }
            }
            return Optional.empty();
        }
    }

    static Optional<String> comparePoint(final String read, final Slot slot, final Held want, final Held have) {
        final boolean same = want == null ? have == null : want.equals(have);
        return same ? Optional.empty() : difference(read, slot, want, have);
    }

    private static Optional<String> difference(final String read, final Slot slot, final Held want, final Held have) {
        return Optional.of(read + ": " + slot + ": expected " + orNothing(want) + ", found " + orNothing(have));
    }

    private static String show(final Row row) {
        return row == null ? "nothing" : row.slot() + " " + row.held();
    }

    private static String orNothing(final Held held) {
        return held == null ? "nothing" : held.toString();
    }

    static Bytes successor(final Bytes key) {
        return Bytes.wrap(Arrays.copyOf(key.get(), key.get().length + 1));
    }

    static String hex(final Bytes key) {
        return HexFormat.of().formatHex(key.get());
    }

    static Bytes key(final String text) {
        return Bytes.wrap(text.getBytes(StandardCharsets.UTF_8));
    }

    /** Keys before all, among and after all others. */
    static List<Bytes> newKeys() {
        final byte[] last = new byte[64];
        Arrays.fill(last, (byte) 0xff);
        return List.of(Bytes.wrap(new byte[] {0}), key("written"), Bytes.wrap(last));
    }

    static byte[] bytes(final String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
