package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// An Error is the error of a call, or of the operation that it began. Its text is the same for the same failure.
type Error struct {
	// Call is the operation's name in Azure's API descriptions, "VirtualMachines_CreateOrUpdate"; About is the name of its resource.
	Call, About string
	// Status is the HTTP status, 0 if Azure did not answer.
	Status int
	// Code and Message are Azure's, "" if it gave none.
	Code, Message string
	// Details are the nested errors of all levels, because Azure sometimes puts the real error there.
	Details []Detail
	// RetryAfter is the time that Azure asks to wait, 0 if it asks for none.
	RetryAfter time.Duration
	// Accepted means that Azure accepted the call and the operation failed later. The resource then exists in the state Failed.
	Accepted bool
	Err      error
}

// Detail is a nested error.
type Detail struct{ Code, Message string }

func (e *Error) Error() string {
	text := e.Call
	if e.About != "" {
		text += " " + e.About
	}
	if e.Accepted {
		text += " (after it was accepted)"
	}
	if e.Code == "" && e.Message == "" {
		return text + ": " + steady(e.Err)
	}
	text += ": " + e.Code + ": " + e.Message
	for _, d := range e.Details {
		if d.Code != e.Code || d.Message != e.Message {
			text += " [" + d.Code + ": " + d.Message + "]"
		}
	}
	return text
}

// entraCode matches the code of an error of Microsoft Entra, and the sentence after it.
var entraCode = regexp.MustCompile(`AADSTS\d+:? [^\n\r]*?\.(?: |\\|$)`)

// steady returns the text of an error without parts that differ each time, such as a trace ID, because a changed text would cause a write of
// the condition.
func steady(err error) string {
	var failed *azidentity.AuthenticationFailedError
	if errors.As(err, &failed) {
		if said := entraCode.FindString(err.Error()); said != "" {
			return "no token was given: " + strings.TrimRight(said, ` \`)
		}
		return "no token was given"
	}
	var call *net.OpError
	if errors.As(err, &call) {
		return "connect: " + call.Err.Error()
	}
	return err.Error()
}

// Unwrap returns the SDK's error.
func (e *Error) Unwrap() error { return e.Err }

// said is an error in ARM's form.
type said struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Details []said `json:"details"`
	Inner   *said  `json:"innererror"`
}

func (s said) below() (out []Detail) {
	deeper := s.Details
	if s.Inner != nil {
		deeper = append(slices.Clone(deeper), *s.Inner)
	}
	for _, d := range deeper {
		if d.Code != "" || d.Message != "" {
			out = append(out, Detail{d.Code, d.Message})
		}
		out = append(out, d.below()...)
	}
	return out
}

// decode converts an error of the SDK to an Error, nil to nil.
func decode(call, about string, accepted bool, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Call: call, About: about, Accepted: accepted, Err: err}
	var answered *azcore.ResponseError
	if !errors.As(err, &answered) {
		return e
	}
	e.Status, e.Code = answered.StatusCode, answered.ErrorCode
	e.Message = http.StatusText(e.Status)
	if answered.RawResponse == nil {
		return e
	}
	if wait, err := strconv.Atoi(answered.RawResponse.Header.Get("Retry-After")); err == nil {
		e.RetryAfter = time.Duration(wait) * time.Second
	}
	body, _ := runtime.Payload(answered.RawResponse) // the SDK has read the body already
	var wrapped struct {
		Error *said `json:"error"`
		said
	}
	if json.Unmarshal(body, &wrapped) != nil {
		if e.Code == "" {
			e.Code = strconv.Itoa(e.Status)
		}
		return e
	}
	s := wrapped.said
	if wrapped.Error != nil {
		s = *wrapped.Error
	}
	e.Code, e.Message, e.Details = s.Code, s.Message, s.below()
	if e.Code == "" {
		e.Code, e.Message = strconv.Itoa(e.Status), http.StatusText(e.Status)
	}
	return e
}

// Code returns Azure's code for an error, "" if Azure did not answer.
func Code(err error) string {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// Message returns Azure's message for an error, "" if Azure did not answer.
func Message(err error) string {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Message
	}
	return ""
}

// Says reports whether an error, or a nested one, has this code and this text in its message.
func Says(err error, code, text string) bool {
	e := (*Error)(nil)
	if !errors.As(err, &e) {
		return false
	}
	for _, d := range append([]Detail{{e.Code, e.Message}}, e.Details...) {
		if d.Code == code && strings.Contains(d.Message, text) {
			return true
		}
	}
	return false
}

func status(err error) int {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// NotFound reports whether the requested object, or its resource group, does not exist.
func NotFound(err error) bool { return status(err) == http.StatusNotFound }

// Denied reports whether Azure knows the caller but does not allow the call.
func Denied(err error) bool { return status(err) == http.StatusForbidden }

// Unknown reports whether Azure does not know the caller: the credentials are missing, wrong or have expired.
func Unknown(err error) bool {
	var failed *azidentity.AuthenticationFailedError
	if errors.As(err, &failed) {
		return failed.RawResponse == nil || failed.RawResponse.StatusCode < http.StatusInternalServerError
	}
	return status(err) == http.StatusUnauthorized || err != nil && strings.Contains(err.Error(), "failed to acquire a token")
}

// Throttled reports whether Azure refused a call because of a rate limit.
func Throttled(err error) bool { return status(err) == http.StatusTooManyRequests }

// RetryAfter returns the time that Azure asks to wait before the next call, 0 if it asks for none.
func RetryAfter(err error) time.Duration {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// Accepted reports whether Azure accepted the call and the operation failed later.
func Accepted(err error) bool {
	e := (*Error)(nil)
	return errors.As(err, &e) && e.Accepted
}

// Passing reports whether the same call may succeed a little later, because Azure has a failure or is busy, because the network failed, or
// because the answer did not come from Azure.
func Passing(err error) bool {
	if err == nil || Accepted(err) || Canceled(err) || Unknown(err) {
		return false
	}
	code := status(err)
	return code == 0 || code == http.StatusRequestTimeout || code == http.StatusTooManyRequests || code >= http.StatusInternalServerError && code != http.StatusNotImplemented
}

// Canceled reports whether the caller gave up.
func Canceled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// brokenError returns the error for a malformed answer of Azure.
func brokenError(call, about, format string, args ...any) error {
	return &Error{Call: call, About: about, Err: fmt.Errorf(format, args...)}
}
