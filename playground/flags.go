package playground

import (
	"fmt"
	"os"
	"time"
)

const (
	serviceRange   = "10.96.0.0/16"
	firstServiceIP = "10.96.0.1"    // the API server's own service
	podRange       = "10.128.0.0/9" // KWOK gives the pods of all nodes addresses from one range

	// Requests per second of one client. With the default of 20 or 50, a thousand pods would wait for a minute.
	clientQPS, clientBurst = 1000, 2000
)

// frontProxyClient is the API server's name in its certificate for aggregated API servers.
const frontProxyClient = "front-proxy-client"

// etcdFlags run a single member. Other users of this machine can reach the port, but not the data, because clients need a certificate.
func (p *Playground) etcdFlags(use *ports) []string {
	file := p.folder.path
	return []string{
		"--name=playground",
		"--data-dir=" + file("etcd"),
		"--listen-client-urls=" + use.etcd.url(),
		"--advertise-client-urls=" + use.etcd.url(),
		"--listen-peer-urls=" + use.etcdPeer.url(),
		"--initial-advertise-peer-urls=" + use.etcdPeer.url(),
		"--initial-cluster=playground=" + use.etcdPeer.url(),
		"--client-cert-auth", "--peer-client-cert-auth",
		"--trusted-ca-file=" + p.etcd.certFile, "--peer-trusted-ca-file=" + p.etcd.certFile,
		"--cert-file=" + file("pki", "etcd.crt"), "--peer-cert-file=" + file("pki", "etcd.crt"),
		"--key-file=" + file("pki", "etcd.key"), "--peer-key-file=" + file("pki", "etcd.key"),
		// On a laptop, waiting for the disk at each write takes most of the time of a large test. Without it, data is not safe against a
		// power failure, but a kill -9 loses nothing. Playgrounds can be created again.
		"--unsafe-no-fsync",
		"--log-level=warn",
		"--watch-progress-notify-interval=5s", // so that the API server answers lists from its cache
	}
}

func (p *Playground) apiServerFlags(use *ports) []string {
	file := p.folder.path
	flags := []string{
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
		"--secure-port=" + use.apiServer.String(),
		// Otherwise the API server would publish its address for pods. No pod here has a network, and the API server refuses loopback
		// addresses for this.
		"--endpoint-reconciler-type=none",
		"--etcd-servers=" + use.etcd.url(),
		"--etcd-cafile=" + p.etcd.certFile,
		"--etcd-certfile=" + file("pki", "etcd-client.crt"), "--etcd-keyfile=" + file("pki", "etcd-client.key"),
		"--tls-cert-file=" + file("pki", "kube-apiserver.crt"), "--tls-private-key-file=" + file("pki", "kube-apiserver.key"),
		"--client-ca-file=" + p.cluster.certFile,
		"--authorization-mode=RBAC",
		"--enable-bootstrap-token-auth", // like kubeadm, because clouds' machines join with tokens
		// Aggregation: the API server forwards requests for the group of an APIService, with the user's name, to its server. Pods have no
		// network here, so the server is a process of this machine behind a Service of type ExternalName.
		"--proxy-client-cert-file=" + file("pki", frontProxyClient+".crt"), "--proxy-client-key-file=" + file("pki", frontProxyClient+".key"),
		"--requestheader-client-ca-file=" + p.frontProxy.certFile, "--requestheader-allowed-names=" + frontProxyClient,
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--service-cluster-ip-range=" + serviceRange,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + file("pki", "service-account.key"),
		"--service-account-signing-key-file=" + file("pki", "service-account.key"),
		"--allow-privileged",
		// Fairness between clients queues requests long before this machine is busy. Plain limits are enough for one user.
		"--enable-priority-and-fairness=false",
		"--max-requests-inflight=4000", "--max-mutating-requests-inflight=2000",
		"--profiling=false",
		// The API server closes watches when it ends. Otherwise it would wait for their clients.
		"--shutdown-watch-termination-grace-period=1s",
	}
	if p.config.Audit {
		flags = append(flags, "--audit-log-path="+p.AuditLog(), "--audit-policy-file="+file("config", "audit.yaml"))
	}
	if !p.runs(ControllerManager) {
		// Without the controller manager, no service accounts exist, and this plugin would refuse each pod.
		flags = append(flags, "--disable-admission-plugins=ServiceAccount")
	}
	if p.config.APIs != "" {
		flags = append(flags, "--runtime-config="+p.config.APIs)
	}
	return append(flags, p.gateFlags()...)
}

// gateFlags switch feature gates of Kubernetes.
func (p *Playground) gateFlags() []string {
	if p.config.FeatureGates == "" {
		return nil
	}
	return []string{"--feature-gates=" + p.config.FeatureGates}
}

func (p *Playground) schedulerFlags(use *ports) []string {
	return append(append(p.servingFlags(Scheduler, use.scheduler), p.gateFlags()...), "--config="+p.folder.path("config", "kube-scheduler.yaml"))
}

// silence is the time for which a node counts as alive without a status from KWOK. Nodes have no leases here: with the usual 40 s, the leases
// of 500 nodes would need a quarter of the requests that a laptop's API server can answer. KWOK writes each node's status every 10 to 20
// minutes. If KWOK itself ends, the caller of Start receives an error.
const silence = 45 * time.Minute

func (p *Playground) controllerManagerFlags(use *ports) []string {
	return append(append(p.servingFlags(ControllerManager, use.controllerManager), p.gateFlags()...),
		"--kubeconfig="+p.kubeconfigOf(ControllerManager),
		"--leader-elect=false",
		fmt.Sprintf("--kube-api-qps=%d", clientQPS), fmt.Sprintf("--kube-api-burst=%d", clientBurst),
		"--root-ca-file="+p.cluster.certFile,
		"--service-account-private-key-file="+p.folder.path("pki", "service-account.key"),
		"--cluster-signing-cert-file="+p.cluster.certFile, "--cluster-signing-key-file="+p.cluster.keyFile,
		"--service-cluster-ip-range="+serviceRange,
		"--concurrent-deployment-syncs=20", "--concurrent-replicaset-syncs=20", "--concurrent-statefulset-syncs=20",
		"--concurrent-job-syncs=20", "--concurrent-namespace-syncs=20",
		// The ttl controller writes to each node the time for which kubelets may keep secrets, and writes to all nodes again whenever there
		// are more than 100, 500 or 1000. There are no kubelets here.
		"--controllers=*,-ttl-controller",
		"--node-monitor-grace-period="+silence.String(),
		"--profiling=false",
	)
}

// servingFlags are the flags of a component that serves only its own health and metrics. Its metrics are public on this machine.
func (p *Playground) servingFlags(name string, on port) []string {
	return []string{
		"--bind-address=127.0.0.1",
		"--secure-port=" + on.String(),
		"--tls-cert-file=" + p.folder.path("pki", name+".crt"), "--tls-private-key-file=" + p.folder.path("pki", name+".key"),
		"--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics",
	}
}

func (p *Playground) kwokFlags(use *ports) []string {
	return []string{
		"--kubeconfig=" + p.kubeconfigOf(KWOK),
		"--server-address=" + use.kwok.address(),
		"--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
		"--node-lease-duration-seconds=0",
		"--cidr=" + podRange,
	}
}

func (p *Playground) kubeconfigOf(component string) string {
	return p.folder.path("config", component+".kubeconfig")
}

// writeAuditPolicy writes the audit policy. A watch is logged at its begin and at its end.
func (p *Playground) writeAuditPolicy() error {
	const content = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, userGroups: ["system:serviceaccounts"]}
- {level: None}
`
	return os.WriteFile(p.folder.path("config", "audit.yaml"), []byte(content), 0o600)
}

// writeSchedulerConfig writes kube-scheduler's configuration with a higher limit of requests. All other settings are defaults, because plans
// assume an unchanged scheduler.
func (p *Playground) writeSchedulerConfig() error {
	content := fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: %q
  qps: %d
  burst: %d
leaderElection:
  leaderElect: false
`, p.kubeconfigOf(Scheduler), clientQPS, clientBurst)
	return os.WriteFile(p.folder.path("config", "kube-scheduler.yaml"), []byte(content), 0o600)
}
