package stateferry.live;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.NavigableMap;
import java.util.TreeMap;
import java.util.function.Predicate;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueIterator;
import stateferry.live.StoreCheck.Row;
import stateferry.live.StoreCheck.Rows;
import stateferry.live.StoreCheck.Slot;

/**
 * What a window or session store holds and shows: rows in segments by time, and a stream time that is forgotten when
 * the store is closed. A segment goes when all its times are older than the retention; rows of the last live segment
 * that are older are hidden as long as the stream time is known.
 */
final class SegmentedModel {
    private final long retention;
    private final long interval;
    private final NavigableMap<Cell, Held> cells;
    private long streamTime = -1;

    /** One row: the slot readers see, the time that decides its segment, and its key's bytes, which decide the order. */
    record Cell(Slot slot, long time, Bytes raw) {
        static Cell ofWindow(final Bytes key, final long start, final int sequence) {
            final ByteBuffer raw = ByteBuffer.allocate(key.get().length + 12);
            raw.put(key.get()).putLong(start).putInt(sequence);
            return new Cell(new Slot(key, start, null), start, Bytes.wrap(raw.array()));
        }

        static Cell ofSession(final Bytes key, final long start, final long end) {
            final ByteBuffer raw = ByteBuffer.allocate(key.get().length + 16);
            raw.put(key.get()).putLong(end).putLong(start);
            return new Cell(new Slot(key, start, end), end, Bytes.wrap(raw.array()));
        }
    }

    SegmentedModel(final long retention) {
        this.retention = retention;
        this.interval = Math.max(retention / 2, 60_000);
        this.cells = new TreeMap<>(
            Comparator.<Cell>comparingLong(cell -> segment(cell.time())).thenComparing(Cell::raw));
    }

    void expect(final Cell cell, final Held held) {
        cells.put(cell, held);
    }

    void put(final Cell cell, final Held held) {
        streamTime = Math.max(streamTime, cell.time());
        final long firstLive = segment(streamTime - retention);
        if (segment(cell.time()) < firstLive) {
            return;
        }
        if (held == null) {
            cells.remove(cell);
        } else {
            cells.put(cell, held);
        }
        cells.keySet().removeIf(other -> segment(other.time()) < firstLive);
    }

    /** Sessions are removed without a look at what has expired. */
    void remove(final Cell cell) {
        streamTime = Math.max(streamTime, cell.time());
        cells.remove(cell);
    }

    void reopened() {
        streamTime = -1;
    }

    int size() {
        return cells.size();
    }

    long interval() {
        return interval;
    }

    /** The newest time there is, or one of no importance. */
    long newest() {
        return cells.isEmpty() ? 1_700_000_000_000L : cells.lastEntry().getKey().time() / interval * interval;
    }

    List<Cell> cells() {
        return List.copyOf(cells.keySet());
    }

    /** All that a reader sees, in the order in which it sees it. */
    List<Row> visible() {
        final long oldest = streamTime - retention + 1;
        final List<Row> rows = new ArrayList<>();
        cells.forEach((cell, held) -> {
            if (cell.time() >= oldest) {
                rows.add(new Row(cell.slot(), held));
            }
        });
        return rows;
    }

    static List<Row> only(final List<Row> rows, final Predicate<Slot> wanted) {
        return rows.stream().filter(row -> wanted.test(row.slot())).toList();
    }

    static List<Row> reversed(final List<Row> rows) {
        final List<Row> reversed = new ArrayList<>(rows);
        Collections.reverse(reversed);
        return reversed;
    }

    static <V> Rows rows(final KeyValueIterator<Windowed<byte[]>, V> found, final ValueForm<V> form, final boolean ends) {
        return new Rows() {
            @Override
            public boolean hasNext() {
                return found.hasNext();
            }

            @Override
            public Row next() {
                final var row = found.next();
                final Long end = ends ? (Long) row.key.window().end() : null;
                final Slot slot = new Slot(Bytes.wrap(row.key.key()), row.key.window().start(), end);
                return new Row(slot, form.read(row.value));
            }

            @Override
            public void close() {
                found.close();
            }
        };
    }

    private long segment(final long time) {
        return time / interval;
    }
}
