package stateferry.partitions;

import java.util.List;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;

/** Puts each record into every store. */
final class Keeper extends ContextualProcessor<String, String, Void, Void> {
    private final List<Kept> stores;

    Keeper(final List<Kept> stores) {
        this.stores = stores;
    }

    @Override
    public void process(final Record<String, String> input) {
        for (Kept each : stores) {
            each.put(context().getStateStore(each.name()), input.key(), input.value(), input.timestamp());
        }
    }
}
