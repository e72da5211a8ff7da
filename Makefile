# What a contributor runs. Needs Go; `make race` also needs a C compiler.
#
# Every target that works on "every module" finds the modules by their go.mod (.ci/each-module): a new module is taken up
# by being there, and by its line in go.work.

SHELL       := bash
.SHELLFLAGS := -o pipefail -c
MAKEFLAGS   += --no-print-directory
.DEFAULT_GOAL := help

EACH := bash .ci/each-module
BIN  := $(CURDIR)/.bin
GATE := $(BIN)/testgate -skips $(CURDIR)/.ci/allowed-skips $(if $(V),-v)

# A test that cannot have what it needs (a server, say) skips; with this set it must fail instead.
export RHEO_TEST_REQUIRE := 1

# The tools in .bin are those that internal/tools names, built anew when it or the Go version changes.
TOOLS := $(BIN)/tools-$(shell { cat internal/tools/go.mod internal/tools/go.sum; go version; } | cksum | cut -d' ' -f1)

FUZZTIME  ?= 10s
BENCH     ?= .
BENCHTIME ?= 1s

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | awk -F'\t' '{printf "  make %-10s %s\n", $$1, $$2}'

.PHONY: test
test: testgate servers ## run every module's tests; V=1 shows those that pass, too
	@$(EACH) bash -o pipefail -c 'echo "## tests of $$MODULE"; short=; [ $$MODULE != bench ] || short=-short; \
		go test -json -count=1 -timeout 25m $$short $(TESTFLAGS) ./... | $(GATE)'

.PHONY: race
race: testgate servers ## run every module's tests under the race detector
	@$(EACH) -x bench bash -o pipefail -c 'echo "## tests of $$MODULE, with the race detector"; \
		CGO_ENABLED=1 go test -race -json -count=1 -timeout 25m $(TESTFLAGS) ./... | $(GATE)'

.PHONY: vet
vet: ## run go vet on every module
	@$(EACH) go vet ./...

.PHONY: lint
lint: $(TOOLS) ## run golangci-lint on every module
	@$(EACH) bash -c 'echo "## golangci-lint in $$MODULE"; $(BIN)/golangci-lint run --config $(CURDIR)/.golangci.yml ./...'

.PHONY: fmt
fmt: $(TOOLS) ## format every Go file with gofumpt
	@$(BIN)/gofumpt -w .

.PHONY: fmt-check
fmt-check: $(TOOLS) ## name the Go files that gofumpt would change
	@files=$$($(BIN)/gofumpt -l .) && if [ -n "$$files" ]; then echo "$$files"; echo "run make fmt" >&2; exit 1; fi

.PHONY: imports
imports: testgate ## check the import direction, the dependency budget and the modules' files
	@go test -json -count=1 ./internal/archtest | $(GATE)

.PHONY: bench
bench: ## run every module's benchmarks; BENCH=regexp, BENCHTIME=1s
	@$(EACH) bash -c 'echo "## benchmarks of $$MODULE"; \
		go test -run "^$$" -bench "$$1" -benchtime $(BENCHTIME) -benchmem ./...' bash '$(BENCH)'

.PHONY: fuzz
fuzz: ## run every fuzz test for FUZZTIME (10s)
	@$(EACH) bash -o pipefail -c 'go test -list "^Fuzz" ./... | \
		awk "/^Fuzz/ {name[++n] = \$$1} /^ok/ {for (i = 1; i <= n; i++) print \$$2, name[i]; n = 0}" | \
		while read -r package name; do echo "## $$package $$name"; \
			go test -run "^$$name\$$" -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) $$package || exit; done'

.PHONY: demo
demo: ## take the tour on real events
	@go run ./cmd/rheo demo

.PHONY: tidy
tidy: ## run go mod tidy on every module
	@$(EACH) bash $(CURDIR)/.ci/tidy

.PHONY: tools
tools: $(TOOLS) ## build the linter and the formatter into .bin

.PHONY: clean
clean: ## remove what make has built
	rm -rf $(BIN)

# The servers that tests start for themselves, from Debian's packages where they are missing.
.PHONY: servers
servers:
	@bash .ci/servers

.PHONY: testgate
testgate:
	@go build -o $(BIN)/testgate ./internal/testgate

$(TOOLS):
	@echo "building golangci-lint and gofumpt into .bin; the first time takes a minute or two" >&2
	@rm -f $(BIN)/tools-*
	@cd internal/tools && GOWORK=off go build -o $(BIN)/ tool
	@touch $@
