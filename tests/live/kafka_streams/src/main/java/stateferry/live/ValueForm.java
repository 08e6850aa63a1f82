package stateferry.live;

import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.ValueAndTimestamp;

/** What a kind of store takes and gives as a value, and what of a Held it keeps. */
interface ValueForm<V> {
    ValueForm<byte[]> PLAIN = new ValueForm<>() {
        @Override
        public byte[] make(final Held held) {
            return held.value().get();
        }

        @Override
        public Held read(final byte[] value) {
            return new Held(Bytes.wrap(value), null, null);
        }

        @Override
        public Held kept(final Held held) {
            return new Held(held.value(), null, null);
        }
    };

    ValueForm<ValueAndTimestamp<byte[]>> TIMESTAMPED = new ValueForm<>() {
        @Override
        public ValueAndTimestamp<byte[]> make(final Held held) {
            return ValueAndTimestamp.make(held.value().get(), held.timestamp());
        }

        @Override
        public Held read(final ValueAndTimestamp<byte[]> value) {
            return new Held(Bytes.wrap(value.value()), value.timestamp(), null);
        }

        @Override
        public Held kept(final Held held) {
            return new Held(held.value(), timestamp(held), null);
        }
    };

    V make(Held held);

    Held read(V value);

    Held kept(Held held);

    /** The value to put; null deletes. */
    default V put(final Held held) {
        return held == null ? null : make(held);
    }

    /** What was found; null if nothing was. */
    default Held found(final V value) {
        return value == null ? null : read(value);
    }

    /** What a store keeps of a write; null if it deletes. */
    default Held keptOf(final Held held) {
        return held == null ? null : kept(held);
    }

    static long timestamp(final Held held) {
        if (held.timestamp() == null) {
            throw new IllegalArgumentException("no timestamp is given for an expected record");
        }
        return held.timestamp();
    }
}
