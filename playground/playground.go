// Package playground starts and stops a Kubernetes control plane on this machine: etcd, kube-apiserver, kube-scheduler,
// kube-controller-manager and KWOK, which plays the kubelets of nodes that do not exist. Each is a process of the binary
// that the folder controlplane/ builds; this package makes certificates and kubeconfigs, chooses ports, waits until all is
// ready and ends everything in order.
//
// It leaves to others what runs on the control plane: it installs no kinds, creates no nodes and starts no autoscaler.
//
// # Folder
//
// Everything is in one folder: certificates (pki), etcd's data (etcd), one log per component (logs), the administrator's
// kubeconfig (kubeconfig). A temporary folder is removed by Stop. A folder that the caller named stays; starting in it again
// continues with its data, whether the playground before was stopped or killed. While a playground runs in it, its file
// playground.lock is locked by the playground and by each of its processes, so a second Start there is refused until the last of them has ended.
//
// # Ends
//
// No process outlives the one that called Start: each component exits by itself when the pipe that it inherited closes, which
// the kernel does even after kill -9.
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

// The components, in the order in which they start.
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

// Config says what to start; its zero value is a whole control plane in a temporary folder.
type Config struct {
	Dir        string            // data, certificates, logs, kubeconfig; "": a new temporary folder, removed by Stop
	Binary     string            // the controlplane binary; "": the one that FindBinary finds
	Progress   func(line string) // receives each step of the start as it happens; nil: silence
	Components []string          // etcd and kube-apiserver always run; nil: all five
	Audit      bool              // AuditLog gets a line of JSON for each request of a service account
	// FeatureGates and APIs are Kubernetes' --feature-gates of all components and --runtime-config of the API server, for what is not on
	// by default: "GenericWorkload=true", "scheduling.k8s.io/v1alpha2=true".
	FeatureGates, APIs string

	listen listenFunc // how ports are chosen; nil: free ones of the loopback interface
}

// AuditLog is the file of Config.Audit.
func (p *Playground) AuditLog() string { return p.folder.path("logs", "audit.log") }

// startAttempts is how often a start is repeated because another program took a port between choosing and using it.
const startAttempts = 4

// A Playground is a running control plane. Its methods may be called by several goroutines.
type Playground struct {
	config     Config
	components []string
	folder     *folder
	leash      *leash
	cluster    *authority // signs the certificates of the API server, of its clients and of users
	etcd       *authority // signs those of etcd, so that a user's certificate opens no way around RBAC
	frontProxy *authority // signs that by which API servers behind the API server know it; whom it names, they believe
	admin      *rest.Config

	stopping sync.Once
	stopErr  error

	mu        sync.Mutex // guards the fields below
	processes []*process // in the order in which they were started
	stopped   bool
	done      chan error
}

// Start starts a control plane and returns once it is ready for pods: API server, scheduler, controller manager and KWOK are healthy,
// and the default namespace has its service account. The context bounds the start only. On an error nothing is left running.
func Start(ctx context.Context, config Config) (*Playground, error) {
	begin := time.Now()
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

// prepare does what needs no process: it checks the configuration, takes the folder and makes the certificates' authorities.
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

// Dir is the folder of data, certificates and logs.
func (p *Playground) Dir() string { return p.folder.dir }

// PID returns the process that runs a component, or 0.
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

// Done receives one error if a component ends by itself; it names the component and ends with the last lines of its log. The
// channel is closed by Stop. The other components keep running: what to do is the caller's decision.
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

// Stop ends all components in the reverse order of their start and waits for them: SIGTERM first, and SIGKILL for one that has
// not ended after a while. It may be called several times; each call returns when all have ended, with the same error.
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

// endProcesses ends what runs. Scheduler, controller manager and KWOK know nothing of each other and end together; then the API
// server, so that it still answers their last requests; then etcd.
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

// removeAll is os.RemoveAll with an error that says what to do.
func removeAll(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the temporary folder (remove it by hand): %w", err)
	}
	return nil
}
