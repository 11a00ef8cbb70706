package playground

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

type listenFunc func() (net.Listener, error)

func listenLoopback() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }

// A port is reserved by a listener until just before its component starts. In the moment between, another program may take it. The component
// then fails with "address already in use", and Start begins again.
type port struct {
	number   int
	listener net.Listener
}

func (p port) String() string  { return strconv.Itoa(p.number) }
func (p port) address() string { return "127.0.0.1:" + p.String() }
func (p port) url() string     { return "https://" + p.address() }
func (p port) release()        { _ = p.listener.Close() }

// ports are the ports of one start.
type ports struct {
	etcd, etcdPeer, apiServer, scheduler, controllerManager, kwok port
}

func (p *ports) all() []*port {
	return []*port{&p.etcd, &p.etcdPeer, &p.apiServer, &p.scheduler, &p.controllerManager, &p.kwok}
}

func (p *ports) release() {
	for _, port := range p.all() {
		if port.listener != nil {
			port.release()
		}
	}
}

func choosePorts(listen listenFunc) (*ports, error) {
	chosen := &ports{}
	for _, port := range chosen.all() {
		listener, err := listen()
		if err != nil {
			chosen.release()
			return nil, fmt.Errorf("choose a free port on the loopback interface: %w", err)
		}
		port.listener, port.number = listener, listener.Addr().(*net.TCPAddr).Port
	}
	return chosen, nil
}

// portTaken reports whether a component ended because its port was in use.
func portTaken(err error) bool {
	var ended *endedError
	return errors.As(err, &ended) && strings.Contains(ended.logTail, "address already in use")
}
