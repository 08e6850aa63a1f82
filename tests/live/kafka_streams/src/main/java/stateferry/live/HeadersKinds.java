package stateferry.live;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.AggregationWithHeaders;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.ValueTimestampHeaders;

/** The kinds of store that keep headers; compiled only against releases that have them. */
final class HeadersKinds {
    private static final ValueForm<ValueTimestampHeaders<byte[]>> VALUES = new ValueForm<>() {
        @Override
        public ValueTimestampHeaders<byte[]> make(final Held held) {
            return ValueTimestampHeaders.make(held.value().get(), held.timestamp(), headers(held));
        }

        @Override
        public Held read(final ValueTimestampHeaders<byte[]> value) {
            return new Held(Bytes.wrap(value.value()), value.timestamp(), List.of(value.headers().toArray()));
        }

        @Override
        public Held kept(final Held held) {
            return new Held(held.value(), ValueForm.timestamp(held), held.headers());
        }
    };

    private static final ValueForm<AggregationWithHeaders<byte[]>> AGGREGATES = new ValueForm<>() {
        @Override
        public AggregationWithHeaders<byte[]> make(final Held held) {
            return AggregationWithHeaders.make(held.value().get(), headers(held));
        }

        @Override
        public Held read(final AggregationWithHeaders<byte[]> value) {
            return new Held(Bytes.wrap(value.aggregation()), null, List.of(value.headers().toArray()));
        }

        @Override
        public Held kept(final Held held) {
            return new Held(held.value(), null, held.headers());
        }
    };

    private HeadersKinds() {
    }

    static StoreKind of(final String word) {
        return switch (word) {
            case "headers-key-value" -> StoreKind.keyValue(VALUES,
                (store, retention) -> Stores.timestampedKeyValueStoreWithHeadersBuilder(
                    Stores.persistentTimestampedKeyValueStoreWithHeaders(store), StoreKind.BYTES, StoreKind.BYTES));
            case "headers-window" -> window(false);
            case "headers-join-window" -> window(true);
            case "headers-session" -> StoreKind.session(AGGREGATES,
                (store, retention) -> Stores.sessionStoreWithHeadersBuilder(
                    Stores.persistentSessionStoreWithHeaders(store, retention), StoreKind.BYTES, StoreKind.BYTES));
            default -> throw new IllegalArgumentException("unknown kind of store: " + word);
        };
    }

    /** A value, its timestamp (-1: a session has none) and its headers, as {@link Answers} writes them. */
    static Object written(final Object found) {
        final boolean isAggregate = found instanceof AggregationWithHeaders<?>;
        final Held held = isAggregate ? AGGREGATES.found(StoreKind.cast(found)) : VALUES.found(StoreKind.cast(found));
        final List<Object> headers = new ArrayList<>();
        for (final Header header : held.headers()) {
            headers.add(Arrays.asList(header.key(), Answers.written(header.value())));
        }
        final Object value = Answers.written(held.value().get());
        return List.of(value, isAggregate ? -1 : held.timestamp(), headers);
    }

    private static StoreKind window(final boolean duplicates) {
        return StoreKind.window(VALUES, duplicates,
            (store, retention) -> Stores.timestampedWindowStoreWithHeadersBuilder(
                Stores.persistentTimestampedWindowStoreWithHeaders(
                    store, retention, StoreKind.WINDOW_SIZE, duplicates),
                StoreKind.BYTES, StoreKind.BYTES));
    }

    private static Headers headers(final Held held) {
        return new RecordHeaders(held.headers());
    }
}
