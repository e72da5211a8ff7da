package mongotest_test

import (
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"net"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// fate is what the proxy does with a command.
type fate int

const (
	pass      fate = iota
	loseReply      // after the command ran
	loseRequest
)

// proxy stands before the server. It understands the protocol's framing: each
// message begins with its length, and each request has one reply.
type proxy struct {
	server     *server
	serialised bool // one command at a time, of all that are before that server
	listener   net.Listener
	running    sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	counts map[string]int
	judge  func(command string) fate
	seen   func(command string, body bson.Raw)
	heard  func(reply bson.Raw)
}

// newProxy starts one for the test, which serialises commands if the server needs
// that.
func newProxy(tb testing.TB) *proxy {
	tb.Helper()
	return newProxyBefore(tb, upstream(tb), realURL() == "")
}

func newProxyBefore(tb testing.TB, s *server, serialised bool) *proxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{server: s, serialised: serialised, listener: listener, conns: make(map[net.Conn]struct{}), counts: make(map[string]int)}
	p.running.Go(p.accept)
	tb.Cleanup(func() {
		_ = listener.Close() // accept ends
		p.cut()
		p.running.Wait()
	})
	return p
}

// another starts one more before the same server.
func (p *proxy) another(tb testing.TB) *proxy {
	tb.Helper()
	return newProxyBefore(tb, p.server, p.serialised)
}

// host is what a URL names to lead through the proxy.
func (p *proxy) host() string { return p.listener.Addr().String() }

// judged has every command of a client, in turn, judged by its name.
func (p *proxy) judged(judge func(command string) fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.judge = judge
}

// watch has every command of a client shown.
func (p *proxy) watch(seen func(command string, body bson.Raw)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = seen
}

// answered has every answer shown.
func (p *proxy) answered(heard func(reply bson.Raw)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = heard
}

// takeCounts returns how many commands of each name there were since the last time.
func (p *proxy) takeCounts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := maps.Clone(p.counts)
	clear(p.counts)
	return counts
}

// cut loses every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	upstream, err := net.Dial(p.server.network, p.server.address)
	if err != nil {
		return
	}
	defer upstream.Close()
	p.mu.Lock()
	p.conns[client], p.conns[upstream] = struct{}{}, struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, client)
		delete(p.conns, upstream)
	}()
	for {
		request, err := readMessage(client)
		if err != nil {
			return
		}
		fate := p.decide(request)
		if fate == loseRequest {
			return
		}
		reply, err := p.ask(upstream, request)
		if err != nil || fate == loseReply {
			return
		}
		p.hear(reply)
		if _, err := client.Write(reply); err != nil {
			return
		}
	}
}

func (p *proxy) ask(upstream net.Conn, request []byte) (reply []byte, err error) {
	if p.serialised {
		p.server.gate.Lock()
		defer p.server.gate.Unlock()
	}
	if _, err := upstream.Write(request); err != nil {
		return nil, err
	}
	return readMessage(upstream)
}

// decide counts a command and has it judged. Those by which the driver watches the
// server are no operation's.
func (p *proxy) decide(request []byte) fate {
	command, body := commandOf(request)
	switch command {
	case "", "hello", "isMaster", "ismaster", "endSessions":
		return pass
	}
	p.mu.Lock()
	p.counts[command]++
	if p.seen != nil {
		p.seen(command, body)
	}
	judge := p.judge
	p.mu.Unlock()
	if judge == nil {
		return pass
	}
	return judge(command)
}

func (p *proxy) hear(reply []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, body := commandOf(reply); p.heard != nil && body != nil {
		p.heard(body)
	}
}

const headerBytes = 16

func readMessage(r io.Reader) ([]byte, error) {
	const largest = 64 << 20
	header := make([]byte, headerBytes)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, err
	}
	n := int(binary.LittleEndian.Uint32(header))
	if n < headerBytes || n > largest {
		return nil, errors.New("not a message")
	}
	message := make([]byte, n)
	copy(message, header)
	_, err := io.ReadFull(r, message[headerBytes:])
	return message, err
}

// commandOf returns the command in a request and its name, which is "" if the
// request is none of the present kind; or, likewise, the body of a reply.
func commandOf(request []byte) (name string, body bson.Raw) {
	const opMsg, opcodeAt, bodyAt = 2013, 12, headerBytes + 4 + 1 // flags, kind of section
	if len(request) < bodyAt+4 || binary.LittleEndian.Uint32(request[opcodeAt:]) != opMsg {
		return "", nil
	}
	n := int(binary.LittleEndian.Uint32(request[bodyAt:]))
	if n > len(request)-bodyAt {
		return "", nil
	}
	body = bson.Raw(request[bodyAt:][:n])
	elements, err := body.Elements()
	if err != nil || len(elements) == 0 {
		return "", nil
	}
	return elements[0].Key(), body
}
