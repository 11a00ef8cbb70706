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
	// pollEvery is the time between two polls of an operation if Azure gives none.
	pollEvery = 3 * time.Second
	// pollsInVain is the number of failed polls in a row after which polling stops.
	pollsInVain = 20
)

// Operation is an operation that Azure has accepted.
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

// Wait waits until the operation or the context ends. If the operation failed, the error is an *Error with Accepted. A poll that fails for a
// while does not end the wait.
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
		return nil // the SDK would read the result once more
	}
	return decode(o.call, o.about, true, o.result(ctx))
}

// pause returns the time until the next poll: Azure's time, or pollEvery if Azure did not answer or gives none.
func (o *Operation) pause(vain int) time.Duration {
	if o.last == nil || vain > 0 {
		return pollEvery
	}
	if said, err := strconv.Atoi(o.last.Header.Get("Retry-After")); err == nil {
		return time.Duration(said) * time.Second
	}
	return pollEvery
}

// succeeded reports whether an answer means that the operation has succeeded.
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

// done makes a call and waits for its operation.
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
