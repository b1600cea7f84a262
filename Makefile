# The one list of commands. `make` alone prints it.
.DEFAULT_GOAL := help
CARGO ?= cargo

.PHONY: help
help: ## Print this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Record, compile, replay and report on the embedded engine; ends with a fidelity report.
	@rm -rf target/demo
	$(CARGO) run --quiet --locked -- demo --out target/demo

.PHONY: test
test: ## Run every test.
	$(CARGO) test --locked

.PHONY: cases
cases: ## Run the acceptance cases (TRUETAPE_CASES, default ../shared/cases), a line a case.
	$(CARGO) test --locked --test cases -- --nocapture

.PHONY: differential
differential: ## Play every exchange with the proxy and without, a line an exchange.
	$(CARGO) test --locked --test differential -- --nocapture

.PHONY: fuzz
fuzz: ## Fuzz a reader for ten minutes: TARGET=sse, dialects, codings, spool or capture (needs cargo-fuzz).
	TRUETAPE_SEEDS=$(CURDIR)/target/fuzz/seeds $(CARGO) test --locked --test fuzz
	mkdir -p target/fuzz/corpus/$(TARGET)
	cd tests/fuzz && $(CARGO) fuzz run --fuzz-dir . --target-dir $(CURDIR)/target/fuzz --sanitizer none $(TARGET) \
	  $(CURDIR)/target/fuzz/corpus/$(TARGET) $(CURDIR)/target/fuzz/seeds/$(TARGET) -- \
	  -artifact_prefix=$(CURDIR)/target/fuzz/found-$(TARGET)- -max_total_time=600 -max_len=65536 $(ARGS)

.PHONY: fmt
fmt: ## Format the code.
	$(CARGO) fmt --all

.PHONY: lint
lint: ## Formatting, clippy with warnings denied, documentation with warnings denied.
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --document-private-items

.PHONY: deny
deny: ## Licences, bans and sources of the dependency graph (needs cargo-deny).
	$(CARGO) deny check bans licenses sources

.PHONY: sidecar
sidecar: ## Build the proxy alone, small and fast, as it goes into an image.
	$(CARGO) build --locked --profile sidecar -p truetape-proxy

# What follows is passed on, as in `make bench-proxy ARGS=--quick`.
.PHONY: bench-proxy
bench-proxy: sidecar ## Compare the proxy with its peers: nginx, haproxy, envoy, mitmproxy, as far as they are here.
	TRUETAPE_BENCH_PROXY=$(or $(TRUETAPE_BENCH_PROXY),$(CURDIR)/target/sidecar/truetape-proxy) \
	  $(CARGO) bench --locked -p truetape-testkit --bench proxy -- $(ARGS)

.PHONY: bench-replay
bench-replay: ## Lateness of the replayer at the upstream, beside its peers: aiperf, inference-perf, vllm, guidellm.
	$(CARGO) build --locked --release
	TRUETAPE_BENCH_TRUETAPE=$(or $(TRUETAPE_BENCH_TRUETAPE),$(CURDIR)/target/release/truetape) \
	  $(CARGO) bench --locked -p truetape-testkit --bench replay -- $(ARGS)

.PHONY: test-engines
test-engines: ## Record, compile and replay against llama.cpp and the Dynamo mocker (needs Python 3.12, installs them).
	$(CARGO) build --locked
	TRUETAPE_BINARY=$(CURDIR)/target/debug/truetape $(CARGO) run --quiet --locked -p truetape-testkit --example engines -- llamacpp dynamo

.PHONY: test-vllm
test-vllm: ## The same against vLLM on processors (needs Python 3.11; 6 GB).
	$(CARGO) build --locked
	TRUETAPE_BINARY=$(CURDIR)/target/debug/truetape $(CARGO) run --quiet --locked -p truetape-testkit --example engines -- vllm

.PHONY: bench-compiler
bench-compiler: ## Profile, select and emit 1 M and 4 M made-up turns: time, memory, growth; tokens a second.
	$(CARGO) bench --locked -p truetape-compiler --bench compiler -- $(ARGS)

.PHONY: eval-sessions
eval-sessions: ## Sessions told without ids, against public traces whose sessions are known.
	$(CARGO) run --quiet --release --locked -p truetape-compiler --example eval_sessions

.PHONY: eval-selection
eval-selection: ## How near a chosen set is to its source, beside random ones (needs ../shared/traces).
	$(CARGO) run --release --quiet --locked -p truetape-compiler --example eval_selection -- $(ARGS)

.PHONY: eval-replica
eval-replica: ## How near a set's latencies are to a replica's, beside a real replica (needs ../shared/traces).
	$(CARGO) run --release --quiet --locked -p truetape-compiler --example eval_replica -- $(ARGS)

.PHONY: eval-fidelity
eval-fidelity: ## Whether a report says the right direction, against fleets that it does not know (needs ../shared/traces).
	$(CARGO) run --release --quiet --locked -p truetape-compiler --example eval_fidelity -- $(ARGS)

.PHONY: ci
ci: lint test ## What continuous integration runs.
