import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Apache Kafka's tools one after another in one JVM. A line of input is a class and its arguments, between tabs; a
 * line of output is the exit status and, in Base64, what the tool printed. The end of the input ends the JVM at once, even
 * while a tool runs or threads of one are left: nobody waits for it any more.
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
        BlockingQueue<String> commands = new LinkedBlockingQueue<>();
        new Thread(() -> readInto(commands)).start();
        while (true) {
            String line = commands.take();
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream stream = new PrintStream(printed, true, StandardCharsets.UTF_8);
            System.setOut(stream);
            System.setErr(stream);
            int status = run(line.split("\t", -1));
            answers.println(status + " " + Base64.getEncoder().encodeToString(printed.toByteArray()));
        }
    }

    private static void readInto(BlockingQueue<String> commands) {
        try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            input.lines().forEach(commands::add);
        } catch (IOException | UncheckedIOException error) {
            Runtime.getRuntime().halt(1);
        }
        Runtime.getRuntime().halt(0);
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
