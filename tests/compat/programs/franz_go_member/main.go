// A member of a group with franz-go: `main BOOTSTRAP TOPIC GROUP`. What it prints and reads is in group_member.py.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	mutex sync.Mutex
	owned = map[int32]bool{}
)

func change(topic string, given map[string][]int32, isOwned bool) {
	mutex.Lock()
	defer mutex.Unlock()
	for _, partition := range given[topic] {
		if isOwned {
			owned[partition] = true
		} else {
			delete(owned, partition)
		}
	}
	var words []string
	for partition := range owned {
		words = append(words, fmt.Sprint(partition))
	}
	sort.Strings(words)
	fmt.Println("assigned", strings.Join(words, ","))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
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

func main() {
	topic := os.Args[2]
	on := func(isOwned bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, given map[string][]int32) { change(topic, given, isOwned) }
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Args[1]), kgo.ConsumeTopics(topic), kgo.ConsumerGroup(os.Args[3]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(30*time.Second), kgo.HeartbeatInterval(300*time.Millisecond),
		kgo.OnPartitionsAssigned(on(true)), kgo.OnPartitionsRevoked(on(false)), kgo.OnPartitionsLost(on(false)),
	)
	check(err)
	go func() {
		for {
			fetches := client.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			fetches.EachError(func(_ string, _ int32, err error) { fmt.Fprintln(os.Stderr, err) })
			fetches.EachRecord(func(r *kgo.Record) {
				mutex.Lock()
				fmt.Println("record", string(r.Value))
				mutex.Unlock()
			})
		}
	}()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		patiently(func() error { return client.CommitUncommittedOffsets(context.Background()) })
		fmt.Println("committed")
	}
	client.Close()
}
