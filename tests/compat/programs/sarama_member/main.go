// A member of a group with sarama: `main BOOTSTRAP TOPIC GROUP`. What it prints and reads is in group_member.py.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

type member struct {
	topic    string
	sessions chan sarama.ConsumerGroupSession
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	var words []string
	for _, partition := range session.Claims()[m.topic] {
		words = append(words, fmt.Sprint(partition))
	}
	sort.Strings(words)
	select {
	case <-m.sessions:
	default:
	}
	m.sessions <- session
	fmt.Printf("assigned %s\n", strings.Join(words, ","))
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	fmt.Print("assigned \n")
	return nil
}

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, isOpen := <-claim.Messages():
			if !isOpen {
				return nil
			}
			session.MarkMessage(message, "")
			fmt.Printf("record %s\n", message.Value)
		case <-session.Context().Done():
			return nil
		}
	}
}

func main() {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = 30 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	config.Metadata.Retry.Max = 50
	group, err := sarama.NewConsumerGroup([]string{os.Args[1]}, os.Args[3], config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{os.Args[2], make(chan sarama.ConsumerGroupSession, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := group.Consume(ctx, []string{os.Args[2]}, m); err != nil {
				fmt.Fprintln(os.Stderr, err)
				time.Sleep(100 * time.Millisecond)
			}
		}
	}()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		session := <-m.sessions
		session.Commit()
		m.sessions <- session
		fmt.Println("committed")
	}
	cancel()
	<-done
	group.Close()
}
