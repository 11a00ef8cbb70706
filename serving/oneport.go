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
	firstByteWithin = 5 * time.Second // after the connection is opened
	tlsRecord       = 0x16            // first byte of a TLS connection
)

// onePort is a listener for HTTP and HTTPS. Scrapers of metrics use HTTP, as for Karpenter. Readers of the catalog use HTTPS. The first byte
// of a connection shows which of the two the client uses.
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
		handshakes: rate.NewLimiter(10, 50), // a handshake costs more than all later requests
		spoke:      make(chan net.Conn),
		closed:     make(chan struct{}),
	}
	go p.run()
	return p
}

// Accept returns the next connection whose first byte has arrived, as a *tls.Conn if the client uses TLS.
func (p *onePort) Accept() (net.Conn, error) {
	select {
	case c := <-p.spoke:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close closes the listener.
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

// listenTo passes a connection on after its first byte.
func (p *onePort) listenTo(c *opened) {
	first := make([]byte, 1)
	_ = c.SetReadDeadline(time.Now().Add(firstByteWithin)) // if it fails, the read below fails too
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

// opened is a connection whose first bytes have been read.
type opened struct {
	net.Conn
	first []byte
}

// Read returns the bytes that have been read first.
func (o *opened) Read(to []byte) (int, error) {
	if len(o.first) > 0 {
		n := copy(to, o.first)
		o.first = o.first[n:]
		return n, nil
	}
	return o.Conn.Read(to)
}
