// Builds message sets of formats 0 and 1 with Apache Kafka's classes, reads sets that others built, and converts batches
// down. Standard input: a JSON array of cases; standard output: an array with an object for each. Bytes are base64.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;

public class MessageSets {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode item : JSON.readTree(System.in)) {
            ObjectNode answer = answers.addObject();
            answer.put("theirs", build(item));
            read(MemoryRecords.readableRecords(ByteBuffer.wrap(item.get("ours").binaryValue())), answer.putArray("read"));
            MemoryRecords batch = MemoryRecords.readableRecords(ByteBuffer.wrap(item.get("batch").binaryValue()));
            byte magic = (byte) item.get("magic").asInt();
            MemoryRecords down = batch.downConvert(magic, item.get("first_offset").asLong(), Time.SYSTEM).records();
            answer.put("down", Utils.toArray(down.buffer()));
        }
        System.out.println(JSON.writeValueAsString(answers));
    }

    private static byte[] build(JsonNode item) throws Exception {
        JsonNode records = item.get("records");
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(1 << 16), (byte) item.get("magic").asInt(),
            Compression.of(CompressionType.forId(item.get("codec").asInt())).build(), TimestampType.CREATE_TIME,
            records.get(0).get("offset").asLong());
        for (JsonNode record : records)
            builder.appendWithOffset(record.get("offset").asLong(), record.get("timestamp").asLong(),
                record.get("key").binaryValue(), record.get("value").binaryValue());
        return Utils.toArray(builder.build().buffer());
    }

    private static void read(MemoryRecords records, ArrayNode found) {
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                record.ensureValid();
                ObjectNode each = found.addObject();
                each.put("offset", record.offset());
                each.put("timestamp", record.timestamp());
                each.put("key", record.hasKey() ? Utils.toArray(record.key()) : null);
                each.put("value", record.hasValue() ? Utils.toArray(record.value()) : null);
            }
        }
    }
}
