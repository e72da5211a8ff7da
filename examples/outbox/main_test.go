package main

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/rheo-go/rheo/examples/internal/demotest"
)

func TestOutbox(t *testing.T) {
	out, stop := demotest.Start(t, run, "--store", "memory:", "--listen", "127.0.0.1:0")
	defer stop()
	out.Await(t, "taking orders", 1)
	url := regexp.MustCompile(`http://\S+`).FindString(out.String())
	post := func(body string, want int) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Close = true
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
		if response.StatusCode != want {
			t.Errorf("%s: status %d, want %d", body, response.StatusCode, want)
		}
	}
	post(`{"id":"o-1","item":"tea","total":12}`, http.StatusCreated)
	post(`{"id":"o-1","item":"tea","total":12}`, http.StatusCreated) // the answer was lost, say
	post(`{"id":"o-2","item":"cake","total":3.5}`, http.StatusCreated)
	post(`{"item":"nothing"}`, http.StatusBadRequest)
	out.Await(t, "mail: order o-1, tea for 12.00", 1)
	out.Await(t, "mail: order o-2", 1)
	if n := strings.Count(out.String(), "mail:"); n != 2 {
		t.Errorf("%d mails, want 2:\n%s", n, out)
	}
}
