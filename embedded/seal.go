package embedded

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// Every value in the database ends with the CRC-32C of its bucket's name, its key
// and itself, so that one that was damaged, or ended up in another place, is not
// taken for what it is not.

const sealSize = 4

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errSeal    = errors.New("checksum mismatch")
	errFormat  = errors.New("malformed")
	errNewer   = errors.New("written by a newer release")
)

func checksum(bucket, key, value []byte) uint32 {
	sum := crc32.Update(0, castagnoli, bucket)
	sum = crc32.Update(sum, castagnoli, key)
	return crc32.Update(sum, castagnoli, value)
}

// seal appends the checksum.
func seal(bucket, key, value []byte) []byte {
	return binary.LittleEndian.AppendUint32(value, checksum(bucket, key, value))
}

// unseal checks it and takes it off.
func unseal(bucket, key, sealed []byte) ([]byte, error) {
	end := len(sealed) - sealSize
	if end < 0 {
		return nil, errSeal
	}
	value := sealed[:end:end]
	if checksum(bucket, key, value) != binary.LittleEndian.Uint32(sealed[end:]) {
		return nil, errSeal
	}
	return value, nil
}

// A fields reads what the append functions of encoding/binary wrote. The first
// thing wrong sticks; from then on everything reads as zero.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) uint() uint64 {
	v, n := binary.Uvarint(f.b)
	if n <= 0 {
		f.b, f.bad = nil, true
		return 0
	}
	f.b = f.b[n:]
	return v
}

func (f *fields) int() int64 {
	v := f.uint()
	return int64(v>>1) ^ -int64(v&1)
}

func (f *fields) bytes(n uint64) []byte {
	if n > uint64(len(f.b)) {
		f.b, f.bad = nil, true
		return nil
	}
	b := f.b[:n:n]
	f.b = f.b[n:]
	return b
}

func (f *fields) string() string { return string(f.bytes(f.uint())) }

// end returns errFormat if something was wrong or is left over.
func (f *fields) end() error {
	if f.bad || len(f.b) > 0 {
		return errFormat
	}
	return nil
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}
