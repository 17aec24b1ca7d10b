import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.HashMap;
import java.util.Map;

import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Reads lines "class version hex" and answers each with what Kafka's own class makes of it: the bytes that it writes again
 * and the JSON of its fields, separated by a tab; or "!" and what went wrong.
 */
public class MessageEcho {
    private static final Map<String, Method> CONVERTERS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        PrintStream output = new PrintStream(System.out, false, "UTF-8");
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ", -1);
            try {
                output.println(echo(words[0], Short.parseShort(words[1]), HexFormat.of().parseHex(words[2])));
            } catch (Throwable error) {
                output.println("!" + error.toString().replace('\n', ' '));
            }
        }
        output.flush();
    }

    private static String echo(String className, short version, byte[] bytes) throws Exception {
        Class<?> type = Class.forName(className);
        Message message = (Message) type.getDeclaredConstructor().newInstance();
        ByteBuffer data = ByteBuffer.wrap(bytes);
        message.read(new ByteBufferAccessor(data), version);
        if (data.hasRemaining()) {
            return "!" + data.remaining() + " bytes are left over";
        }
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer again = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(again), cache, version);
        Method converter = CONVERTERS.get(className);
        if (converter == null) {
            converter = Class.forName(className + "JsonConverter").getMethod("write", type, short.class, boolean.class);
            CONVERTERS.put(className, converter);
        }
        return HexFormat.of().formatHex(again.array()) + "\t" + converter.invoke(null, message, version, false);
    }
}
