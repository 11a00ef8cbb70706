package serving

import (
	"container/list"
	"net"
	"sync"
)

const (
	// mostConnections is how many connections one port has open at a time.
	mostConnections = 256
	// unreadBytes is about how much of an answer the kernel keeps for a client that has not read it yet. Linux keeps twice that, and without
	// a bound several megabytes for each connection.
	unreadBytes = 64 << 10
)

// connections is a listener with a bound of open connections. A new one closes the oldest, so that silent clients do not keep
// the kubelet's probes out.
type connections struct {
	net.Listener
	most int

	mu   sync.Mutex // guards open
	open *list.List // of *connection, the oldest first
}

func boundConnections(listener net.Listener, most int) *connections {
	return &connections{Listener: listener, most: most, open: list.New()}
}

// Accept waits for the next connection.
func (l *connections) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if limited, ok := c.(interface{ SetWriteBuffer(int) error }); ok {
		_ = limited.SetWriteBuffer(unreadBytes) // fails on a connection that has gone, as the next write does
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open.Len() >= l.most {
		oldest := l.open.Remove(l.open.Front()).(*connection)
		_ = oldest.Conn.Close()
	}
	out := &connection{Conn: c}
	place := l.open.PushBack(out)
	out.leave = sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open.Remove(place) // does nothing if it was the oldest
	})
	return out, nil
}

// connection is one of a listener with a bound.
type connection struct {
	net.Conn
	leave func()
}

// Close closes it and gives its place back.
func (c *connection) Close() error {
	c.leave()
	return c.Conn.Close()
}
