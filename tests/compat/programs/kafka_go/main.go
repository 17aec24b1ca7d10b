// Produce and fetch with segmentio's kafka-go, by its writer and reader and by the older Conn:
// `main BOOTSTRAP TOPIC` ends with status 0 when every record came back.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/segmentio/kafka-go"
)

const perCodec = 300

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func messages() []kafka.Message {
	made := make([]kafka.Message, perCodec)
	for n := range made {
		made[n] = kafka.Message{
			Key: []byte(fmt.Sprint(n)), Value: []byte(fmt.Sprintf("value %d", n)),
			Time: time.UnixMilli(1_700_000_000_000 + int64(n)),
		}
	}
	return made
}

func main() {
	bootstrap, topic := os.Args[1], os.Args[2]
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	first, err := kafka.DialContext(ctx, "tcp", bootstrap)
	check(err)
	check(first.CreateTopics(kafka.TopicConfig{Topic: topic, NumPartitions: 1, ReplicationFactor: 1}))
	first.Close()
	conn, err := kafka.DialLeader(ctx, "tcp", bootstrap, topic, 0)
	check(err)
	for _, codec := range []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4} {
		if codec == 0 {
			_, err = conn.WriteMessages(messages()...)
		} else {
			_, err = conn.WriteCompressedMessages(codec.Codec(), messages()...)
		}
		check(err)
	}
	writer := &kafka.Writer{Addr: kafka.TCP(bootstrap), Topic: topic, Compression: kafka.Zstd, BatchTimeout: time.Millisecond}
	check(writer.WriteMessages(ctx, messages()...))
	check(writer.Close())
	begin, end, err := conn.ReadOffsets()
	check(err)
	if begin != 0 || end != 5*perCodec {
		check(fmt.Errorf("offsets %d to %d", begin, end))
	}
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{bootstrap}, Topic: topic, MaxBytes: 1 << 20})
	for next := int64(0); next < end; next++ {
		m, err := reader.ReadMessage(ctx)
		check(err)
		n := next % perCodec
		if m.Offset != next || string(m.Value) != fmt.Sprintf("value %d", n) || m.Time.UnixMilli() != 1_700_000_000_000+n {
			check(fmt.Errorf("message %d is %+v", next, m))
		}
	}
	check(reader.Close())
	check(conn.Close())
	fmt.Printf("%d records\n", end)
}
