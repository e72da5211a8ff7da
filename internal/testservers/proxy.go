package testservers

import (
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy stands before a server on a TCP port. It counts round trips, and loses
// connections in ways that networks do.
type Proxy struct {
	target   string
	listener net.Listener
	trips    atomic.Int64
	swallow  atomic.Bool
	refuse   atomic.Bool
	running  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// NewProxy starts one for the test.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is done at once
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{target: target, listener: listener, conns: make(map[net.Conn]struct{})}
	p.running.Go(p.accept)
	tb.Cleanup(func() {
		_ = listener.Close() // accept ends
		p.Cut()
		p.running.Wait()
	})
	return p
}

// URL is the server's URL, led through the proxy.
func (p *Proxy) URL(tb testing.TB, server string) string {
	tb.Helper()
	u, err := url.Parse(server)
	if err != nil {
		tb.Fatal(err)
	}
	u.Host = p.listener.Addr().String()
	return u.String()
}

// Trips is how often, so far, a client has sent something after it had received
// something: its round trips.
func (p *Proxy) Trips() int64 { return p.trips.Load() }

// Cut loses every connection.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// Swallow says whether what clients send still reaches the server, but its
// answers are lost, and the connection with them.
func (p *Proxy) Swallow(yes bool) { p.swallow.Store(yes) }

// Refuse says whether new connections are lost at once.
func (p *Proxy) Refuse(yes bool) { p.refuse.Store(yes) }

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.refuse.Load() {
			_ = client.Close()
			continue
		}
		server, err := net.Dial("tcp", p.target) //nolint:noctx // it is on this machine
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		p.mu.Unlock()
		var answered atomic.Bool
		p.running.Go(func() {
			p.forward(client, server, func() bool {
				if answered.Swap(false) {
					p.trips.Add(1)
				}
				return true
			})
		})
		p.running.Go(func() {
			p.forward(server, client, func() bool {
				answered.Store(true)
				return !p.swallow.Load()
			})
		})
	}
}

// forward copies until one side is gone, or pass says to lose the connection.
func (p *Proxy) forward(from, to net.Conn, pass func() bool) {
	defer func() {
		_ = from.Close()
		_ = to.Close()
		p.mu.Lock()
		delete(p.conns, from)
		delete(p.conns, to)
		p.mu.Unlock()
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !pass() {
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
