// Package playground starts and stops a Kubernetes control plane on this machine: etcd, kube-apiserver, kube-scheduler,
// kube-controller-manager and KWOK, which simulates the kubelets of nodes that do not exist. Each is a process of the binary that the folder
// controlplane/ builds. This package creates certificates and kubeconfigs, chooses ports, waits until all components are ready and ends them
// in order.
//
// The package installs no kinds, creates no nodes and starts no autoscaler.
//
// # Folder
//
// Everything is in one folder: certificates (pki), etcd's data (etcd), one log per component (logs), the administrator's kubeconfig
// (kubeconfig). Stop removes a temporary folder. A folder that the caller named stays. A new start in this folder continues with its data,
// even if the earlier playground was killed. While a playground runs, the file playground.lock is locked by the playground and by each of its
// processes. A second Start in the folder is refused until the last of them has ended.
//
// # Ends
//
// No process outlives the process that called Start: each component exits by itself when the pipe that it inherited closes. The kernel closes
// the pipe even after kill -9.
package playground

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// The components, in the order of their start.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	Scheduler         = "kube-scheduler"
	ControllerManager = "kube-controller-manager"
	KWOK              = "kwok"
)

func componentNames() []string {
	return []string{Etcd, APIServer, Scheduler, ControllerManager, KWOK}
}

// Config selects the components to start. Its zero value is a whole control plane in a temporary folder.
type Config struct {
	Dir        string            // data, certificates, logs, kubeconfig; "": a new temporary folder, removed by Stop
	Binary     string            // path of the controlplane binary; "": the result of FindBinary
	Progress   func(line string) // called for each step of the start; nil: no progress
	Components []string          // etcd and kube-apiserver always run; nil: all five
	Audit      bool              // log each request of a service account to AuditLog, as a line of JSON
	// FeatureGates is the --feature-gates of all components and APIs the --runtime-config of the API server, for features that are off by
	// default: "GenericWorkload=true", "scheduling.k8s.io/v1alpha2=true".
	FeatureGates, APIs string

	listen listenFunc // chooses ports; nil: free ports of the loopback interface
}

// AuditLog returns the path of the file that Config.Audit fills.
func (p *Playground) AuditLog() string { return p.folder.path("logs", "audit.log") }

// startAttempts is the largest number of starts. A start is repeated if another program took a port between its choice and its use.
const startAttempts = 4

// A Playground is a running control plane. Its methods may be called by several goroutines.
type Playground struct {
	config     Config
	components []string
	folder     *folder
	leash      *leash
	cluster    *authority // signs the certificates of the API server, its clients and users
	etcd       *authority // signs the certificates of etcd, so that a user's certificate gives no access without RBAC
	frontProxy *authority // signs the API server's certificate for aggregated API servers, which trust the user names in its requests
	admin      *rest.Config

	stopping sync.Once
	stopErr  error

	mu        sync.Mutex // guards the fields below
	processes []*process // in the order of their start
	stopped   bool
	done      chan error
}

// Start starts a control plane and returns once it is ready for pods: API server, scheduler, controller manager and KWOK are healthy, and the
// default namespace has its service account. The context bounds only the start. After an error nothing is left running.
func Start(ctx context.Context, config Config) (*Playground, error) {
	begin := time.Now()
	if err := supported(); err != nil {
		return nil, fmt.Errorf("start playground: %w", err)
	}
	p, err := prepare(config)
	if err != nil {
		return nil, fmt.Errorf("start playground: %w", err)
	}
	for attempt := 1; ; attempt++ {
		err = p.startComponents(ctx)
		if err == nil {
			p.progress("ready after %.1f s", time.Since(begin).Seconds())
			return p, nil
		}
		if attempt == startAttempts || !portTaken(err) || ctx.Err() != nil {
			return nil, fmt.Errorf("start playground in %s: %w", p.Dir(), errors.Join(err, p.Stop()))
		}
		p.progress("another program took a port; starting again with other ports")
		if err := p.endProcesses(); err != nil {
			return nil, fmt.Errorf("start playground in %s: %w", p.Dir(), errors.Join(err, p.Stop()))
		}
	}
}

// prepare makes the preparations that need no process: it checks the configuration, locks the folder and creates the certificate authorities.
func prepare(config Config) (*Playground, error) {
	components, err := chooseComponents(config.Components)
	if err != nil {
		return nil, err
	}
	if config.Binary == "" {
		if config.Binary, err = FindBinary(); err != nil {
			return nil, err
		}
	} else if err := checkBinary(config.Binary); err != nil {
		return nil, err
	}
	if config.listen == nil {
		config.listen = listenLoopback
	}
	folder, err := openFolder(config.Dir)
	if err != nil {
		return nil, err
	}
	p := &Playground{config: config, components: components, folder: folder, done: make(chan error, 1)}
	if err := p.prepareFolder(); err != nil {
		return nil, errors.Join(err, folder.close())
	}
	return p, nil
}

func (p *Playground) prepareFolder() (err error) {
	if p.cluster, err = openAuthority(p.folder.path("pki", "ca"), "tenon-playground"); err != nil {
		return err
	}
	if p.etcd, err = openAuthority(p.folder.path("pki", "etcd-ca"), "tenon-playground-etcd"); err != nil {
		return err
	}
	if p.frontProxy, err = openAuthority(p.folder.path("pki", "front-proxy-ca"), "tenon-playground-front-proxy"); err != nil {
		return err
	}
	if err := ensureKey(p.folder.path("pki", "service-account.key")); err != nil {
		return err
	}
	p.leash, err = newLeash()
	return err
}

func chooseComponents(wanted []string) ([]string, error) {
	if len(wanted) == 0 {
		return componentNames(), nil
	}
	for _, name := range wanted {
		if !slices.Contains(componentNames(), name) {
			return nil, fmt.Errorf("unknown component %q: choose from %v", name, componentNames())
		}
	}
	return slices.DeleteFunc(componentNames(), func(name string) bool {
		return name != Etcd && name != APIServer && !slices.Contains(wanted, name)
	}), nil
}

func (p *Playground) runs(component string) bool { return slices.Contains(p.components, component) }

func (p *Playground) progress(format string, args ...any) {
	if p.config.Progress != nil {
		p.config.Progress(fmt.Sprintf(format, args...))
	}
}

// Dir returns the folder of data, certificates and logs.
func (p *Playground) Dir() string { return p.folder.dir }

// PID returns the ID of a component's process, or 0 if it does not run.
func (p *Playground) PID(component string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, process := range p.processes {
		if process.name == component {
			return process.command.Process.Pid
		}
	}
	return 0
}

// Done receives one error if a component ends by itself. The error names the component and ends with the last lines of its log. Stop closes
// the channel. The other components keep running until the caller stops them.
func (p *Playground) Done() <-chan error { return p.done }

func (p *Playground) componentEnded(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	select {
	case p.done <- err:
	default: // a first one was reported already, and probably took the others with it
	}
}

// Stop ends all components in the reverse order of their start and waits for them. It sends SIGTERM, and SIGKILL to a component that has not
// ended after stopGrace. It may be called several times: each call returns after all have ended, with the same error.
func (p *Playground) Stop() error {
	p.stopping.Do(func() {
		p.mu.Lock()
		p.stopped = true
		p.mu.Unlock()
		p.stopErr = errors.Join(p.endProcesses(), p.leash.close(), p.folder.close())
		close(p.done)
	})
	return p.stopErr
}

// endProcesses ends all components. Scheduler, controller manager and KWOK are independent and end together. The API server ends next, so
// that it still answers their last requests, and etcd ends last.
func (p *Playground) endProcesses() error {
	p.mu.Lock()
	processes := p.processes
	p.processes = nil
	p.mu.Unlock()

	var clients, servers []*process
	for _, process := range processes {
		if process.name == Etcd || process.name == APIServer {
			servers = append(servers, process)
		} else {
			clients = append(clients, process)
		}
	}
	errs := []error{endTogether(clients)}
	for _, process := range slices.Backward(servers) {
		errs = append(errs, process.end())
	}
	return errors.Join(errs...)
}

func endTogether(processes []*process) error {
	errs := make([]error, len(processes))
	var wait sync.WaitGroup
	for i, process := range processes {
		wait.Go(func() { errs[i] = process.end() })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// removeAll is os.RemoveAll with an error that tells the user to remove the folder.
func removeAll(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the temporary folder (remove it by hand): %w", err)
	}
	return nil
}
