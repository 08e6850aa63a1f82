package stateferry.live;

import java.time.Duration;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.kafka.streams.state.StoreBuilder;

/** A store of the application, its kind, and the retention time of a windowed, session or versioned one. */
record NamedStore(String name, StoreKind kind, long retention) {
    StoreBuilder<?> builder() {
        return kind.builder().apply(name, Duration.ofMillis(retention));
    }

    StoreCheck check() {
        return kind.checker().check(retention);
    }

    /** Reads "NAME=KIND:RETENTION,...". */
    static SortedMap<String, NamedStore> of(final String list) {
        final SortedMap<String, NamedStore> stores = new TreeMap<>();
        for (final String item : list.split(",")) {
            final String[] words = item.split("[=:]");
            stores.put(words[0], new NamedStore(words[0], StoreKind.of(words[1]), Long.parseLong(words[2])));
        }
        return stores;
    }
}
