package serving

import (
	"container/list"
	"net"
	"sync"
)

const (
	// mostConnections is the largest number of open connections of one port.
	mostConnections = 256
	// unreadBytes is about the number of bytes of an answer that the kernel keeps for a client that has not read it yet. Linux keeps twice as
	// much, and without a bound several megabytes for each connection.
	unreadBytes = 64 << 10
)

// connections is a listener with a bounded number of open connections. A new connection closes the oldest, so that silent clients do not
// block the kubelet's probes.
type connections struct {
	net.Listener
	most int

	mu   sync.Mutex // guards open
	open *list.List // of type *connection, the oldest first
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
		_ = limited.SetWriteBuffer(unreadBytes) // fails on a closed connection, like the next write
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
		l.open.Remove(place) // no effect if it was removed as the oldest
	})
	return out, nil
}

// connection is a connection of a bounded listener.
type connection struct {
	net.Conn
	leave func()
}

// Close closes the connection and frees its place.
func (c *connection) Close() error {
	c.leave()
	return c.Conn.Close()
}
