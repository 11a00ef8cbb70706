package aws_test

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"tenon.sh/engine"
	"tenon.sh/provider/aws"
)

// BenchmarkQueueOf500 announces the end of 500 machines on the queue within ten seconds, and acknowledges notices as they arrive. It measures
// the longest time between the sending of a message and its deletion. The server's own time is part of it.
//
//	go test -bench QueueOf500 -benchtime 1x
func BenchmarkQueueOf500(b *testing.B) {
	for b.Loop() {
		w := newWorld(b, func(c *aws.Config) {
			withQueue(c)
			untried(c)
			c.QueueWait = time.Second
		})
		queue := w.account.NewQueue("interruptions")
		c := w.resolved("general", nil)
		const n = 500
		for i := range n {
			w.started(fmt.Sprintf("claim-%d", i), fmt.Sprintf("i-%04d", i), c)
		}
		sent := make([]time.Time, n)
		began := time.Now()
		var senders errgroup.Group
		senders.SetLimit(8)
		go func() {
			for i := range n {
				time.Sleep(time.Until(began.Add(time.Duration(i) * 10 * time.Second / n)))
				senders.Go(func() error {
					sent[i] = time.Now()
					w.account.Send(queue, about("EC2 Spot Instance Interruption Warning", fmt.Sprintf("i-%04d", i)))
					return nil
				})
			}
		}()
		slowest := time.Duration(0)
		heard := map[engine.MachineID]bool{}
		for len(heard) < n && time.Since(began) < time.Minute {
			list, err := w.queue().Notices(b.Context())
			w.must(err)
			var group errgroup.Group
			for _, x := range list {
				heard[x.Machine] = true
				group.Go(func() error { return w.queue().Acknowledge(b.Context(), x) })
			}
			w.must(group.Wait())
			for _, x := range list {
				var i int
				_, err := fmt.Sscanf(string(x.Machine), "aws:///us-west-2a/i-%d", &i)
				w.must(err)
				slowest = max(slowest, time.Since(sent[i]))
			}
		}
		w.must(senders.Wait())
		if len(heard) != n {
			b.Errorf("heard of %d machines", len(heard))
		}
		b.ReportMetric(slowest.Seconds(), "s/slowest")
		b.ReportMetric(float64(len(w.account.Calls("sqs:ReceiveMessage"))), "receives")
		b.ReportMetric(float64(len(w.account.Calls("sqs:DeleteMessageBatch"))), "deletes")
	}
}
