package cluster

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"testing"
)

// Types of DNS records, and the one class. Source: RFC 1035 and RFC 3596.
const (
	recordA    = 1
	recordAAAA = 28
)

// dnsServer is a DNS server on loopback whose answers change from one question to the next.
type dnsServer struct {
	mutex sync.Mutex
	// answers are what it says of any name, one set of addresses for each question after the other; the last one stays.
	answers [][]netip.Addr
	asked   map[int]int // by type of record
}

// newDNS starts a DNS server and gives the resolver that asks it and nobody else.
func newDNS(t testing.TB, answers ...[]netip.Addr) (*dnsServer, *net.Resolver) {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	server := &dnsServer{answers: answers, asked: map[int]int{}}
	go server.serve(socket)
	return server, &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", socket.LocalAddr().String())
	}}
}

func (s *dnsServer) serve(socket net.PacketConn) {
	for buffer := make([]byte, 1500); ; {
		length, from, err := socket.ReadFrom(buffer)
		if err != nil {
			return
		}
		if answer := s.answer(buffer[:length]); answer != nil {
			_, _ = socket.WriteTo(answer, from)
		}
	}
}

// answer answers a message with one question. Each type of record has its own turn: resolvers ask for both at once.
func (s *dnsServer) answer(question []byte) []byte {
	const header = 12
	end := header
	for end < len(question) && question[end] != 0 {
		end += int(question[end]) + 1
	}
	if end += 5; end > len(question) { // the root's label, type, class
		return nil
	}
	kind := int(binary.BigEndian.Uint16(question[end-4:]))
	s.mutex.Lock()
	defer s.mutex.Unlock()
	addresses := s.answers[min(s.asked[kind], len(s.answers)-1)]
	s.asked[kind]++

	answer := append([]byte(nil), question[:end]...)
	binary.BigEndian.PutUint16(answer[2:], 0x8180) // an answer, with recursion, no error
	binary.BigEndian.PutUint16(answer[8:], 0)
	binary.BigEndian.PutUint16(answer[10:], 0)
	count := uint16(0)
	for _, address := range addresses {
		if address.Is4() != (kind == recordA) || kind != recordA && kind != recordAAAA {
			continue
		}
		data := address.AsSlice()
		answer = append(answer, 0xc0, header, 0, byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(len(data))) // the name of the question, for no time
		answer = append(answer, data...)
		count++
	}
	binary.BigEndian.PutUint16(answer[6:], count)
	return answer
}

func (s *dnsServer) questions() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.asked[recordA]
}

// say changes what it answers from now on.
func (s *dnsServer) say(addresses ...netip.Addr) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.answers = [][]netip.Addr{addresses}
}
