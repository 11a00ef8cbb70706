package playgroundtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// The portsGiven ports from firstPort on are below the ports that Linux, macOS and Windows use for outgoing connections. Otherwise a
// connection of another test could take a port before its program listens on it.
const firstPort, portsGiven = 20000, 10000

// given are the ports that FreePort has returned in this process. It returns each port once. Like shared, it must be a package variable.
var given struct {
	mu    sync.Mutex // guards the field below
	ports map[int]bool
}

// FreePort returns a port of the loopback interface on which nothing listens, for a program that cannot choose its own. It fails the test if
// it finds none.
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
