package stateferry.partitions;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Arrays;
import org.apache.avro.Schema;
import org.apache.avro.SchemaBuilder;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;

/** How keys such as "customer-17" are written: as text, as the number, or as an Avro record of both parts. */
final class Keys {
    private static final String NAME = "customer-";
    private static final Schema AVRO = SchemaBuilder.record("Key").fields()
        .requiredString("name").requiredLong("number").endRecord();
    private static final byte[] FRAME = {0, 0, 0, 0, 7};

    private Keys() {
    }

    static Serde<String> serde(final String name) {
        return switch (name) {
            case "text" -> Serdes.String();
            case "long" -> Serdes.serdeFrom(
                (topic, key) -> new LongSerializer().serialize(topic, number(key)),
                (topic, data) -> NAME + new LongDeserializer().deserialize(topic, data));
            case "avro" -> Serdes.serdeFrom((topic, key) -> written(key), (topic, data) -> read(data));
            default -> throw new IllegalArgumentException(name);
        };
    }

    private static long number(final String key) {
        return Long.parseLong(key.substring(NAME.length()));
    }

    private static byte[] written(final String key) {
        var out = new ByteArrayOutputStream();
        out.writeBytes(FRAME);
        var record = new GenericData.Record(AVRO);
        record.put("name", NAME);
        record.put("number", number(key));
        var encoder = EncoderFactory.get().directBinaryEncoder(out, null);
        try {
            new GenericDatumWriter<GenericRecord>(AVRO).write(record, encoder);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return out.toByteArray();
    }

    private static String read(final byte[] data) {
        if (!Arrays.equals(FRAME, 0, FRAME.length, data, 0, FRAME.length)) {
            throw new SerializationException("another frame");
        }
        var decoder = DecoderFactory.get().binaryDecoder(data, FRAME.length, data.length - FRAME.length, null);
        try {
            GenericRecord record = new GenericDatumReader<GenericRecord>(AVRO).read(null, decoder);
            return record.get("name").toString() + record.get("number");
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
