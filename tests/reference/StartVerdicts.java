import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Properties;
import kafka.server.KafkaConfig;

/**
 * What Apache Kafka says of static configurations. A line of input is a properties file in Base64; a line of output is
 * the message with which the file is refused, in Base64, or nothing.
 */
public class StartVerdicts {
    public static void main(String[] none) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // Kafka's own log
        BufferedReader files = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = files.readLine(); line != null; line = files.readLine()) {
            Properties properties = new Properties();
            properties.load(new StringReader(new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8)));
            String verdict = "";
            try {
                KafkaConfig.fromProps(properties, false);
            } catch (Throwable refused) {
                verdict = String.valueOf(refused.getMessage());
            }
            answers.println(Base64.getEncoder().encodeToString(verdict.getBytes(StandardCharsets.UTF_8)));
        }
    }
}
