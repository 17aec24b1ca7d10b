// Produce, fetch and list topics with franz-go; `main BOOTSTRAP TOPIC` ends with status 0 when every record came back.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const perCodec = 500

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	bootstrap, topic := os.Args[1], os.Args[2]
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	codecs := []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	}
	first, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	check(err)
	admin := kadm.NewClient(first)
	_, err = admin.CreateTopic(ctx, 1, 1, nil, topic)
	check(err)
	for _, codec := range codecs {
		producer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ProducerBatchCompression(codec))
		check(err)
		for n := 0; n < perCodec; n++ {
			record := &kgo.Record{
				Topic: topic, Key: []byte(strconv.Itoa(n)), Value: []byte(fmt.Sprintf("value %d", n)),
				Timestamp: time.UnixMilli(1_700_000_000_000 + int64(n)),
				Headers:   []kgo.RecordHeader{{Key: "h", Value: []byte("1")}},
			}
			producer.Produce(ctx, record, func(_ *kgo.Record, err error) { check(err) })
		}
		check(producer.Flush(ctx))
		producer.Close()
	}
	listed, err := admin.ListTopics(ctx, topic)
	check(err)
	ends, err := admin.ListEndOffsets(ctx, topic)
	check(err)
	end, _ := ends.Lookup(topic, 0)
	if len(listed[topic].Partitions) != 1 || end.Offset != int64(perCodec*len(codecs)) {
		check(fmt.Errorf("listed %v, end %v", listed[topic], end))
	}
	consumer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumePartitions(
		map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	check(err)
	next := int64(0)
	for next < end.Offset {
		fetches := consumer.PollFetches(ctx)
		check(fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			n := next % perCodec
			if r.Offset != next || string(r.Value) != fmt.Sprintf("value %d", n) || len(r.Headers) != 1 ||
				r.Timestamp.UnixMilli() != 1_700_000_000_000+n {
				check(fmt.Errorf("record %d is %+v", next, r))
			}
			next++
		})
	}
	consumer.Close()
	first.Close()
	fmt.Printf("%d records\n", next)
}
