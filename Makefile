# What a developer of Turnstile calls. `make` alone lists the targets.

BIN      ?= bin
TOOL     := go tool -modfile=tools/go.mod
SCRIPTS  := .ci/run $(wildcard .ci/*.sh deploy/*.sh docs/runbook/*.sh)
# The agents of the npm registry that `make real-agents` runs, and where to.
AGENTS   ?= $(BIN)/agents
NPM      := opencode-ai@1.18.33 @google/gemini-cli@0.61.0 @anthropic-ai/claude-code@2.1.197 @openai/codex@0.169.0
MCP      := @modelcontextprotocol/server-everything@2026.8.31 @modelcontextprotocol/server-filesystem@2026.8.31
# The packages whose tests take longest begin first.
LONG     := ./pkg/worker ./internal/http/gateway ./pkg/agent/acp ./test/examples ./cmd/worker
# How many packages are tested at once. More than there are cores, because tests often wait, for a lease to end for example.
PACKAGES := $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) * 3 / 2 )))
# What make quick leaves out: packages whose tests are about programs and processes, or walk through many states.
PROGRAMS := /(cmd|docs|examples)/|/internal/(http/board|redis/devredis|process|chat/terminal)|/pkg/agent/(acp|cli|exec)|/test/
# How often `make proof` repeats the tests.
REPEAT   ?= 10
# How often `make test-busy` repeats them.
BUSY     ?= 1
# How long `make chaos` sends messages and makes faults, and how long it pauses between two faults. CHAOS_SEED repeats a run's
# choices.
CHAOS     ?= 2m
CHAOS_GAP ?= 1s
# How many workers `make kills` kills. SEED repeats which at what point, not the timing.
KILLS     ?= 1000
# How many lives `make simulate` lives, and the seed of the first.
SEEDS    ?= 300
SEED     ?= 1
# How long `make fuzz` looks, for each of its targets.
FUZZTIME ?= 60s

.DEFAULT_GOAL := help
.PHONY: help test test-busy quick cases lint english build bench bench-peers explore walk real-agents sdks fuzz helm chaos chaos-defects kills simulate simulate-defects planted-defects proof runbook recording ci pin vulnerabilities fmt home release release-notes clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## all tests, with the race detector, on a real redis-server
	@command -v redis-server >/dev/null || [ -n "$$REDIS_URL" ] || \
		echo "make test: NO redis-server ON PATH: the embedded server stands in, and what needs a real one is SKIPPED" >&2
	@echo "make test: the first time this compiles for some minutes, and prints nothing meanwhile"
	go build ./cmd/... ./test/... ./examples/... # what tests run: no test's time is spent on it
	GORACE="atexit_sleep_ms=100 $$GORACE" go test -race -vet=off -p $(PACKAGES) -timeout 20m $(LONG) ./...

test-busy: ## make test beside four programs that compute, BUSY (1) times: no test may need an idle machine
	.ci/busy.sh $(BUSY) $(MAKE) test

quick: ## between two edits, under a minute: the tests that start no programs, without the race detector; what an edit cannot change is not run again
	@echo "make quick: the first time this compiles for some minutes, and prints nothing meanwhile"
	go test -short -vet=off -p $(PACKAGES) $$(go list ./... | grep -vE '$(PROGRAMS)')

cases: ## all cases of the tests that try a sample in make test, and those that it leaves out
	.ci/cases.sh

lint: ## go vet, gofmt, golangci-lint, shellcheck, actionlint, the length of commit subjects
	go vet ./...
	cd bench && go vet ./...
	cd bench-peers && go vet ./...
	cd chaos && GOOS=linux go vet ./...
	@unformatted=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')); \
		[ -z "$$unformatted" ] || { echo "not formatted (make fmt):"; echo "$$unformatted"; exit 1; }
	$(TOOL) golangci-lint run ./...
	shellcheck -x $(SCRIPTS)
	$(TOOL) actionlint .github/workflows/*.yml
	@git log --no-merges --max-count=400 --format='%h %s' | \
		awk '{ subject = substr($$0, index($$0, " ") + 1) } length(subject) > 71 { print "subject over 71 characters: " $$0; long = 1 } END { exit long }'
	@go run ./test/english

english: ## phrases in comments that usually hide a plainer sentence: it warns where there are more than twice River's
	@go run ./test/english

build: ## worker, gateway and enqueue into BIN (bin)
	@mkdir -p $(BIN)
	go build -trimpath -o $(BIN)/ ./cmd/...

bench: ## the figures of bench/, on a machine that does nothing else (BENCH_QUICK=1, BENCH_MARKDOWN=1)
	cd bench && for figure in */main.go; do go run "./$${figure%/main.go}" || exit 1; done
	go test -run '^$$' -bench SameBeginning -benchtime 1x ./pkg/agent/model

bench-peers: ## Turnstile beside other queues, about 20 minutes; PEERS=-write rewrites docs/internals/benchmarks.md (BENCH_QUICK=1)
	@cd bench-peers && [ node_modules/.package-lock.json -nt package-lock.json ] || \
		npm install --no-save --ignore-scripts --no-fund --no-audit || echo "without npm's packages, BullMQ and Restate are not run" >&2
	cd bench-peers && go test ./... && go run . $(PEERS)

explore: ## every order of the protocol's steps in small configurations (EXPLORE=gate: beginnings; long: more faults)
	.ci/explore.sh

walk: ## one message through a build with coverage, beside the walk of docs/internals/architecture.md
	.ci/walk.sh

real-agents: ## installs agents and MCP servers of the npm registry into AGENTS and runs them, the models scripted
	npm install --global --prefix "$(AGENTS)" --no-fund --no-audit $(NPM) $(MCP)
	PATH="$(abspath $(AGENTS))/bin:$$PATH" go test -count=1 -v -run 'Real|Opencode|Gemini' ./pkg/agent/acp ./pkg/agent/cli ./internal/mcp ./test/deploy

sdks: ## installs client libraries of npm into test/sdks and runs them against the programs
	npm ci --ignore-scripts --prefer-offline --no-fund --no-audit --prefix test/sdks/testdata
	TURNSTILE_SDKS=true go test -count=1 ./test/sdks

fuzz: ## every fuzz target, found by itself, FUZZTIME (60s) each (FUZZ=pattern of their names)
	FUZZTIME=$(FUZZTIME) .ci/fuzz.sh $(FUZZ)

helm: ## the chart of deploy/helm, rendered by Helm's engine and decoded by Kubernetes' types (no cluster)
	cd deploy/helm && go vet ./... && go test ./...

chaos: ## the real programs under faults for CHAOS (2m), and a check of what happened (Linux; CHAOS_SEED, CHAOS_GAP)
	cd chaos && go test ./... && go run . -for $(CHAOS) -gap $(CHAOS_GAP) $(if $(CHAOS_SEED),-seed $(CHAOS_SEED))

chaos-defects: ## defects put into copies of the programs, each of which make chaos must find
	cd chaos && go run . -defects defects.txtar

kills: ## KILLS (1000) workers killed in the middle of turns of 20 steps, and Redis now and then (Linux; SEED)
	go test -count=1 -timeout 60m -v -run '^TestKills$$' ./test/kills -kills $(KILLS) -seed $(SEED)

simulate: ## whole workers in simulated time, under faults from SEEDS (300) seeds from SEED (1) on
	go test -count=1 -timeout 60m -v -run '^TestSeeds$$' ./test/simulate -seeds $(SEEDS) -seed $(SEED)

simulate-defects: ## defects put into copies of the code, each of which 300 seeds must find
	go test -count=1 -timeout 60m -v -run '^TestDefects$$' ./test/simulate -defects -seed $(SEED)

planted-defects: ## defects put into copies of the code, each of which one test must find
	go test -count=1 -timeout 60m -v -run '^TestPlanted$$' ./test/mutation -planted

proof: ## what make ci leaves out, in hours: REPEAT (10) times all cases in random order, long searches, all defects (PARTS=names of some; PROOF_SEED)
	REPEAT=$(REPEAT) .ci/proof.sh $(PARTS)

runbook: build ## carries out docs/runbook.md, in about a minute (ENTRY=names of some)
	OUTSIDE_CHECKS=docs/runbook .ci/outside.sh $(BIN) $(ENTRY)

recording: ## docs/recording.svg anew, from a real run (the ports 6379 and 8080 must be free)
	go run ./docs/recording -o docs/recording.svg

ci: ## what CI runs
	.ci/run

vulnerabilities: ## known holes in what the code calls (GOVULNDB)
	.ci/vulnerabilities.sh

pin: ## the images' digests, into docker-compose.yml and Dockerfile
	.ci/pin.sh docker-compose.yml Dockerfile

home: ## gives the module the path where you host it: MODULE=github.com/you/turnstile
	.ci/home.sh '$(MODULE)'

fmt: ## format the Go files and sort their imports
	$(TOOL) goimports -local turnstile -w *.go bench bench-peers chaos cmd docs examples internal pkg test

release: ## binaries, checksums, SBOMs and image of HEAD into DIST (dist) for all RELEASE_PLATFORMS (docs/internals/releasing.md)
	.ci/release.sh

release-notes: ## the text of the next tag, from CHANGELOG.md
	@.ci/release.sh notes

clean: ## remove what build and release made
	rm -rf bin dist
