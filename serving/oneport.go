package serving

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	firstByteWithin = 5 * time.Second // after a connection was opened
	tlsRecord       = 0x16            // the first byte of a client that speaks TLS
)

// onePort is a listener for HTTP and HTTPS: scrapers of metrics speak the one, as they do with Karpenter, who reads the catalog
// the other. A client shows by its first byte which of the two it speaks.
type onePort struct {
	net.Listener
	secure     *tls.Config
	handshakes *rate.Limiter
	spoke      chan net.Conn
	closed     chan struct{}
	closing    sync.Once
}

func newOnePort(listener net.Listener, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *onePort {
	p := &onePort{
		Listener:   listener,
		secure:     &tls.Config{GetCertificate: certificate, MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}},
		handshakes: rate.NewLimiter(10, 50), // they cost more than all that is asked for afterwards
		spoke:      make(chan net.Conn),
		closed:     make(chan struct{}),
	}
	go p.run()
	return p
}

// Accept returns the next connection that has begun to speak, which is a *tls.Conn if it speaks TLS.
func (p *onePort) Accept() (net.Conn, error) {
	select {
	case c := <-p.spoke:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close ends it.
func (p *onePort) Close() error {
	p.closing.Do(func() { close(p.closed) })
	return p.Listener.Close()
}

func (p *onePort) run() {
	for {
		c, err := p.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no file descriptor is left
			select {
			case <-p.closed:
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		go p.listenTo(&opened{Conn: c})
	}
}

// listenTo hands a connection on once its first byte has come.
func (p *onePort) listenTo(c *opened) {
	first := make([]byte, 1)
	_ = c.SetReadDeadline(time.Now().Add(firstByteWithin)) // it fails as the read below then does
	if _, err := io.ReadFull(c, first); err != nil {
		_ = c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	c.first = first
	var speaks net.Conn = c
	if first[0] == tlsRecord {
		if !p.handshakes.Allow() {
			_ = c.Close()
			return
		}
		speaks = tls.Server(c, p.secure)
	}
	select {
	case p.spoke <- speaks:
	case <-p.closed:
		_ = c.Close()
	}
}

// opened is a connection of which something was read already.
type opened struct {
	net.Conn
	first []byte
}

// Read returns what was read already first.
func (o *opened) Read(to []byte) (int, error) {
	if len(o.first) > 0 {
		n := copy(to, o.first)
		o.first = o.first[n:]
		return n, nil
	}
	return o.Conn.Read(to)
}
