package stateferry.live;

import java.time.Duration;
import java.util.function.BiFunction;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/** A kind of store: how it is built, written and checked through the public API. */
record StoreKind(BiFunction<String, Duration, StoreBuilder<?>> builder, Applier applier, Checker checker) {
    static final Serde<byte[]> BYTES = Serdes.ByteArray();
    static final Duration WINDOW_SIZE = Duration.ofSeconds(10);

    /** Applies one event to an open store. */
    interface Applier {
        void apply(StateStore store, Event event);
    }

    /** Makes the model of a store with a retention time in milliseconds. */
    interface Checker {
        StoreCheck check(long retention);
    }

    static StoreKind of(final String word) {
        return switch (word) {
            case "key-value" -> keyValue(ValueForm.PLAIN,
                (store, retention) -> Stores.keyValueStoreBuilder(
                    Stores.persistentKeyValueStore(store), BYTES, BYTES));
            case "timestamped-key-value" -> keyValue(ValueForm.TIMESTAMPED,
                (store, retention) -> Stores.timestampedKeyValueStoreBuilder(
                    Stores.persistentTimestampedKeyValueStore(store), BYTES, BYTES));
            case "window" -> window(ValueForm.PLAIN, false,
                (store, retention) -> Stores.windowStoreBuilder(
                    Stores.persistentWindowStore(store, retention, WINDOW_SIZE, false), BYTES, BYTES));
            case "join-window" -> window(ValueForm.PLAIN, true,
                (store, retention) -> Stores.windowStoreBuilder(
                    Stores.persistentWindowStore(store, retention, WINDOW_SIZE, true), BYTES, BYTES));
            case "timestamped-window" -> window(ValueForm.TIMESTAMPED, false,
                (store, retention) -> Stores.timestampedWindowStoreBuilder(
                    Stores.persistentTimestampedWindowStore(store, retention, WINDOW_SIZE, false), BYTES, BYTES));
            case "session" -> session(ValueForm.PLAIN,
                (store, retention) -> Stores.sessionStoreBuilder(
                    Stores.persistentSessionStore(store, retention), BYTES, BYTES));
            case "versioned" -> new StoreKind(
                (store, retention) -> Stores.versionedKeyValueStoreBuilder(
                    Stores.persistentVersionedKeyValueStore(store, retention), BYTES, BYTES),
                VersionedCheck::apply, VersionedCheck::new);
            default -> (StoreKind) newer("of", String.class, word);
        };
    }

    static <V> StoreKind keyValue(
        final ValueForm<V> form,
        final BiFunction<String, Duration, StoreBuilder<?>> builder
    ) {
        return new StoreKind(builder, (store, event) -> KeyValueCheck.apply(form, store, event),
            retention -> new KeyValueCheck<>(form));
    }

    static <V> StoreKind window(
        final ValueForm<V> form,
        final boolean duplicates,
        final BiFunction<String, Duration, StoreBuilder<?>> builder
    ) {
        return new StoreKind(builder, (store, event) -> WindowCheck.apply(form, store, event),
            retention -> new WindowCheck<>(form, duplicates, retention));
    }

    static <V> StoreKind session(
        final ValueForm<V> form,
        final BiFunction<String, Duration, StoreBuilder<?>> builder
    ) {
        return new StoreKind(builder, (store, event) -> SessionCheck.apply(form, store, event),
            retention -> new SessionCheck<>(form, retention));
    }

    /** What only newer releases have lies in a class that is compiled against those alone: calls a method of it. */
    static Object newer(final String method, final Class<?> type, final Object argument) {
        try {
            return Class.forName("stateferry.live.HeadersKinds").getDeclaredMethod(method, type).invoke(null, argument);
        } catch (final ReflectiveOperationException failure) {
            throw new IllegalArgumentException("this release does not know " + argument, failure);
        }
    }

    @SuppressWarnings("unchecked")
    static <T> T cast(final Object store) {
        return (T) store;
    }
}
