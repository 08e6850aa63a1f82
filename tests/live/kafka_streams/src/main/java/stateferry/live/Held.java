package stateferry.live;

import java.util.HexFormat;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.utils.Bytes;

/** A value as a store holds it; timestamp and headers are null where the kind of store has none. */
record Held(Bytes value, Long timestamp, List<Header> headers) {
    @Override
    public String toString() {
        final String at = timestamp == null ? "" : " at " + timestamp;
        return "value " + hex(value.get()) + at + (headers == null ? "" : " with headers " + shown());
    }

    private String shown() {
        return headers.stream()
            .map(header -> header.key() + "=" + (header.value() == null ? "null" : hex(header.value())))
            .collect(Collectors.joining(", ", "[", "]"));
    }

    private static String hex(final byte[] bytes) {
        return bytes.length == 0 ? "(empty)" : HexFormat.of().formatHex(bytes);
    }
}
