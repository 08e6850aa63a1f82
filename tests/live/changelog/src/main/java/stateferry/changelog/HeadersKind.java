package stateferry.changelog;

import java.util.List;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.ValueTimestampHeaders;

/** The kind of store that keeps headers; compiled only against releases that have it. */
final class HeadersKind {
    private static final Kind.Form<ValueTimestampHeaders<List<Object>>> FORM = new Kind.Form<>(
        held -> ValueTimestampHeaders.make(held.orders(), held.timestamp(), held.headers()),
        value -> new Held(value.value(), value.timestamp(), value.headers()));

    private HeadersKind() {
    }

    static Kind<?> of(final String word, final String store, final Serde<List<Object>> orders) {
        if (!word.equals("headers-key-value")) {
            throw new IllegalArgumentException(word);
        }
        return Kind.keyValue(FORM, Stores.timestampedKeyValueStoreWithHeadersBuilder(
            Stores.persistentTimestampedKeyValueStoreWithHeaders(store), Kind.KEYS, orders));
    }
}
