package rheowatermill

import (
	"context"
	"sync"

	"github.com/rheo-go/rheo"
)

// sources are the producers under way in this process. An instance has one at a
// time for a topic and group, which all who subscribe to that share.
var sources = registry{all: make(map[sourceKey]*source)}

type registry struct {
	mu  sync.Mutex
	all map[sourceKey]*source
}

type sourceKey struct {
	instance      *rheo.Instance
	stream, group string
}

// source is a producer that runs for as long as somebody is subscribed.
type source struct {
	key      sourceKey
	producer *rheo.Producer
	users    int // the registry's
	end      context.CancelFunc
	ended    chan struct{}
}

// join starts the producer, or shares the one that runs.
func (r *registry) join(instance *rheo.Instance, o rheo.ProducerOptions) (*source, error) {
	key := sourceKey{instance, o.Stream, o.Group}
	for {
		s, ending, err := r.tryJoin(key, instance, o)
		if ending == nil {
			return s, err
		}
		<-ending // an instance runs one at a time
	}
}

// tryJoin returns instead what to wait for if the last user of one has just left.
func (r *registry) tryJoin(key sourceKey, instance *rheo.Instance, o rheo.ProducerOptions) (s *source, ending <-chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.all[key]; ok {
		if s.users == 0 {
			return nil, s.ended, nil
		}
		s.users++
		return s, nil, nil
	}
	producer, err := rheo.NewProducer(instance, o)
	if err != nil {
		return nil, nil, err
	}
	s = &source{key: key, producer: producer, users: 1, ended: make(chan struct{})}
	r.all[key] = s
	ctx, end := context.WithCancel(lifetime)
	s.end = end
	go s.run(ctx, r)
	return s, nil, nil
}

// run ends when the last user has left; if the producer fails before, its users
// are told by it.
func (s *source) run(ctx context.Context, r *registry) {
	defer close(s.ended)
	defer s.end()
	_ = s.producer.Run(ctx) // Receive returns its error
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, s.key)
}

// leave returns, for the last user, when the producer has ended.
func (s *source) leave() {
	sources.mu.Lock()
	s.users--
	last := s.users == 0
	sources.mu.Unlock()
	if last {
		s.end()
		<-s.ended
	}
}
