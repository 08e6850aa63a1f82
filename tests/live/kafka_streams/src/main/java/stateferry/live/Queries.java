package stateferry.live;

import org.apache.kafka.streams.query.KeyQuery;
import org.apache.kafka.streams.query.MultiVersionedKeyQuery;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.RangeQuery;
import org.apache.kafka.streams.query.TimestampedKeyQuery;
import org.apache.kafka.streams.query.TimestampedRangeQuery;
import org.apache.kafka.streams.query.VersionedKeyQuery;
import org.apache.kafka.streams.query.WindowKeyQuery;
import org.apache.kafka.streams.query.WindowRangeQuery;

/** A query by the name of its class; its last argument is the order, where it has one: "any" or a builder's name. */
final class Queries {
    private Queries() {
    }

    static Query<?> of(final String name, final Answers.Arguments of) {
        return switch (name) {
            case "KeyQuery" -> KeyQuery.withKey(of.key(0));
            case "TimestampedKeyQuery" -> TimestampedKeyQuery.withKey(of.key(0));
            case "RangeQuery" -> {
                final RangeQuery<byte[], Object> query = RangeQuery.withRange(of.key(0), of.key(1));
                yield switch (of.order()) {
                    case "any" -> query;
                    case "ascending" -> query.withAscendingKeys();
                    default -> query.withDescendingKeys();
                };
            }
            case "TimestampedRangeQuery" -> {
                final TimestampedRangeQuery<byte[], Object> query =
                    TimestampedRangeQuery.withRange(of.key(0), of.key(1));
                yield switch (of.order()) {
                    case "any" -> query;
                    case "ascending" -> query.withAscendingKeys();
                    default -> query.withDescendingKeys();
                };
            }
            case "WindowKeyQuery" -> WindowKeyQuery.withKeyAndWindowStartRange(of.key(0), of.instant(1), of.instant(2));
            case "WindowRangeQuery" -> of.count() == 1 ? WindowRangeQuery.withKey(of.key(0))
                : WindowRangeQuery.withWindowStartRange(of.instant(0), of.instant(1));
            case "VersionedKeyQuery" -> {
                final VersionedKeyQuery<byte[], Object> query = VersionedKeyQuery.withKey(of.key(0));
                yield of.instant(1) == null ? query : query.asOf(of.instant(1));
            }
            case "MultiVersionedKeyQuery" -> {
                final MultiVersionedKeyQuery<byte[], Object> query = MultiVersionedKeyQuery
                    .<byte[], Object>withKey(of.key(0)).fromTime(of.instant(1)).toTime(of.instant(2));
                yield switch (of.order()) {
                    case "any" -> query;
                    case "ascending" -> query.withAscendingTimestamps();
                    default -> query.withDescendingTimestamps();
                };
            }
            default -> throw new IllegalStateException(name);
        };
    }
}
