package backendtest

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
)

// SeedVariable is the environment variable that fixes the seed of what is random
// in the suite. The seed in use is logged.
const SeedVariable = "RHEO_TEST_SEED"

// random returns a source of random numbers of the case's own.
func (s *subject) random() *rand.Rand {
	s.Helper()
	seed := rand.Uint64()
	if fixed := os.Getenv(SeedVariable); fixed != "" {
		var err error
		seed, err = strconv.ParseUint(fixed, 10, 64)
		s.noError(err)
	}
	s.Logf("seed %d; %s=%[1]d repeats it", seed, SeedVariable)
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.stream)) // documented never to fail
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }
