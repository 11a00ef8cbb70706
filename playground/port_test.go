package playground

import (
	"net"
	"strings"
	"testing"
)

// A stolenPort stays in use after the playground has released it.
type stolenPort struct{ net.Listener }

func (stolenPort) Close() error { return nil }

// thief takes the ports of the first n choices.
func thief(t *testing.T, n int) listenFunc {
	return func() (net.Listener, error) {
		listener, err := listenLoopback()
		if err != nil || n == 0 {
			return listener, err
		}
		n--
		t.Cleanup(func() { _ = listener.Close() })
		return stolenPort{listener}, nil
	}
}

func TestAPortTakenInBetweenMakesAnotherAttempt(t *testing.T) {
	t.Parallel()
	var steps []string
	p, err := Start(t.Context(), Config{
		Components: []string{APIServer},
		Progress:   func(line string) { steps = append(steps, line) },
		listen:     thief(t, len(new(ports).all())),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if text := strings.Join(steps, "\n"); strings.Count(text, "another program took a port") != 1 {
		t.Errorf("the steps were:\n%s", text)
	}
}

func TestPortsThatAreAlwaysTakenAreNamed(t *testing.T) {
	t.Parallel()
	p, err := Start(t.Context(), Config{Components: []string{APIServer}, listen: thief(t, -1)})
	if err == nil {
		t.Fatal("it started", p.Stop())
	}
	if text := err.Error(); !strings.Contains(text, "etcd ended by itself") || !strings.Contains(text, "address already in use") {
		t.Errorf("the error is: %s", text)
	}
}
