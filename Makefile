# gperf: build, test and check. "make help" lists the targets.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-print-directory

GO         ?= go
TESTFLAGS  ?=
RACEPKGS   ?= ./...
FUZZTIME   ?= 10s
BENCHTIME  ?= 1s
BENCHFLAGS ?=

# Stamped into the binary. Outside a git work tree both stay empty, and the
# binary says what the go command knows of it.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
COMMIT  ?= $(shell git rev-parse --verify --quiet HEAD 2>/dev/null)
LDFLAGS := -X main.version=$(VERSION) -X main.commit=$(COMMIT)

.PHONY: all help build demo deps peers test race fuzz bench bench-peers bench-movers bench-netperf lint cross docs clean

all: build

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s  %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# The first tag leaves the flag library's own manual writer out, whose set-up takes
# most of a millisecond at every start; gperf writes its manual itself. The others
# make a binary without the C library, which starts a millisecond or two sooner and
# runs wherever it's copied to; names are looked up by Go.
build: ## build bin/gperf with version and commit stamped in
	$(GO) build -tags urfave_cli_no_docs,netgo,osusergo -ldflags "$(LDFLAGS)" -o bin/ ./cmd/gperf

demo: build ## run a bulk test and a request/response test over loopback
	bin/gperf client -d 2
	bin/gperf client -t TCP_RR -d 2

deps: ## install the programs that tests use and that are missing (Debian, root)
	@./.ci/deps

peers: ## install netperf, iperf3 and flent, to compare with (Debian, root)
	@./.ci/deps --peers

test: ## run all tests; more flags in TESTFLAGS
	$(GO) test $(TESTFLAGS) ./...

race: ## run all tests with the race detector
	$(GO) test -race $(TESTFLAGS) $(RACEPKGS)

# go test lists a package's targets first and names the package after them. Before
# Go 1.27 it may take the end of the time for a failure (golang/go#75804): without an
# input that fails, that is tried once more.
fuzz: ## run each fuzz target for FUZZTIME (10s)
	@targets=$$($(GO) test -list '^Fuzz' ./... | awk '/^Fuzz/ {name[n++] = $$1} /^ok/ {for (i = 0; i < n; i++) print $$2, name[i]; n = 0}'); \
	if [ -z "$$targets" ]; then echo "no fuzz targets"; exit 0; fi; \
	log=$$(mktemp); trap 'rm -f "$$log"' EXIT; \
	fuzz() { $(GO) test -run '^$$' -fuzz "^$$2$$" -fuzztime $(FUZZTIME) "$$1" </dev/null 2>&1 | tee "$$log"; }; \
	while read -r package name; do \
		echo "== $$package $$name"; \
		fuzz "$$package" "$$name" || \
			{ grep -q 'context deadline exceeded' "$$log" && ! grep -q 'Failing input' "$$log" && fuzz "$$package" "$$name"; } || exit 1; \
	done <<<"$$targets"

bench: ## run all Go benchmarks
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

bench-peers: build ## measure gperf against the peers; more flags in BENCHFLAGS
	$(GO) run ./bench -gperf bin/gperf $(BENCHFLAGS)

bench-netperf: build ## measure gperf as netperf against netperf; more flags in BENCHFLAGS
	$(GO) run ./bench -netperf $(BENCHFLAGS)

bench-movers: build ## measure the ways to move bytes, and against the peers'; more flags in BENCHFLAGS
	$(GO) run ./bench -gperf bin/gperf -movers $(BENCHFLAGS)

lint: ## gofmt, go vet, staticcheck
	@unformatted=$$(gofmt -l .); \
	if [ -n "$$unformatted" ]; then echo "not formatted (run gofmt -w):"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool -modfile=tools/go.mod staticcheck ./...

cross: ## build and vet for arm64, tests included; elsewhere gperf only says so
	GOOS=linux GOARCH=arm64 $(GO) build ./...
	GOOS=linux GOARCH=arm64 $(GO) vet ./...
	GOOS=darwin $(GO) build -o /dev/null ./cmd/gperf

# Every file of docs/ that is generated belongs to a test named TestDocs... or
# TestSchema..., which compares it with the code, or with -update writes it.
docs: ## write again what is generated from the code, and show what changed
	@packages=$$($(GO) list -f '{{range .TestImports}}{{if eq . "gperf/internal/golden"}}{{$$.ImportPath}}{{end}}{{end}}' ./...); \
	$(GO) test $$packages -run '^Test(Docs|Schema)' -count=1 -update
	@git status --short -- docs

clean: ## remove what build made
	rm -rf bin
