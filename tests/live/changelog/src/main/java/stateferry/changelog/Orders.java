package stateferry.changelog;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;

/** Lists of orders as Confluent's serializers write them. An id that the registry file does not have is an error. */
final class Orders {
    private static final int FRAME = 5;
    private final Map<Integer, Schema> registry = new TreeMap<>();
    private final int id;
    private final Schema schema;

    /** The registry file is an object of schemas by id; this application reads and writes with one of them. */
    Orders(final JsonNode registryFile, final int id) {
        registryFile.properties().forEach(each -> registry.put(
            Integer.valueOf(each.getKey()), new Schema.Parser().parse(each.getValue().toString())));
        this.id = id;
        this.schema = registry.get(id);
    }

    Serde<List<Object>> serde() {
        return Serdes.serdeFrom((topic, orders) -> write(orders), (topic, data) -> read(data));
    }

    /** An order from JSON: a field by its name, by one of its aliases, or its default. */
    Object order(final JsonNode json) {
        Schema record = schema.getElementType();
        GenericData.Record order = new GenericData.Record(record);
        for (Schema.Field field : record.getFields()) {
            JsonNode given = json.get(field.name());
            for (String alias : field.aliases()) {
                given = given == null ? json.get(alias) : given;
            }
            order.put(field.pos(), given == null ? GenericData.get().getDefaultValue(field) : value(field, given));
        }
        return order;
    }

    private static Object value(final Schema.Field field, final JsonNode given) {
        return switch (field.schema().getType()) {
            case INT -> given.intValue();
            case LONG -> given.longValue();
            case BOOLEAN -> given.booleanValue();
            default -> given.textValue();
        };
    }

    private byte[] write(final List<Object> orders) {
        if (orders == null) {
            return null;
        }
        var out = new ByteArrayOutputStream();
        try {
            out.write(ByteBuffer.allocate(FRAME).put((byte) 0).putInt(id).array());
            BinaryEncoder encoder = EncoderFactory.get().directBinaryEncoder(out, null);
            new GenericDatumWriter<>(schema).write(orders, encoder);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return out.toByteArray();
    }

    private List<Object> read(final byte[] data) {
        if (data == null) {
            return null;
        }
        ByteBuffer frame = ByteBuffer.wrap(data);
        byte magic = frame.get();
        int written = frame.getInt();
        if (magic != 0 || !registry.containsKey(written)) {
            throw new SerializationException("a value of the unknown schema " + written);
        }
        BinaryDecoder decoder = DecoderFactory.get().binaryDecoder(data, FRAME, data.length - FRAME, null);
        try {
            return new GenericDatumReader<List<Object>>(registry.get(written), schema).read(null, decoder);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
