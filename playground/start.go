package playground

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A component contains everything that is necessary to start one.
type component struct {
	name   string
	args   []string
	ports  []port
	health probe
}

// startComponents writes the components' files and starts them: etcd, then the API server, then all others at the same time.
func (p *Playground) startComponents(ctx context.Context) error {
	use, err := choosePorts(p.config.listen)
	if err != nil {
		return err
	}
	defer use.release()
	if err := p.writeFiles(use); err != nil {
		return err
	}
	client, err := p.probeClient()
	if err != nil {
		return err
	}
	stages := [][]component{
		{{Etcd, p.etcdFlags(use), []port{use.etcd, use.etcdPeer}, answers(client, use.etcd.url()+"/readyz")}},
		{{APIServer, p.apiServerFlags(use), []port{use.apiServer}, answers(client, use.apiServer.url()+"/readyz")}},
		{
			{ControllerManager, p.controllerManagerFlags(use), []port{use.controllerManager}, answers(client, use.controllerManager.url()+"/healthz")},
			{Scheduler, p.schedulerFlags(use), []port{use.scheduler}, answers(client, use.scheduler.url()+"/readyz")},
			{KWOK, p.kwokFlags(use), []port{use.kwok}, answers(client, "http://"+use.kwok.address()+"/healthz")},
		},
	}
	for _, stage := range stages {
		if err := p.startStage(ctx, stage); err != nil {
			return err
		}
	}
	if err := p.waitForDefaults(ctx); err != nil {
		return err
	}
	p.watchProcesses()
	return nil
}

// startStage starts components that do not need each other, and waits until all are healthy.
func (p *Playground) startStage(ctx context.Context, stage []component) error {
	begin := time.Now()
	var started []*process
	var probes []probe
	for _, c := range stage {
		if !p.runs(c.name) {
			continue
		}
		for _, port := range c.ports {
			port.release()
		}
		process, err := startProcess(p.config.Binary, c.name, c.args, p.folder, p.leash)
		if err != nil {
			return err
		}
		p.mu.Lock()
		p.processes = append(p.processes, process)
		p.mu.Unlock()
		started, probes = append(started, process), append(probes, c.health)
	}
	for i, process := range started {
		if err := process.waitHealthy(ctx, probes[i]); err != nil {
			return err
		}
		p.progress("%s is ready (%.1f s)", process.name, time.Since(begin).Seconds())
	}
	return nil
}

// watchProcesses reports a component that ends by itself from now on.
func (p *Playground) watchProcesses() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, process := range p.processes {
		go func() {
			<-process.ended
			p.componentEnded(process.endError())
		}()
	}
}

// writeFiles writes the certificates and configurations of one start. Earlier ones are useless, because the ports differ.
func (p *Playground) writeFiles(use *ports) (err error) {
	if p.admin, err = p.accessFor(use.apiServer, "playground-admin", adminGroup); err != nil {
		return err
	}
	if err := writeKubeconfig(p.Kubeconfig(), "playground-admin", p.admin); err != nil {
		return err
	}
	for _, name := range []string{APIServer, Scheduler, ControllerManager} {
		if err := p.writeIdentity(name)(p.cluster.server(name)); err != nil {
			return err
		}
	}
	if err := p.writeIdentity(Etcd)(p.etcd.server(Etcd)); err != nil {
		return err
	}
	if err := p.writeIdentity("etcd-client")(p.etcd.client(APIServer)); err != nil {
		return err
	}
	if err := p.writeIdentity(frontProxyClient)(p.frontProxy.client(frontProxyClient)); err != nil {
		return err
	}
	// The controller manager acts as one administrator, not as one service account per controller, because that would need forty tokens at
	// each start.
	groups := map[string][]string{ControllerManager: {adminGroup}, KWOK: {adminGroup}}
	for _, name := range []string{Scheduler, ControllerManager, KWOK} {
		user := "system:" + name
		access, err := p.accessFor(use.apiServer, user, groups[name]...)
		if err != nil {
			return err
		}
		if err := writeKubeconfig(p.kubeconfigOf(name), user, access); err != nil {
			return err
		}
	}
	return errors.Join(p.writeSchedulerConfig(), p.writeAuditPolicy())
}

func (p *Playground) writeIdentity(name string) func(identity, error) error {
	return func(id identity, err error) error {
		if err == nil {
			err = id.write(p.folder.path("pki", name))
		}
		if err != nil {
			return fmt.Errorf("certificate of %s: %w", name, err)
		}
		return nil
	}
}
