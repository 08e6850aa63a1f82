package stateferry.changelog;

import java.util.List;
import org.apache.kafka.common.header.Headers;

/** What a store holds under a key: the timestamp and the headers only where its kind keeps them. */
record Held(List<Object> orders, Long timestamp, Headers headers) {
    /** An entry of a store; the start of its window only where there are windows. */
    record Entry(String key, Long window, Held held) {
    }
}
