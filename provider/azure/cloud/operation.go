package cloud

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

const (
	// pollEvery is how often to ask after an operation if Azure does not say.
	pollEvery = 3 * time.Second
	// pollsInVain is how often in a row asking may fail before it is given up.
	pollsInVain = 20
)

// Operation is what goes on in Azure after it has accepted a call.
type Operation struct {
	call, about string
	done        func() bool
	poll        func(context.Context) (*http.Response, error)
	result      func(context.Context) error
	last        *http.Response
	cloud       *Cloud
}

// begin makes a call that Azure may accept and carry out later.
func begin[T any](ctx context.Context, c *Cloud, call, about string, start func(context.Context) (*runtime.Poller[T], error)) (*Operation, error) {
	var first *http.Response
	poller, err := start(policy.WithCaptureResponse(ctx, &first))
	if err != nil {
		return nil, decode(call, about, false, err)
	}
	return &Operation{call: call, about: about, done: poller.Done, poll: poller.Poll, last: first, cloud: c, result: func(ctx context.Context) error {
		_, err := poller.Result(ctx)
		return err
	}}, nil
}

// Wait waits until the operation has ended, or the context has. The error is an *Error that says Accepted if it failed. That Azure
// could not be asked for a while does not end the waiting.
func (o *Operation) Wait(ctx context.Context) error {
	for vain := 0; !o.done(); {
		if err := o.cloud.sleep(ctx, o.pause(vain)); err != nil {
			return decode(o.call, o.about, false, err)
		}
		answer, err := o.poll(ctx)
		if err == nil {
			o.last, vain = answer, 0
			continue
		}
		failed := decode(o.call, o.about, false, err)
		if status(failed) == http.StatusConflict || status(failed) == http.StatusBadRequest {
			return decode(o.call, o.about, true, err) // the answer is the operation's error itself
		}
		if vain++; !Passing(failed) || vain == pollsInVain {
			return failed
		}
	}
	if succeeded(o.last) {
		return nil // the SDK would read what was made once more
	}
	return decode(o.call, o.about, true, o.result(ctx))
}

// pause is how long to wait before asking: as long as Azure says, unless it did not answer.
func (o *Operation) pause(vain int) time.Duration {
	if o.last == nil || vain > 0 {
		return pollEvery
	}
	if said, err := strconv.Atoi(o.last.Header.Get("Retry-After")); err == nil {
		return time.Duration(said) * time.Second
	}
	return pollEvery
}

// succeeded reports whether the answer says that an operation has ended well.
func succeeded(answer *http.Response) bool {
	if answer == nil {
		return false
	}
	if answer.StatusCode == http.StatusNoContent {
		return true
	}
	body, err := runtime.Payload(answer)
	var said struct {
		Status     string
		Properties struct{ ProvisioningState string }
	}
	return err == nil && json.Unmarshal(body, &said) == nil && (said.Status == "Succeeded" || said.Properties.ProvisioningState == "Succeeded")
}

// done makes a call and waits for what it began.
func done[T any](ctx context.Context, c *Cloud, call, about string, start func(context.Context) (*runtime.Poller[T], error)) error {
	o, err := begin(ctx, c, call, about, start)
	if err != nil {
		return err
	}
	return o.Wait(ctx)
}

// sleep waits by the clock.
func (c *Cloud) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := c.config.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
