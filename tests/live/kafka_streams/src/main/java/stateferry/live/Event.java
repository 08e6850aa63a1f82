package stateferry.live;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.utils.Bytes;

/**
 * One line of an events or expected file, or one write of this program.
 *
 * <p>Without a value it deletes; with "read" it is only looked up. "start" is that of a window or session, "end" that
 * of a session; "sequence" tells duplicates in a join window apart.
 */
record Event(
    String key,
    String value,
    Long timestamp,
    List<List<String>> headers,
    Long start,
    Long end,
    Integer sequence,
    boolean read
) {
    static Event write(final Bytes key, final byte[] value, final long timestamp, final List<List<String>> headers) {
        final String hex = value == null ? null : hex(value);
        return new Event(hex(key.get()), hex, timestamp, headers, null, null, null, false);
    }

    static Event of(final byte[] key, final byte[] value, final long timestamp, final Headers headers) {
        final List<List<String>> listed = new ArrayList<>();
        for (final Header header : headers) {
            listed.add(Arrays.asList(header.key(), header.value() == null ? null : hex(header.value())));
        }
        return write(Bytes.wrap(key), value, timestamp, listed);
    }

    Event in(final long windowStart, final Long sessionEnd) {
        return new Event(key, value, timestamp, headers, windowStart, sessionEnd, null, false);
    }

    Bytes keyBytes() {
        return Bytes.wrap(HexFormat.of().parseHex(key));
    }

    byte[] valueBytes() {
        return value == null ? null : HexFormat.of().parseHex(value);
    }

    List<Header> headerList() {
        final List<Header> list = new ArrayList<>();
        if (headers != null) {
            for (final List<String> header : headers) {
                final String content = header.get(1);
                list.add(new RecordHeader(header.get(0), content == null ? null : HexFormat.of().parseHex(content)));
            }
        }
        return list;
    }

    /** What a store holds after this write; the kind of store decides what of it. */
    Held held() {
        return value == null ? null : new Held(Bytes.wrap(valueBytes()), timestamp, headerList());
    }

    private static String hex(final byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }
}
