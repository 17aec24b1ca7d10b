// Transactions with franz-go: `main BOOTSTRAP SOURCE TARGET COUNT` writes numbers to SOURCE in transactions of which every
// other one is aborted, then copies what was committed to TARGET, offsets in the same transaction, some tries undone.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const perTransaction = 20

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(ctx context.Context, bootstrap, topic string, count int) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap), kgo.TransactionalID(topic+"-writer"), kgo.DefaultProduceTopic(topic))
	check(err)
	defer client.Close()
	for begin := 0; begin < count; begin += perTransaction {
		for _, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
			check(client.BeginTransaction())
			for n := begin; n < min(begin+perTransaction, count); n++ {
				client.Produce(ctx, kgo.StringRecord(strconv.Itoa(n)), func(_ *kgo.Record, err error) { check(err) })
			}
			check(client.Flush(ctx))
			check(client.EndTransaction(ctx, end))
		}
	}
}

func copyAll(ctx context.Context, bootstrap, source, target string, count int) int {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(bootstrap), kgo.TransactionalID(target), kgo.DefaultProduceTopic(target),
		kgo.ConsumerGroup(target), kgo.ConsumeTopics(source), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RequireStableFetchOffsets(),
	)
	check(err)
	defer session.Close()
	copied, tries := 0, 0
	for copied < count {
		fetches := session.PollRecords(ctx, perTransaction)
		check(fetches.Err())
		check(session.Begin())
		promise := kgo.AbortingFirstErrPromise(session.Client())
		fetches.EachRecord(func(r *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Value: r.Value}, promise.Promise())
		})
		tries++
		committed, err := session.End(ctx, promise.Err() == nil && tries%3 != 0)
		check(err)
		if committed {
			copied += fetches.NumRecords()
		}
	}
	return copied
}

func fence(ctx context.Context, bootstrap, topic string) {
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap), kgo.TransactionalID(topic + "-fenced"), kgo.DefaultProduceTopic(topic)}
	old, err := kgo.NewClient(options...)
	check(err)
	check(old.BeginTransaction())
	check(old.ProduceSync(ctx, kgo.StringRecord("zombie")).FirstErr())
	young, err := kgo.NewClient(options...)
	check(err)
	check(young.BeginTransaction())
	check(young.ProduceSync(ctx, kgo.StringRecord("rightful")).FirstErr())
	check(young.EndTransaction(ctx, kgo.TryCommit))
	err = old.EndTransaction(ctx, kgo.TryCommit)
	if !errors.Is(err, kerr.ProducerFenced) && !errors.Is(err, kerr.InvalidProducerEpoch) {
		check(fmt.Errorf("the old producer was told %v", err))
	}
	young.Close()
	old.Close()
}

func main() {
	bootstrap, source, target := os.Args[1], os.Args[2], os.Args[3]
	count, err := strconv.Atoi(os.Args[4])
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	write(ctx, bootstrap, source, count)
	fmt.Printf("%d copied\n", copyAll(ctx, bootstrap, source, target, count))
	fence(ctx, bootstrap, target)
}
