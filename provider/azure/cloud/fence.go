package cloud

import (
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// fence lets calls that change something pass only if nothing speaks against it in that moment: a call may have waited since it was
// asked for.
type fence struct{ may func(what string) error }

// Do makes one attempt.
func (f fence) Do(request *policy.Request) (*http.Response, error) {
	if method := request.Raw().Method; f.may != nil && (method == http.MethodPut || method == http.MethodDelete || method == http.MethodPatch) {
		if err := f.may("call Azure: " + method + " " + request.Raw().URL.Path); err != nil {
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
