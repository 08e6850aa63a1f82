import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.UUID;
import org.apache.kafka.common.serialization.BooleanSerializer;
import org.apache.kafka.common.serialization.DoubleSerializer;
import org.apache.kafka.common.serialization.FloatSerializer;
import org.apache.kafka.common.serialization.IntegerSerializer;
import org.apache.kafka.common.serialization.ListSerializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.serialization.ShortSerializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.serialization.UUIDSerializer;

/** Prints kafka-clients.tsv: java -cp kafka-clients-4.3.1.jar:slf4j-api.jar SerdeVectors.java */
public final class SerdeVectors {
    private SerdeVectors() {}

    public static void main(String[] arguments) {
        for (int number : new int[] {0, 1, -1, 42, Integer.MAX_VALUE, Integer.MIN_VALUE}) {
            print("int32", number, new IntegerSerializer().serialize("t", number));
        }
        for (long number : new long[] {0, 1, -1, 61000, Long.MAX_VALUE, Long.MIN_VALUE}) {
            print("int64", number, new LongSerializer().serialize("t", number));
        }
        for (double number : new double[] {
            0.0, -0.0, 1.0, -1.5, 0.1, Double.MAX_VALUE, Double.MIN_VALUE,
            Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, Double.NaN
        }) {
            print("double", number, new DoubleSerializer().serialize("t", number));
        }
        for (String text : List.of("", "k", "us\u00e9r", "\u0000", "\ud83d\ude00")) {
            String codePoints = text.codePoints().mapToObj(Integer::toHexString).reduce((a, b) -> a + " " + b).orElse("");
            print("string", codePoints, new StringSerializer().serialize("t", text));
        }
        for (String text : List.of(
            "89791762-2336-4186-9674-299b90a802e2",
            "00000000-0000-0000-0000-000000000000",
            "ffffffff-ffff-ffff-ffff-ffffffffffff"
        )) {
            print("uuid", text, new UUIDSerializer().serialize("t", UUID.fromString(text)));
        }
        for (short number : new short[] {0, 1, -1, Short.MAX_VALUE, Short.MIN_VALUE}) {
            print("int16", number, new ShortSerializer().serialize("t", number));
        }
        for (float number : new float[] {
            0f, -0f, 1f, -1.5f, Float.MAX_VALUE, Float.MIN_VALUE, Float.POSITIVE_INFINITY, Float.NaN
        }) {
            print("float", (double) number, new FloatSerializer().serialize("t", number));
        }
        print("boolean", true, new BooleanSerializer().serialize("t", true));
        print("boolean", false, new BooleanSerializer().serialize("t", false));
        lists();
    }

    private static void lists() {
        list("int16", new ShortSerializer(), (short) 1, null, (short) -1);
        list("int32", new IntegerSerializer(), 1, null, -1, null);
        list("int32", new IntegerSerializer());
        list("int32", new IntegerSerializer(), 5);
        list("int64", new LongSerializer(), null, 7L);
        list("float", new FloatSerializer(), 1.5f, null);
        list("double", new DoubleSerializer(), null, 1.5);
        list("uuid", new UUIDSerializer(), UUID.fromString("89791762-2336-4186-9674-299b90a802e2"), null);
        list("boolean", new BooleanSerializer(), true, null, false);
        list("string", new StringSerializer(), "a", null, "", "us");
        list("string", new StringSerializer());
        list("string", new StringSerializer(), (String) null);
    }

    @SafeVarargs
    private static <T> void list(String inner, Serializer<T> serializer, T... entries) {
        List<T> all = Arrays.asList(entries);
        print("list of " + inner, all, new ListSerializer<>(serializer).serialize("t", all));
    }

    private static void print(String serde, Object value, byte[] payload) {
        System.out.println(serde + "\t" + value + "\t" + HexFormat.of().formatHex(payload));
    }
}
