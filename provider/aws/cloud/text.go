package cloud

import "regexp"

// Parts of a message that differ each time although the failure is the same: the IDs of the request and the host, the sender's port, and the
// encoded explanation.
var (
	requestNumber = regexp.MustCompile(`,? ?(RequestID|HostID|request id):? ?[^,\s]*`)
	ownPort       = regexp.MustCompile(`(tcp) \S+->`)
	encoded       = regexp.MustCompile(`\s*Encoded authorization failure message: \S+`)
)

// Text returns the message of an error for an object's status: the same text for the same failure. A text that changed with every attempt
// would cause a write of the status, which would cause the next attempt.
func Text(err error) string {
	text := encoded.ReplaceAllString(err.Error(), "")
	text = ownPort.ReplaceAllString(text, "$1 ")
	return requestNumber.ReplaceAllString(text, "")
}

// Worded is an error whose message is its Text.
type Worded struct{ Err error }

// Error returns the Text of the error.
func (e Worded) Error() string { return Text(e.Err) }

// Unwrap returns the error itself.
func (e Worded) Unwrap() error { return e.Err }
