package explore

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/simulated"
)

// rented is a process's view of the simulated cloud. Each call is a step, and may fail or get no answer.
type rented struct {
	*simulated.Provider
	p *process
}

var (
	_ provider.Provider = rented{}
	_ provider.Notifier = rented{}
)

// errCloud is the error of an internal fault of the cloud.
var errCloud = errors.New("the cloud has an internal error")

// ask makes a call to the cloud, and returns a failure as an error of the cloud.
func (r rented) ask(what, object string, do func() error) error {
	err := r.p.call(what, "machine", object, do)
	switch {
	case apierrors.IsConflict(err):
		return &provider.ThrottledError{Call: what}
	case apierrors.IsInternalError(err), apierrors.IsTimeout(err):
		return fmt.Errorf("%s %s: %w", what, object, errCloud)
	}
	return err
}

func (r rented) Launch(ctx context.Context, claim *v1.NodeClaim, class provider.Class) (m engine.Machine, err error) {
	err = r.ask("launch", claim.Name, func() error {
		if r.p.w.switches.Token != nil {
			claim = r.p.w.switches.Token(claim)
		}
		r.p.w.laws.launching(claim, class)
		var failed error
		m, failed = r.Provider.Launch(ctx, claim, class)
		return failed
	})
	if err != nil {
		return engine.Machine{}, err
	}
	return m, nil
}

func (r rented) Terminate(ctx context.Context, id engine.MachineID) error {
	return r.ask("terminate", string(id), func() error {
		r.p.w.laws.terminating(r.p.w.actor, id)
		return r.Provider.Terminate(ctx, id)
	})
}

func (r rented) Machine(ctx context.Context, id engine.MachineID) (m engine.Machine, err error) {
	err = r.ask("describe", string(id), func() error {
		var failed error
		m, failed = r.Provider.Machine(ctx, id)
		return failed
	})
	return m, err
}

func (r rented) Machines(ctx context.Context) (list []engine.Machine, err error) {
	err = r.ask("list machines", "", func() error {
		var failed error
		list, failed = r.Provider.Machines(ctx)
		if hide := r.p.w.switches.Machines; hide != nil {
			list = hide(list)
		}
		return failed
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func (r rented) Notices(ctx context.Context) (list []provider.Notice, err error) {
	err = r.ask("list notices", "", func() error {
		var failed error
		list, failed = r.Provider.Notices(ctx)
		return failed
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func (r rented) Acknowledge(ctx context.Context, notice provider.Notice) error {
	return r.ask("acknowledge", string(notice.Machine), func() error { return r.Provider.Acknowledge(ctx, notice) })
}
