import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;

/** Counts the records of one topic into another with exactly_once_v2; ends after so many: bootstrap, in, out, count. */
public class StreamsCopy {
    public static void main(String[] arguments) throws Exception {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[2]);
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        config.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        config.put(StreamsConfig.STATE_DIR_CONFIG, arguments[4]);
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put("auto.offset.reset", "earliest");
        long count = Long.parseLong(arguments[3]);
        AtomicLong seen = new AtomicLong();
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[1])
            .peek((key, value) -> seen.incrementAndGet())
            .groupByKey()
            .count()
            .toStream()
            .mapValues(number -> Long.toString(number))
            .to(arguments[2]);
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.start();
        long end = System.nanoTime() + Duration.ofSeconds(180).toNanos();
        while (seen.get() < count && System.nanoTime() < end) {
            Thread.sleep(50);
        }
        streams.close(Duration.ofSeconds(60));
        System.out.println("seen " + seen.get());
    }
}
