import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HexFormat;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;

/**
 * Reads values with another schema and writes them with it: a line of "writer reader value..." in base64 becomes a line
 * of "=hex" or "!base64 of the error" for each value.
 */
final class Resolve {
    public static void main(String[] arguments) throws IOException {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        var out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(line.split(" ")));
        }
        out.flush();
    }

    private static String answer(String[] words) {
        var answers = new StringBuilder();
        for (int at = 2; at < words.length; at++) {
            String found;
            try {
                found = "=" + HexFormat.of().formatHex(resolved(schema(words[0]), schema(words[1]), bytes(words[at])));
            } catch (IOException | RuntimeException | StackOverflowError error) {
                String told = error.toString();
                found = "!" + Base64.getEncoder().encodeToString(told.getBytes(StandardCharsets.UTF_8));
            }
            answers.append(at == 2 ? "" : " ").append(found);
        }
        return answers.toString();
    }

    private static byte[] resolved(Schema writer, Schema reader, byte[] data) throws IOException {
        BinaryDecoder decoder = DecoderFactory.get().binaryDecoder(data, null);
        Object datum = new GenericDatumReader<>(writer, reader).read(null, decoder);
        if (!decoder.isEnd()) {
            throw new IOException("bytes are left");
        }
        var out = new ByteArrayOutputStream();
        BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(out, null);
        new GenericDatumWriter<>(reader).write(datum, encoder);
        encoder.flush();
        return out.toByteArray();
    }

    private static Schema schema(String word) {
        return new Schema.Parser().parse(new String(bytes(word), StandardCharsets.UTF_8));
    }

    private static byte[] bytes(String word) {
        return Base64.getDecoder().decode(word.substring(1));
    }
}
