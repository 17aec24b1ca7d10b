import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Semaphore;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member of a group with Java's KafkaConsumer: bootstrap, topic, group. What it prints and reads is in group_member.py. */
public class GroupMember implements ConsumerRebalanceListener {
    private final KafkaConsumer<String, String> consumer;
    private final Semaphore commits = new Semaphore(0);
    private volatile boolean isAsked = true;

    GroupMember(String bootstrap, String topic, String group) {
        consumer = new KafkaConsumer<>(Map.of(
            ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap,
            ConsumerConfig.GROUP_ID_CONFIG, group,
            ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest",
            ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false,
            ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, 30000,
            ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, 300,
            ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class,
            ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class));
        consumer.subscribe(List.of(topic), this);
    }

    public static void main(String[] arguments) throws Exception {
        GroupMember member = new GroupMember(arguments[0], arguments[1], arguments[2]);
        Thread asking = new Thread(member::listen);
        asking.setDaemon(true);
        asking.start();
        member.run();
    }

    private void listen() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            while (lines.readLine() != null) {
                commits.release();
            }
        } catch (java.io.IOException gone) {
            System.err.println(gone);
        }
        isAsked = false;
    }

    private void run() {
        while (isAsked) {
            consumer.poll(Duration.ofMillis(50)).forEach(record -> System.out.println("record " + record.value()));
            if (commits.tryAcquire()) {
                commit();
            }
        }
        consumer.close();
    }

    private void commit() {
        try {
            consumer.commitSync();
            System.out.println("committed");
        } catch (RebalanceInProgressException again) {
            commits.release(); // it wants to be polled first
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> added) {
        show(consumer.assignment());
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> taken) {
        Set<TopicPartition> kept = new HashSet<>(consumer.assignment());
        kept.removeAll(taken);
        show(kept);
    }

    private static void show(Collection<TopicPartition> partitions) {
        System.out.println("assigned " + partitions.stream()
            .map(each -> String.valueOf(each.partition())).collect(Collectors.joining(",")));
    }
}
