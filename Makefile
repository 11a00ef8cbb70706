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
	-o -path ./deploy/charts -o -path ./deploy/cloudformation -o -path ./deploy/image -o -path ./deploy/monitoring -o -path ./deploy/terraform -o -path ./deploy/test -o -path ./dashboard/browsertest -o -path ./endtoend/argo/program -o -path ./endtoend/clusterapi -o -path ./endtoend/descheduler/program -o -path ./endtoend/keda/program -o -path ./endtoend/kueue/program -o -path ./endtoend/prometheus/program -o -path ./endtoend/vpa/program -o -name testdata \) -prune -o -type f ! -name '*_test.go' ! -name '*.md' -print)
controlplane_sources := $(shell find controlplane -type f ! -name '*_test.go' ! -name '*.md')
clusterapi := $(addprefix bin/clusterapi/,core bootstrap controlplane infrastructure)
keda := $(addprefix bin/keda/,operator adapter)
vpa := $(addprefix bin/vpa/,recommender updater admission-controller)
go_tool := go tool -modfile=tools/go.mod

# What a container image is called, and what it is for. The chart's version is that of the image that it starts.
VERSION ?= $(shell awk '/^appVersion:/ { print $$2 }' deploy/charts/karpenter/Chart.yaml)
REVISION ?= $(shell git describe --always --dirty --abbrev=40 --exclude='*' 2>/dev/null)
PLATFORMS ?= linux/amd64 linux/arm64

.PHONY: help build controlplane clusterapi bin/clusterapi keda bin/keda descheduler argo kueue vpa bin/vpa prometheus image demo demo-aws demo-azure demo-capi playground test oracle explore mutate check race bench generate clean
.DEFAULT_GOAL := help

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

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

image: ## Build a container image for amd64 and arm64 in bin/image, an OCI layout. PUSH=registry/repository:tag pushes it.
	@tools/image.sh '$(VERSION)' '$(REVISION)' '$(PLATFORMS)' '$(PUSH)'

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

test: export TENON_DRAWS = all
test: bin/controlplane bin/clusterapi bin/keda bin/descheduler bin/workflow-controller bin/kueue bin/vpa bin/prometheus ## Run all tests of all modules.
	@tools/test.sh $(PACKAGES_AT_A_TIME) $(TEST_TIMEOUT)

race: export CGO_ENABLED = 1
race: export TENON_DRAWS = all
race: bin/controlplane bin/keda bin/descheduler bin/workflow-controller bin/kueue bin/vpa bin/prometheus ## Run the same tests under the race detector (this one needs a C compiler).
	@go test -race -p $(PACKAGES_AT_A_TIME) -timeout $(TEST_TIMEOUT) ./...

oracle: bin/controlplane ## Ask kube-scheduler itself about 100,000 placements of random plans. ORACLE_SEED=n begins elsewhere.
	@ORACLE_PLACEMENTS=$(or $(ORACLE_PLACEMENTS),100000) go test -count 1 -v -timeout 60m -run '^TestPlansOfDrawnClustersPassKubeScheduler$$' ./oracle
	@ORACLE_CLAIMS=$(or $(ORACLE_PLACEMENTS),100000) go test -count 1 -v -timeout 60m -run '^TestTheAllocatorAgreesWithKubeScheduler$$' ./engine/dra
	@ORACLE_FORGOTTEN=5000 go test -count 1 -v -timeout 60m -run '^TestAnyRuleThatTheEngineForgetsIsFound$$' ./oracle

explore: ## Run 100,000 interleavings of the reconcilers (half an hour of 2 cores). EXPLORE_RUNS=n, EXPLORE_SEED=n begins elsewhere.
	@EXPLORE_RUNS=$(or $(EXPLORE_RUNS),100000) go test -count 1 -v -timeout 4h -run '^TestNoInterleavingBreaksALaw$$' ./explore
	@EXPLORE_STARS=10000 go test -count 1 -v -timeout 2h -run '^TestFailuresThatArePutInAreFound$$' ./explore

mutate: ## Change 100 places of the engine drawn by chance, one at a time, and say what no test notices (an hour or two). SEED=n, COUNT=n, FOLDERS=a,b.
	@go -C tools run ./mutate -seed $(or $(SEED),1) -count $(or $(COUNT),100) -folders $(or $(FOLDERS),engine) -then ./engine,./engine/...,./oracle,./engine/...+all,./cli

bench: bin/controlplane ## Run the benchmarks. BENCH=regexp chooses, PKG=./engine/... narrows, BENCHTIME=15x repeats.
	@go test -run '^$$' -bench '$(or $(BENCH),.)' -benchmem $(if $(BENCHTIME),-benchtime $(BENCHTIME)) -timeout 8h $(or $(PKG),./...)

check: ## Format, vet, staticcheck, the architecture test, generated files.
	@echo '==> gofmt' && tools/gofmt.sh
	@echo '==> go vet' && go vet ./... && (cd controlplane && go vet ./...) && (cd deploy/test && go vet ./...) && (cd deploy/image && go vet ./...) && (cd dashboard/browsertest && go vet ./...) && (cd endtoend/clusterapi && go vet ./...) && (cd tools && go vet ./mutate)
	@echo '==> staticcheck' && $(go_tool) staticcheck ./...
	@echo '==> architecture' && go test -run Architecture .
	@echo '==> generated files' && tools/check-generated.sh

generate: ## Write the generated files (CRDs, deep copies, pages, references) anew from the sources.
	@go generate ./...
	@cd deploy/test && go test . -run '^(TestTheDashboardsAreThoseOfTheDescription|TestTheCopyForPrometheusIsWhatTheChartMakes|TestTheExampleOfAPrometheusRuleHoldsTheRules)$$' -rewrite

clean: ## Remove what was built, and the playground's folder.
	@rm -rf bin .playground

bin/tenon: $(sources)
	@tools/build.sh . bin/tenon

bin/controlplane: $(controlplane_sources)
	@tools/build.sh controlplane bin/controlplane "about 4 minutes on 2 cores, but only the first time"

# Cluster API's own programs, from its modules. Two of the packages have the same name.
bin/clusterapi/core: package := sigs.k8s.io/cluster-api/core
bin/clusterapi/bootstrap: package := sigs.k8s.io/cluster-api/bootstrap/kubeadm
bin/clusterapi/controlplane: package := sigs.k8s.io/cluster-api/controlplane/kubeadm
bin/clusterapi/infrastructure: package := sigs.k8s.io/cluster-api/test/infrastructure/docker
$(clusterapi): endtoend/clusterapi/go.mod endtoend/clusterapi/go.sum
	@tools/build.sh endtoend/clusterapi $@ "about 5 minutes on 2 cores, but only the first time" $(package)

# KEDA's own programs, from its module.
bin/keda/operator: package := github.com/kedacore/keda/v2/cmd/operator
bin/keda/adapter: package := github.com/kedacore/keda/v2/cmd/adapter
$(keda): endtoend/keda/program/go.mod endtoend/keda/program/go.sum
	@tools/build.sh endtoend/keda/program $@ "about 10 minutes on 2 cores, but only the first time" $(package)

# The descheduler, from its module.
bin/descheduler: endtoend/descheduler/program/go.mod endtoend/descheduler/program/go.sum
	@tools/build.sh endtoend/descheduler/program $@ "about 5 minutes on 2 cores, but only the first time" sigs.k8s.io/descheduler/cmd/descheduler

# The controller of Argo Workflows, from its module.
bin/workflow-controller: endtoend/argo/program/go.mod endtoend/argo/program/go.sum
	@tools/build.sh endtoend/argo/program $@ "about 5 minutes on 2 cores, but only the first time" github.com/argoproj/argo-workflows/v4/cmd/workflow-controller

# The controller of Kueue, from its module.
bin/kueue: endtoend/kueue/program/go.mod endtoend/kueue/program/go.sum
	@tools/build.sh endtoend/kueue/program $@ "about 5 minutes on 2 cores, but only the first time" sigs.k8s.io/kueue/cmd/kueue

# The Vertical Pod Autoscaler's own programs, from its module.
$(vpa): endtoend/vpa/program/go.mod endtoend/vpa/program/go.sum
	@tools/build.sh endtoend/vpa/program $@ "about 5 minutes on 2 cores, but only the first time" k8s.io/autoscaler/vertical-pod-autoscaler/pkg/$(notdir $@)

# Prometheus, from its module: without its pages, and with Kubernetes as the only place to find targets in.
bin/prometheus: export GOFLAGS := $(GOFLAGS) -tags=remove_all_sd,enable_kubernetes_sd
bin/prometheus: endtoend/prometheus/program/go.mod endtoend/prometheus/program/go.sum
	@tools/build.sh endtoend/prometheus/program $@ "about 5 minutes on 2 cores, but only the first time" github.com/prometheus/prometheus/cmd/prometheus
