package cloud

import (
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// fence is a policy of the SDK with a check before each attempt of a call that changes something: the attempt first calls the function `may`,
// and fails if that returns an error. Later attempts check again, because time has passed while the call waited.
type fence struct{ may func(what string) error }

// Do makes one attempt.
func (f fence) Do(request *policy.Request) (*http.Response, error) {
	method, path := request.Raw().Method, request.Raw().URL.Path
	changes := method == http.MethodPut || method == http.MethodDelete || method == http.MethodPatch || method == http.MethodPost && strings.HasSuffix(path, deleteMachines)
	if f.may != nil && changes {
		if err := f.may("call Azure: " + method + " " + path); err != nil {
			return nil, &fencedError{err}
		}
	}
	return request.Next()
}

// fencedError is not tried again.
type fencedError struct{ error }

// NonRetriable marks the error as one that the SDK does not retry.
func (*fencedError) NonRetriable() {}

// Unwrap returns the error of may.
func (e *fencedError) Unwrap() error { return e.error }
