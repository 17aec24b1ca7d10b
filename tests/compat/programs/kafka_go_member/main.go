// A member of a group with segmentio's kafka-go: `main BOOTSTRAP TOPIC GROUP`. What it prints and reads is in
// group_member.py.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

var (
	mutex      sync.Mutex
	generation *kafka.Generation
	offsets    = map[int]int64{}
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(ctx context.Context, bootstrap, topic string, partition int, offset int64) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{bootstrap}, Topic: topic, Partition: partition, MaxBytes: 1 << 20, MaxWait: 100 * time.Millisecond,
	})
	defer reader.Close()
	check(reader.SetOffset(offset))
	for {
		message, err := reader.ReadMessage(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		mutex.Lock()
		offsets[partition] = message.Offset + 1
		mutex.Unlock()
		fmt.Printf("record %s\n", message.Value)
	}
}

func live(group *kafka.ConsumerGroup, bootstrap, topic string) {
	for {
		next, err := group.Next(context.Background())
		if errors.Is(err, kafka.ErrGroupClosed) {
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		mutex.Lock()
		generation = next
		clear(offsets)
		mutex.Unlock()
		var words []string
		for _, each := range next.Assignments[topic] {
			words = append(words, fmt.Sprint(each.ID))
		}
		sort.Strings(words)
		fmt.Printf("assigned %s\n", strings.Join(words, ","))
		for _, each := range next.Assignments[topic] {
			next.Start(func(ctx context.Context) { read(ctx, bootstrap, topic, each.ID, each.Offset) })
		}
		next.Start(func(ctx context.Context) {
			<-ctx.Done()
			fmt.Print("assigned \n")
		})
	}
}

// patiently tries again when it comes in the middle of a rebalance.
func patiently(try func() error) {
	err := try()
	for tries := 1; err != nil && tries < 300; tries++ {
		time.Sleep(100 * time.Millisecond)
		err = try()
	}
	check(err)
}

func commit(topic string) error {
	mutex.Lock()
	defer mutex.Unlock()
	return generation.CommitOffsets(map[string]map[int]int64{topic: offsets})
}

func main() {
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: os.Args[3], Brokers: []string{os.Args[1]}, Topics: []string{os.Args[2]}, StartOffset: kafka.FirstOffset,
		// Joining anew after a restart of the broker, it forgets who it was: that one's session must end first.
		SessionTimeout: 10 * time.Second, HeartbeatInterval: 300 * time.Millisecond, JoinGroupBackoff: 200 * time.Millisecond,
	})
	check(err)
	go live(group, os.Args[1], os.Args[2])
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		patiently(func() error { return commit(os.Args[2]) })
		fmt.Println("committed")
	}
	check(group.Close())
}
