import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** Kafka Connect's example in its smallest form: connectors from the lines of a file (`file`) to a topic, and back. */
public class FileLines {
    private static final ConfigDef CONFIG = new ConfigDef()
        .define("file", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "The file.");

    public static class Source extends SourceConnector {
        private Map<String, String> settings;

        @Override
        public String version() {
            return "1";
        }

        @Override
        public ConfigDef config() {
            return CONFIG;
        }

        @Override
        public void start(Map<String, String> given) {
            settings = given;
        }

        @Override
        public Class<? extends Task> taskClass() {
            return Reader.class;
        }

        @Override
        public List<Map<String, String>> taskConfigs(int most) {
            return List.of(settings);
        }

        @Override
        public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> given) {
            return ExactlyOnceSupport.SUPPORTED;
        }

        @Override
        public void stop() { }
    }

    /** Its place in the file is the source's offset. */
    public static class Reader extends SourceTask {
        private static final int LINES_MAX = 200;
        private Map<String, String> settings;
        private RandomAccessFile file;

        @Override
        public String version() {
            return "1";
        }

        @Override
        public void start(Map<String, String> given) {
            settings = given;
            Map<String, Object> stored = context.offsetStorageReader().offset(Map.of("file", settings.get("file")));
            try {
                file = new RandomAccessFile(settings.get("file"), "r");
                file.seek(stored == null ? 0 : (Long) stored.get("position"));
            } catch (IOException error) {
                throw new ConnectException(error);
            }
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            List<SourceRecord> records = new ArrayList<>();
            try {
                while (records.size() < LINES_MAX && file.getFilePointer() < file.length()) {
                    String line = new String(file.readLine().getBytes(StandardCharsets.ISO_8859_1), StandardCharsets.UTF_8);
                    records.add(new SourceRecord(
                        Map.of("file", settings.get("file")), Map.of("position", file.getFilePointer()),
                        settings.get("topic"), Schema.STRING_SCHEMA, line));
                }
            } catch (IOException error) {
                throw new ConnectException(error);
            }
            if (records.isEmpty()) {
                Thread.sleep(50);
            }
            return records;
        }

        @Override
        public void stop() {
            try {
                file.close();
            } catch (IOException error) {
                throw new ConnectException(error);
            }
        }
    }

    public static class Sink extends SinkConnector {
        private Map<String, String> settings;

        @Override
        public String version() {
            return "1";
        }

        @Override
        public ConfigDef config() {
            return CONFIG;
        }

        @Override
        public void start(Map<String, String> given) {
            settings = given;
        }

        @Override
        public Class<? extends Task> taskClass() {
            return Writer.class;
        }

        @Override
        public List<Map<String, String>> taskConfigs(int most) {
            return List.of(settings);
        }

        @Override
        public void stop() { }
    }

    public static class Writer extends SinkTask {
        private Path file;

        @Override
        public String version() {
            return "1";
        }

        @Override
        public void start(Map<String, String> settings) {
            file = Path.of(settings.get("file"));
        }

        @Override
        public void put(Collection<SinkRecord> records) {
            StringBuilder lines = new StringBuilder();
            records.forEach(record -> lines.append(record.value()).append('\n'));
            try {
                Files.writeString(file, lines, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (IOException error) {
                throw new ConnectException(error);
            }
        }

        @Override
        public void stop() { }
    }
}
