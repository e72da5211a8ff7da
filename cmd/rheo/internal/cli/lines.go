package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/rheo-go/rheo"
)

// maxLine bounds what a line of input may hold, and so the memory it takes. What
// is beyond the limit of a payload is refused with its size where it fits.
const maxLine = 2 * rheo.MaxPayloadDefault

// input is NDJSON to append.
type input struct {
	name   string
	reader io.Reader
	close  func() error
	file   io.Seeker // set if it can be read twice
	size   int64     // 0 if unknown
	read   atomic.Int64
}

// Read implements [io.Reader] and counts.
func (in *input) Read(p []byte) (int, error) {
	n, err := in.reader.Read(p)
	in.read.Add(int64(n))
	return n, err
}

// openInput opens the file, or standard input for "-".
func (a *app) openInput(name string) (*input, error) {
	in := &input{name: name, reader: a.stdin, close: func() error { return nil }}
	if name == "-" {
		in.name = "<stdin>"
	} else {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		in.reader, in.close = file, file.Close
	}
	file, ok := in.reader.(*os.File)
	if !ok {
		return in, nil
	}
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, errors.Join(err, in.close())
	case info.IsDir():
		return nil, errors.Join(fmt.Errorf("%s is a directory, not a file of events", name), in.close())
	case info.Mode().IsRegular():
		in.file, in.size = file, info.Size()
	case isTerminal(file):
		fmt.Fprintln(a.stderr, "Reading events from the terminal, one JSON value a line; Ctrl-D ends.")
	}
	return in, nil
}

// rewind goes back to where the input began.
func (in *input) rewind(start int64) error {
	in.read.Store(0)
	_, err := in.file.Seek(start, io.SeekStart)
	return err
}

// line is one line of input that is not blank.
type line struct {
	number int
	text   []byte
	err    error // the last thing read, if reading failed
}

// lines reads on a goroutine of its own, so that neither a batch nor the end of
// ctx waits for input. A goroutine that is blocked in a read when ctx ends goes
// with the process.
func (in *input) lines(ctx context.Context) <-chan line {
	const ahead = 256
	out := make(chan line, ahead)
	go func() {
		defer close(out)
		scanner := bufio.NewScanner(in)
		scanner.Buffer(make([]byte, 64<<10), maxLine)
		number := 0
		for scanner.Scan() {
			number++
			text := bytes.TrimSpace(scanner.Bytes())
			if number == 1 {
				text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
			}
			if len(text) == 0 {
				continue
			}
			select {
			case out <- line{number: number, text: bytes.Clone(text)}:
			case <-ctx.Done():
				return
			}
		}
		if err := scanner.Err(); err != nil {
			if errors.Is(err, bufio.ErrTooLong) {
				err = fmt.Errorf("the line has more than %d bytes; an event's payload has at most %d", maxLine, rheo.MaxPayloadDefault)
			}
			select {
			case out <- line{number: number + 1, err: err}:
			case <-ctx.Done():
			}
		}
	}()
	return out
}
