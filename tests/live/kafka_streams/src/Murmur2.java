import java.io.DataInputStream;
import java.io.EOFException;
import java.io.PrintStream;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;

/** For each key on standard input, behind its size in four bytes: its partition, of each number of them that is given. */
public final class Murmur2 {
    public static void main(String[] counts) throws Exception {
        DataInputStream input = new DataInputStream(new java.io.BufferedInputStream(System.in));
        PrintStream output = new PrintStream(new java.io.BufferedOutputStream(System.out));
        while (true) {
            byte[] key;
            try {
                key = new byte[input.readInt()];
            } catch (EOFException end) {
                break;
            }
            input.readFully(key);
            StringBuilder line = new StringBuilder();
            for (String count : counts) {
                line.append(BuiltInPartitioner.partitionForKey(key, Integer.parseInt(count))).append(' ');
            }
            output.println(line.toString().strip());
        }
        output.flush();
    }
}
