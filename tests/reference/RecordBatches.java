// Builds record batches with Apache Kafka's classes and reads batches that others built. Standard input: a JSON array of
// cases, each with what MemoryRecordsBuilder is asked for and, as "ours", a batch to read. Standard output: an array with
// an object for each, "theirs" the batch and "read" what was read. Bytes are base64.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;

public class RecordBatches {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode item : JSON.readTree(System.in)) {
            ObjectNode answer = answers.addObject();
            answer.put("theirs", build(item));
            if (item.has("ours"))
                read(ByteBuffer.wrap(item.get("ours").binaryValue()), answer.putObject("read"));
        }
        System.out.println(JSON.writeValueAsString(answers));
    }

    private static byte[] build(JsonNode item) throws Exception {
        ByteBuffer buffer = ByteBuffer.allocate(1 << 16);
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
            buffer, RecordBatch.CURRENT_MAGIC_VALUE, Compression.of(CompressionType.forId(item.get("codec").asInt())).build(),
            item.get("log_append_time").isNull() ? TimestampType.CREATE_TIME : TimestampType.LOG_APPEND_TIME,
            item.get("base_offset").asLong(), item.get("log_append_time").asLong(RecordBatch.NO_TIMESTAMP),
            item.get("producer_id").asLong(), (short) item.get("producer_epoch").asInt(),
            item.get("base_sequence").asInt(), item.get("transactional").asBoolean(), item.get("control").asBoolean(),
            item.get("leader_epoch").asInt(), buffer.capacity());
        if (item.has("marker")) {
            builder.appendEndTxnMarker(item.get("timestamp").asLong(), new EndTransactionMarker(
                ControlRecordType.valueOf(item.get("marker").asText()), item.get("coordinator_epoch").asInt()));
        } else {
            for (JsonNode record : item.get("records")) {
                List<Header> headers = new ArrayList<>();
                for (JsonNode header : record.get("headers"))
                    headers.add(new RecordHeader(header.get(0).asText(), header.get(1).binaryValue()));
                builder.append(new SimpleRecord(record.get("timestamp").asLong(), record.get("key").binaryValue(),
                    record.get("value").binaryValue(), headers.toArray(new Header[0])));
            }
        }
        MemoryRecords records = builder.build();
        byte[] bytes = new byte[records.sizeInBytes()];
        records.buffer().get(bytes);
        return bytes;
    }

    private static void read(ByteBuffer buffer, ObjectNode answer) {
        RecordBatch batch = MemoryRecords.readableRecords(buffer).batches().iterator().next();
        batch.ensureValid();
        answer.put("base_offset", batch.baseOffset());
        answer.put("last_offset", batch.lastOffset());
        answer.put("leader_epoch", batch.partitionLeaderEpoch());
        answer.put("codec", batch.compressionType().id);
        answer.put("log_append_time", batch.timestampType() == TimestampType.LOG_APPEND_TIME);
        answer.put("max_timestamp", batch.maxTimestamp());
        answer.put("producer_id", batch.producerId());
        answer.put("producer_epoch", batch.producerEpoch());
        answer.put("base_sequence", batch.baseSequence());
        answer.put("last_sequence", batch.lastSequence());
        answer.put("transactional", batch.isTransactional());
        answer.put("control", batch.isControlBatch());
        answer.put("size", batch.sizeInBytes());
        ArrayNode records = answer.putArray("records");
        for (Record record : batch) {
            ObjectNode each = records.addObject();
            each.put("offset", record.offset());
            each.put("timestamp", record.timestamp());
            each.put("key", bytes(record.key()));
            each.put("value", bytes(record.value()));
            ArrayNode headers = each.putArray("headers");
            for (Header header : record.headers())
                headers.addArray().add(header.key()).add(header.value());
        }
    }

    private static byte[] bytes(ByteBuffer buffer) {
        if (buffer == null)
            return null;
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }
}
