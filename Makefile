# Each target is what you would type; `make -n TARGET` shows it. Without make:
#
#	go build -o build/ ./cmd/...             the programs; larger, and agents starts 5 ms slower
#	go test ./...                            all tests

# The version is the nearest tag of a checkout, else the newest of the changelog.
COMMA := ,
VERSION := $(shell test -e .git && { git describe --tags --dirty 2>/dev/null || echo "v0.0.0-$$(git describe --always --dirty)"; } || \
	sed -n 's/^.. \[\{0,1\}v\{0,1\}\([0-9]*\.[0-9]*\.[0-9][^] ]*\).*/v\1/p' CHANGELOG.md 2>/dev/null | head -n 1)
ifeq ($(VERSION),)
VERSION := dev
endif
COMMIT := $(shell test -e .git && git rev-parse HEAD 2>/dev/null)

# build/go.mod: see pkg/internal/leanlibs. The tag of urfave/cli leaves text/template out of
# it, which lets the linker drop methods that nobody calls. With the tag core, agents has no
# servers: agents-serve, the same program without the tag, has them.
TAGS := urfave_cli_no_template
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
BUILDFLAGS := -modfile=build/go.mod -tags=core,$(TAGS) -trimpath -buildvcs=false
SERVEFLAGS := $(subst -tags=core$(COMMA),-tags=,$(BUILDFLAGS))
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GORELEASER := github.com/goreleaser/goreleaser/v2@v2.12.0
NFPM := github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.0

# Without agents-serve, and all but agents-fleet, which is a module of its own: `make fleet`.
PROGRAMS := $(filter-out agents-fleet,$(patsubst cmd/%/main.go,%,$(wildcard cmd/*/main.go)))
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64
# The time of the files of a release: that of the commit.
SOURCE_DATE_EPOCH ?= $(shell test -e .git && git log -1 --format=%ct 2>/dev/null || echo 0)
export SOURCE_DATE_EPOCH

# The race detector needs a C compiler. go env says 1 only when it finds one.
RACE := $(if $(filter 1,$(shell go env CGO_ENABLED)),-race)

FUZZTIME ?= 10s
PROMPT ?= What is in the folder examples/quickstart?

.PHONY: build fleet fleet-worker test test-lean test-mcp test-agents test-otlp test-fleet lint fuzz budget bench bench-once bench-peers bench-everyday suites demo images demo-containers site recording dist reproducible check-packages check-release ci clean

# The file fresh from the linker starts a quarter slower than its copy.
build:
	go run ./pkg/internal/leanlibs -out build
	CGO_ENABLED=0 go build $(BUILDFLAGS) -ldflags='$(LDFLAGS)' -o build/linked/ $(PROGRAMS:%=./cmd/%)
	CGO_ENABLED=0 go build $(SERVEFLAGS) -ldflags='$(LDFLAGS)' -o build/linked/agents-serve ./cmd/agents
	cp build/linked/agents build/linked/agents.copied
	mv -f build/linked/agents.copied build/agents
	mv -f $(filter-out build/linked/agents,$(PROGRAMS:%=build/linked/%)) build/linked/agents-serve build/
	rm -rf build/linked

# build/agents-fleet, the program of docs/fleet.md, beside the others, and build/agents-fleet-dev,
# the same program with a Temporal server, for `agents-fleet dev`.
fleet: fleet-worker
	$(FLEET)-dev' .

fleet-worker:
	$(FLEET)' -tags=noserver .

FLEET = CGO_ENABLED=0 go build -C cmd/agents-fleet -trimpath -buildvcs=false -ldflags='$(LDFLAGS)' -o '$(CURDIR)/build/agents-fleet

test:
	$(if $(RACE),,@echo 'no C compiler: the tests run without the race detector')
	go test $(RACE) ./...

# What uses the changed libraries or the tag core, with them.
test-lean: build
	CGO_ENABLED=0 go test $(BUILDFLAGS) ./cmd/agents/internal/serving ./pkg/provider/... ./pkg/schema/... ./pkg/edge/a2aapi ./pkg/source/a2aclient

# With coding agents that others wrote, from npm: see pkg/internal/realagents.
test-agents: build
	pkg/internal/realmcp/install realagents
	AGENTS_TEST_AGENTS=$(CURDIR)/build/agents go test -count=1 $(TESTFLAGS) ./pkg/internal/realagents

# With MCP servers and clients that others wrote, from npm: see pkg/internal/realmcp.
test-mcp: build
	pkg/internal/realmcp/install
	AGENTS_TEST_MCP=$(CURDIR)/build/agents go test -count=1 $(TESTFLAGS) ./pkg/internal/realmcp

# With the receiver of the OpenTelemetry Collector, in a module of its own.
test-otlp: build
	AGENTS_TEST_OTLP=$(CURDIR)/build/agents go test -C pkg/internal/otlpreceiver -count=1 $(TESTFLAGS) .

# With a Temporal server in the process. FLEET=full runs the proofs at full size, for an hour.
test-fleet:
	go test -C cmd/agents-fleet -count=1 $(TESTFLAGS) ./...

lint:
	@echo gofmt -l; files=$$(gofmt -l $(wildcard agents cmd examples pkg schemas tools)) && test -z "$$files" || { echo "$$files"; exit 1; }
	go vet ./...
	go vet -tags=$(TAGS) ./...
	go vet -tags=core ./cmd/agents ./cmd/agents/internal/serving
	go run $(STATICCHECK) ./...

fuzz:
	.ci/fuzz $(FUZZTIME)

budget: build
	go run ./pkg/internal/budget -binary build/agents -- $(BUILDFLAGS)

# The figures of docs/performance.md, then the benchmarks of the packages.
bench: build
	go run ./pkg/internal/bench -binary build/agents -write docs/performance.md -- $(BUILDFLAGS)
	go test -run='^$$' -bench=. -benchmem ./...

# The figures of docs/at-most-once.md, with coding agents that others wrote. TAU2_BENCH names a
# checkout of tau2-bench, whose tasks are then measured too. PROGRAM is a pattern of the
# programs to measure; the others keep their figures.
bench-once: build
	pkg/internal/realmcp/install realagents
	AGENTS_TEST_AGENTS=$(CURDIR)/build/agents go test -count=1 -v -timeout=4h -run='^TestMeasure$$$(if $(PROGRAM),/^programs$$/^($(PROGRAM))$$)' ./pkg/internal/once -update
	go test -count=1 -run='^TestTheFigureIsThatOfThePage$$' ./pkg/internal/once -update

# The figures of agents beside other coding agents, in docs/performance.md.
bench-peers: build
	pkg/internal/realmcp/install realagents
	AGENTS_TEST_AGENTS=$(CURDIR)/build/agents go test -count=1 -v -timeout=1h -run='^TestPeers$$' ./pkg/internal/once -update

# The seconds in docs/everyday.md.
bench-everyday: build
	pkg/internal/realmcp/install realagents
	AGENTS_TEST_AGENTS=$(CURDIR)/build/agents go test -count=1 -v -timeout=1h -run='^TestEveryday$$' ./pkg/internal/once -update

# The figures of docs/suites.md; the variables of pkg/internal/suites name copies of the suites.
suites: build
	AGENTS_TEST_AGENTS=$(CURDIR)/build/agents go test -count=1 -v -timeout=1h $(TESTFLAGS) ./pkg/internal/suites
	test -z "$$ACP_SCHEMA" || { go test -count=1 -run='^TestEdges$$/^ACP$$' ./pkg/host/hosttest && go test -count=1 ./pkg/source/acpclient && go test -count=1 -run=Editor ./cmd/agents; }

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

# The files of a release, in build/dist: archives, Debian packages, lists of modules, checksums
# and, with all platforms, files for package managers. `make dist PLATFORMS=linux/amd64` makes
# those of one platform.
dist: build build/bin/nfpm
	rm -rf build/release build/dist
	mkdir -p build/release/share/completions build/dist
	build/agents man >build/release/share/agents.1
	build/agents completion bash >build/release/share/completions/agents.bash
	build/agents completion zsh >build/release/share/completions/_agents
	build/agents completion fish >build/release/share/completions/agents.fish
	cp LICENSE README.md CHANGELOG.md build/release/share
	set -e; for platform in $(PLATFORMS); do os=$${platform%/*} arch=$${platform#*/}; \
		GOOS=$$os GOARCH=$$arch CGO_ENABLED=0 go build $(BUILDFLAGS) -ldflags='$(LDFLAGS)' -o build/release/$${os}_$$arch/ $(PROGRAMS:%=./cmd/%); \
		exe=; [ $$os != windows ] || exe=.exe; \
		GOOS=$$os GOARCH=$$arch CGO_ENABLED=0 go build $(SERVEFLAGS) -ldflags='$(LDFLAGS)' -o build/release/$${os}_$$arch/agents-serve$$exe ./cmd/agents; \
		[ $$os != linux ] || ARCH=$$arch VERSION='$(VERSION)' build/bin/nfpm package --config pkg/internal/release/nfpm.yaml --packager deb --target build/dist/; \
	done
	go run ./pkg/internal/release -version '$(VERSION)' -time "$$SOURCE_DATE_EPOCH" build/release build/dist

build/bin/nfpm:
	GOBIN='$(CURDIR)/build/bin' go install $(NFPM)

# Whether goreleaser accepts .goreleaser.yaml. It takes minutes to build once.
check-release: build/bin/goreleaser
	build/bin/goreleaser check

build/bin/goreleaser:
	GOBIN='$(CURDIR)/build/bin' go install $(GORELEASER)

# Two builds in different folders, the second without a cache, are the same to the byte.
reproducible:
	.ci/reproducible $(firstword $(PLATFORMS))

# Installs the packages of this machine and runs what is in them.
check-packages:
	.ci/packages

print-%:
	@echo '$($*)'

clean:
	rm -rf build
