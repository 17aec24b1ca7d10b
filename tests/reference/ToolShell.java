import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Apache Kafka's tools one after another in one JVM. A line of input is a class and its arguments, between tabs; a
 * line of output is the exit status and, in Base64, what the tool printed.
 */
public class ToolShell {
    private static class Ended extends RuntimeException {
        private final int status;

        Ended(int status) {
            this.status = status;
        }
    }

    public static void main(String[] none) throws Exception {
        Exit.setExitProcedure((status, message) -> {
            throw new Ended(status);
        });
        PrintStream answers = System.out;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream stream = new PrintStream(printed, true, StandardCharsets.UTF_8);
            System.setOut(stream);
            System.setErr(stream);
            int status = run(line.split("\t", -1));
            answers.println(status + " " + Base64.getEncoder().encodeToString(printed.toByteArray()));
        }
    }

    private static int run(String[] command) throws Exception {
        String[] arguments = Arrays.copyOfRange(command, 1, command.length);
        try {
            Class.forName(command[0]).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException thrown) {
            if (thrown.getCause() instanceof Ended ended) {
                return ended.status;
            }
            System.err.println(thrown.getCause());
            return 1;
        }
    }
}
