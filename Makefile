# Each target is what you would type; `make -n TARGET` shows it. Without make:
#
#	go build -o build/ ./cmd/...             the programs; larger, and agents starts 5 ms slower
#	go test ./...                            all tests

# The version is the nearest tag of a checkout, else the newest of the changelog.
VERSION := $(shell test -e .git && git describe --tags --always --dirty 2>/dev/null || \
	sed -n 's/^.. \[\{0,1\}v\{0,1\}\([0-9]*\.[0-9]*\.[0-9][^] ]*\).*/v\1/p' CHANGELOG.md 2>/dev/null | head -n 1)
ifeq ($(VERSION),)
VERSION := dev
endif

# build/go.mod: see pkg/internal/leanlibs. The tag leaves text/template out of
# urfave/cli, which lets the linker drop methods that nobody calls.
TAGS := urfave_cli_no_template
BUILDFLAGS := -modfile=build/go.mod -tags=$(TAGS) -trimpath -buildvcs=false
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# The race detector needs a C compiler. go env says 1 only when it finds one.
RACE := $(if $(filter 1,$(shell go env CGO_ENABLED)),-race)

FUZZTIME ?= 10s
PROMPT ?= What is in the folder examples/quickstart?

.PHONY: build test test-lean test-mcp test-otlp lint fuzz budget bench demo images demo-containers site recording ci clean

# The file fresh from the linker starts a quarter slower than its copy.
build:
	go run ./pkg/internal/leanlibs -out build
	CGO_ENABLED=0 go build $(BUILDFLAGS) -ldflags='-s -w -X main.version=$(VERSION)' -o build/agents.linked ./cmd/agents
	cp build/agents.linked build/agents.copied
	mv -f build/agents.copied build/agents
	rm -f build/agents.linked
	CGO_ENABLED=0 go build $(BUILDFLAGS) -ldflags='-s -w' -o build/agents-search ./cmd/agents-search
	CGO_ENABLED=0 go build $(BUILDFLAGS) -ldflags='-s -w' -o build/agents-tui ./cmd/agents-tui

test:
	$(if $(RACE),,@echo 'no C compiler: the tests run without the race detector')
	go test $(RACE) ./...

# What uses the changed libraries, with them.
test-lean: build
	CGO_ENABLED=0 go test $(BUILDFLAGS) ./pkg/provider/... ./pkg/schema/...

# With MCP servers and clients that others wrote, from npm: see pkg/internal/realmcp.
test-mcp: build
	pkg/internal/realmcp/install
	AGENTS_TEST_MCP=$(CURDIR)/build/agents go test -count=1 $(TESTFLAGS) ./pkg/internal/realmcp

# With the receiver of the OpenTelemetry Collector, in a module of its own.
test-otlp: build
	AGENTS_TEST_OTLP=$(CURDIR)/build/agents go test -C pkg/internal/otlpreceiver -count=1 $(TESTFLAGS) .

lint:
	@echo gofmt -l; files=$$(gofmt -l $(wildcard agents cmd examples pkg schemas tools)) && test -z "$$files" || { echo "$$files"; exit 1; }
	go vet ./...
	go vet -tags=$(TAGS) ./...
	go run $(STATICCHECK) ./...

fuzz:
	.ci/fuzz $(FUZZTIME)

budget: build
	go run ./pkg/internal/budget -binary build/agents -- $(BUILDFLAGS)

# The figures of docs/performance.md, then the benchmarks of the packages.
bench: build
	go run ./pkg/internal/bench -binary build/agents -write docs/performance.md -- $(BUILDFLAGS)
	go test -run='^$$' -bench=. -benchmem ./...

demo: build
	build/agents run --agent-file examples/quickstart/agent.json --prompt '$(PROMPT)'

# The images of Containerfile and examples/containers, for podman, else docker, else
# as folders for bwrap or unshare. Nothing is pulled.
images: build
	examples/containers/make-images build/agents build/images

demo-containers: images
	PATH='$(CURDIR)/build/images/bin:'"$$PATH" build/agents run --agent-file examples/containers/agent.json --prompt 'What did we spend in 2026-03?'

# The manual as a web site; a dead link is an error.
site:
	go run ./pkg/internal/site -out build/site

# docs/recording.svg, of a real run in tmux.
recording:
	go test -count=1 ./pkg/internal/recording -update

ci:
	.ci/run

clean:
	rm -rf build
