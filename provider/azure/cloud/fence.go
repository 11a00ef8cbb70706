package cloud

import (
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// fence lets calls that change something pass only if nothing speaks against it in that moment: a call may have waited since it was
// asked for.
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

// NonRetriable tells the SDK so.
func (*fencedError) NonRetriable() {}

// Unwrap is what speaks against it.
func (e *fencedError) Unwrap() error { return e.error }
