package playgroundtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// Ports from firstPort on, portsGiven of them, lie below those that Linux, macOS and Windows give to outgoing connections. A
// port from among those could be taken by a connection of another test before the program that it was meant for listens.
const firstPort, portsGiven = 20000, 10000

// given are the ports that this process was given: each is given once. It is a package variable for the reason that shared is.
var given struct {
	mu    sync.Mutex // guards the field below
	ports map[int]bool
}

// FreePort is a port of the loopback interface on which nothing listens, for a program that cannot choose its own. It fails the
// test if there seems to be none.
func FreePort(t testing.TB) int {
	t.Helper()
	given.mu.Lock()
	defer given.mu.Unlock()
	if given.ports == nil {
		given.ports = map[int]bool{}
	}
	for range 100 {
		port := firstPort + rand.IntN(portsGiven)
		if given.ports[port] {
			continue
		}
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		_ = listener.Close()
		given.ports[port] = true
		return port
	}
	t.Fatalf("no free port found between %d and %d on 127.0.0.1", firstPort, firstPort+portsGiven-1)
	return 0
}
