# Needs Go and make, nothing else: no C compiler, no kubectl, no container runtime. `make help` lists what there is.

# Pure Go everywhere, so that a machine without a C compiler builds the same binaries. buildvcs is off because the commit
# would be stamped into the binary, and every commit would link everything again.
export CGO_ENABLED ?= 0
export GOFLAGS := $(GOFLAGS) -buildvcs=false
MAKEFLAGS += --no-print-directory

# How many packages are tested at a time, and how long one package may take. Several packages start a control plane each;
# more than two at a time starve each other on a small machine.
PACKAGES_AT_A_TIME ?= 2
TEST_TIMEOUT ?= 45m

# What bin/tenon is built from: Go files and what they embed. Go's own cache decides what is compiled again.
sources := $(shell find . \( -path './.?*' -o -path ./bin -o -path ./controlplane -o -path ./docs -o -path ./tools \
	-o -path ./deploy/charts -o -path ./deploy/cloudformation -o -path ./deploy/release -o -path ./deploy/monitoring -o -path ./deploy/terraform -o -path ./deploy/test -o -path ./dashboard/browsertest -o -path ./endtoend/argo/program -o -path ./endtoend/clusterapi -o -path ./endtoend/descheduler/program -o -path ./endtoend/keda/program -o -path ./endtoend/kueue/program -o -path ./endtoend/prometheus/program -o -path ./endtoend/vpa/program -o -name testdata \) -prune -o -type f ! -name '*_test.go' ! -name '*.md' -print)
controlplane_sources := $(shell find controlplane -type f ! -name '*_test.go' ! -name '*.md')
clusterapi := $(addprefix bin/clusterapi/,core bootstrap controlplane infrastructure)
keda := $(addprefix bin/keda/,operator adapter)
vpa := $(addprefix bin/vpa/,recommender updater admission-controller)
go_tool := go tool -modfile=tools/go.mod

# What an image and a release are called, and what they are for. The version has one place, the chart.
VERSION ?= $(shell awk '/^version:/ { print $$2 }' deploy/charts/karpenter/Chart.yaml)
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null)$(if $(shell git status --porcelain 2>/dev/null),-dirty)
image_platforms := linux/amd64 linux/arm64
release_platforms := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64
releases := go -C deploy/release run .

# Kubernetes is compiled without inlining: that takes a quarter less time, and nothing that is measured runs in it. The scheduler is
# compiled as usual, and so is what the root module shares with it, which is compiled only once for both.
controlplane_goflags := $(GOFLAGS) -gcflags=k8s.io/kubernetes/...=-l -gcflags=k8s.io/kubernetes/pkg/scheduler/...= -gcflags=go.etcd.io/...=-l

# What make test leaves out: a target test-NAME for each group. Tests with a neighbour's program, which in package endtoend are the tests
# with the neighbour's name; the charts and what else users deploy, read with Helm's and Prometheus' own libraries; all random inputs.
neighbours := draws deploy argo aws browser clusterapi descheduler keda kueue prometheus vpa
neighbour_tests := Argo|Kueue|Descheduler|VerticalPodAutoscaler
go_test := go test -vet=off -timeout $(TEST_TIMEOUT)

.PHONY: help build controlplane clusterapi bin/clusterapi keda bin/keda descheduler argo kueue vpa bin/vpa prometheus image release release-check verify demo demo-aws demo-azure demo-capi playground quick test test-neighbours test-all $(addprefix test-,$(neighbours)) oracle explore mutate check race bench vuln generate clean
.DEFAULT_GOAL := help

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

build: bin/controlplane bin/tenon ## Build bin/tenon and bin/controlplane.

controlplane: bin/controlplane ## Build bin/controlplane only: what the tests need.

clusterapi: bin/clusterapi ## Build Cluster API's controllers in bin/clusterapi: what their tests need beside it.
bin/clusterapi: $(clusterapi)

keda: bin/keda ## Build KEDA's programs in bin/keda: what tests with it need beside that.
bin/keda: $(keda)

descheduler: bin/descheduler ## Build the descheduler as bin/descheduler: what tests with it need beside that.

argo: bin/workflow-controller ## Build the controller of Argo Workflows as bin/workflow-controller: what tests with it need beside that.

kueue: bin/kueue ## Build the controller of Kueue as bin/kueue: what tests with it need beside that.

vpa: bin/vpa ## Build the programs of the Vertical Pod Autoscaler in bin/vpa: what tests with it need beside that.
bin/vpa: $(vpa)

prometheus: bin/prometheus ## Build Prometheus as bin/prometheus: what tests with it need beside that.

# The files say that they were made when the commit was made, because they would differ each time otherwise.
image release: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null)
image: ## Build a container image for amd64 and arm64 in bin/image, an OCI layout. PUSH=registry/repository:tag pushes it.
	@$(releases) image -source '$(CURDIR)' -output '$(CURDIR)/bin/image' -version '$(VERSION)' -revision '$(REVISION)' -push '$(PUSH)' $(or $(PLATFORMS),$(image_platforms))

release: ## Build a release in bin/release: programs, image, charts, checksums, SBOMs, provenance. KEY=file signs it, PUSH=registry/path pushes it.
	@$(releases) build -source '$(CURDIR)' -output '$(CURDIR)/bin/release' -version '$(VERSION)' -revision '$(REVISION)' -key '$(abspath $(KEY))' \
		$(if $(BUILDER),-builder '$(BUILDER)') $(or $(PLATFORMS),$(release_platforms))
	@$(if $(PUSH),$(releases) push '$(CURDIR)/bin/release' '$(PUSH)')

release-check: ## Build the release of the last commit twice, and count the bytes that differ (minutes for each of PLATFORMS).
	@tools/release-check.sh '$(or $(PLATFORMS),$(release_platforms))'

verify: ## Check the release in FOLDER (bin/release) with the public key in the file KEY; without KEY, only that its files fit together.
	@$(releases) verify $(if $(KEY),-key '$(abspath $(KEY))',-unsigned) '$(abspath $(or $(FOLDER),bin/release))'

demo: build ## Pods come, a machine comes, pods go, the machine goes. ARGS=--exit leaves after that.
	@exec bin/tenon demo $(ARGS)

demo-aws: build ## The same with the AWS provider, against moto, which is installed with pip if it is not there.
	@go test -c -o bin/demo-aws ./endtoend/aws
	@cd endtoend/aws && TENON_DEMO=1 TENON_BINARY=$(CURDIR)/bin/tenon TENON_CONTROLPLANE=$(CURDIR)/bin/controlplane \
		exec $(CURDIR)/bin/demo-aws -test.timeout 15m -test.run '^TestMachinesOfEC2ComeAreReplacedAndLeaveNothingBehind$$'

demo-azure: build ## The same with the Azure provider, with kubeadm's join and AKS's, against a server of our own that plays Azure.
	@go test -c -o bin/demo-azure ./endtoend/azure
	@cd endtoend/azure && TENON_DEMO=1 TENON_BINARY=$(CURDIR)/bin/tenon TENON_CONTROLPLANE=$(CURDIR)/bin/controlplane \
		exec $(CURDIR)/bin/demo-azure -test.timeout 15m -test.run '^TestMachinesOf(Azure|AKS)ComeAreEvictedAndLeaveNothingBehind$$'

demo-capi: bin/controlplane bin/clusterapi ## The same with Cluster API's own controllers, on a local cluster.
	@cd endtoend/clusterapi && go test -c -o $(CURDIR)/bin/demo-capi . && TENON_DEMO=1 \
		exec $(CURDIR)/bin/demo-capi -test.timeout 15m -test.run '^TestMachineDeploymentsFollowThePods$$'

playground: build ## A local cluster with Tenon and a simulated cloud, until Ctrl-C. See ARGS=--help.
	@exec bin/tenon playground $(ARGS)

quick: export GOGC = 400
quick: ## While you edit: format, vet, the architecture, all packages whose tests need neither a control plane nor moto; no test of seconds.
	@echo '==> gofmt' && tools/gofmt.sh
	@echo '==> go vet' && go vet ./...
	@echo '==> tests' && packages=$$(go list -f '{{ .ImportPath }} {{ .TestImports }} {{ .XTestImports }}' ./...) && $(go_test) -short $$(echo "$$packages" | \
		grep -v -e playgroundtest -e awstest -e '^tenon.sh/endtoend' -e '^tenon.sh/oracle ' -e '^tenon.sh ' | awk '$$2 != "[]" || $$3 != "[]" { print $$1 }')
	@echo '==> architecture' && go test -vet=off -run Architecture .

test: export CONTROLPLANE_GOFLAGS = $(controlplane_goflags)
test: bin/controlplane ## Run the tests that need no neighbour's program: all of the root module, one random input in ten.
	@tools/test.sh $(PACKAGES_AT_A_TIME) $(TEST_TIMEOUT) '$(neighbour_tests)'

test-neighbours: $(addprefix test-,$(neighbours)) ## Run the tests that make test leaves out. There is a target for each group: test-deploy, test-keda …

test-all: test test-neighbours ## Run all tests of all modules.

test-argo: bin/controlplane bin/workflow-controller
	@$(go_test) ./endtoend -run Argo

test-aws: bin/controlplane # moto is installed with pip if it is not there
	@$(go_test) ./endtoend/aws

test-browser:
	@tools/browser.sh || true # without one the tests say what is missing
	@cd dashboard/browsertest && go vet ./... && $(go_test) ./...

test-clusterapi: bin/controlplane bin/clusterapi
	@cd endtoend/clusterapi && go vet ./... && $(go_test) ./...

test-deploy: bin/controlplane
	@cd deploy/test && go vet ./... && $(go_test) ./...
	@cd deploy/release && $(go_test) -count 1 ./... # it reads files outside of its module, which are no part of what go test caches

test-descheduler: bin/controlplane bin/descheduler
	@$(go_test) ./endtoend -run Descheduler

test-draws: export TENON_DRAWS = all
test-draws: bin/controlplane
	@$(go_test) -p $(PACKAGES_AT_A_TIME) ./engine/... ./explore ./oracle ./provider/azure ./scenario/workload ./simulator

test-keda: bin/controlplane bin/keda
	@$(go_test) ./endtoend/keda

test-kueue: bin/controlplane bin/kueue
	@$(go_test) ./endtoend -run Kueue

# A minute of its rules is a second here, so nothing runs beside it: a controller that has to wait for the machine misses alerts.
test-prometheus: bin/controlplane bin/prometheus
	@$(go_test) ./endtoend/prometheus

test-vpa: bin/controlplane bin/vpa
	@$(go_test) ./endtoend -run VerticalPodAutoscaler

race: export CGO_ENABLED = 1
race: export TENON_DRAWS = all
race: bin/controlplane ## Run the tests of the root module that need no neighbour's program under the race detector (this one needs a C compiler).
	@packages=$$(go list ./...) && go test -race -p $(PACKAGES_AT_A_TIME) -timeout $(TEST_TIMEOUT) -skip '$(neighbour_tests)' \
		$$(echo "$$packages" | grep -v -e /endtoend/keda -e /endtoend/prometheus)

oracle: bin/controlplane ## Ask kube-scheduler itself about 100,000 placements of random plans. ORACLE_SEED=n begins elsewhere.
	@ORACLE_PLACEMENTS=$(or $(ORACLE_PLACEMENTS),100000) go test -count 1 -v -timeout 60m -run '^TestPlansOfDrawnClustersPassKubeScheduler$$' ./oracle
	@ORACLE_CLAIMS=$(or $(ORACLE_PLACEMENTS),100000) go test -count 1 -v -timeout 60m -run '^TestTheAllocatorAgreesWithKubeScheduler$$' ./engine/dra
	@TENON_DRAWS=all ORACLE_FORGOTTEN=5000 go test -count 1 -v -timeout 60m -run '^TestAnyRuleThatTheEngineForgetsIsFound$$' ./oracle

explore: ## Run 100,000 interleavings of the reconcilers (half an hour of 2 cores). EXPLORE_RUNS=n, EXPLORE_SEED=n begins elsewhere.
	@EXPLORE_RUNS=$(or $(EXPLORE_RUNS),100000) go test -count 1 -v -timeout 4h -run '^TestNoInterleavingBreaksALaw$$' ./explore
	@EXPLORE_STARS=10000 go test -count 1 -v -timeout 2h -run '^TestFailuresThatArePutInAreFound$$' ./explore

mutate: ## Change 100 places of the engine drawn by chance, one at a time, and say what no test notices (an hour or two). SEED=n, COUNT=n, FOLDERS=a,b.
	@go -C tools run ./mutate -seed $(or $(SEED),1) -count $(or $(COUNT),100) -folders $(or $(FOLDERS),engine) -then ./engine,./engine/...,./oracle,./engine/...+all,./oracle+all,./cli

bench: bin/controlplane ## Run the benchmarks. BENCH=regexp chooses, PKG=./engine/... narrows, BENCHTIME=15x repeats.
	@go test -run '^$$' -bench '$(or $(BENCH),.)' -benchmem $(if $(BENCHTIME),-benchtime $(BENCHTIME)) -timeout 8h $(or $(PKG),./...)

check: ## Format, vet, staticcheck, the architecture test, go.mod of all modules, generated files.
	@echo '==> gofmt' && tools/gofmt.sh
	@echo '==> go vet' && go vet ./... && (cd controlplane && GOFLAGS='$(controlplane_goflags)' go vet ./...) && (cd deploy/release && go vet ./...) && (cd tools && go vet ./mutate)
	@echo '==> staticcheck' && $(go_tool) staticcheck ./...
	@echo '==> architecture' && go test -run Architecture .
	@echo '==> modules' && for module in $$(git ls-files '*go.mod'); do (cd $$(dirname $$module) && go list -m all >/dev/null) || { echo "$$module: see above" >&2; exit 1; }; done
	@echo '==> generated files' && tools/check-generated.sh

vuln: ## Look for known vulnerabilities in code that Tenon calls, with govulncheck. DB=URL names a mirror of its database.
	@tools/vuln.sh '$(DB)' ./...

generate: ## Write the generated files (CRDs, deep copies, pages, references) anew from the sources.
	@go generate ./...
	@cd deploy/test && go test . -run '^(TestTheDashboardsAreThoseOfTheDescription|TestTheCopyForPrometheusIsWhatTheChartMakes|TestTheExampleOfAPrometheusRuleHoldsTheRules)$$' -rewrite

clean: ## Remove what was built, and the playground's folder.
	@rm -rf bin .playground

# The clouds' SDKs are few packages, and large ones.
bin/tenon: export PACKAGES_PER_MINUTE := 125
bin/tenon: $(sources)
	@tools/build.sh . bin/tenon

bin/controlplane: export GOFLAGS := $(controlplane_goflags)
bin/controlplane: $(controlplane_sources)
	@tools/build.sh controlplane bin/controlplane

# Cluster API's own programs, from its modules. Two of the packages have the same name.
bin/clusterapi/core: package := sigs.k8s.io/cluster-api/core
bin/clusterapi/bootstrap: package := sigs.k8s.io/cluster-api/bootstrap/kubeadm
bin/clusterapi/controlplane: package := sigs.k8s.io/cluster-api/controlplane/kubeadm
bin/clusterapi/infrastructure: package := sigs.k8s.io/cluster-api/test/infrastructure/docker
$(clusterapi): endtoend/clusterapi/go.mod endtoend/clusterapi/go.sum
	@tools/build.sh endtoend/clusterapi $@ $(package)

# KEDA's own programs, from its module.
bin/keda/operator: package := github.com/kedacore/keda/v2/cmd/operator
bin/keda/adapter: package := github.com/kedacore/keda/v2/cmd/adapter
$(keda): endtoend/keda/program/go.mod endtoend/keda/program/go.sum
	@tools/build.sh endtoend/keda/program $@ $(package)

# The descheduler, from its module.
bin/descheduler: endtoend/descheduler/program/go.mod endtoend/descheduler/program/go.sum
	@tools/build.sh endtoend/descheduler/program $@ sigs.k8s.io/descheduler/cmd/descheduler

# The controller of Argo Workflows, from its module.
bin/workflow-controller: endtoend/argo/program/go.mod endtoend/argo/program/go.sum
	@tools/build.sh endtoend/argo/program $@ github.com/argoproj/argo-workflows/v4/cmd/workflow-controller

# The controller of Kueue, from its module.
bin/kueue: endtoend/kueue/program/go.mod endtoend/kueue/program/go.sum
	@tools/build.sh endtoend/kueue/program $@ sigs.k8s.io/kueue/cmd/kueue

# The Vertical Pod Autoscaler's own programs, from its module.
$(vpa): endtoend/vpa/program/go.mod endtoend/vpa/program/go.sum
	@tools/build.sh endtoend/vpa/program $@ k8s.io/autoscaler/vertical-pod-autoscaler/pkg/$(notdir $@)

# Prometheus, from its module: without its pages, and with Kubernetes as the only place to find targets in.
bin/prometheus: export GOFLAGS := $(GOFLAGS) -tags=remove_all_sd,enable_kubernetes_sd
bin/prometheus: endtoend/prometheus/program/go.mod endtoend/prometheus/program/go.sum
	@tools/build.sh endtoend/prometheus/program $@ github.com/prometheus/prometheus/cmd/prometheus
