package cloud

import "regexp"

// What is another text every time that the same thing fails: the number of the request, the port that it was sent from, how
// long AWS asks to wait.
var (
	requestNumber = regexp.MustCompile(`,? ?(RequestID|HostID|request id):? ?[^,\s]*`)
	ownPort       = regexp.MustCompile(`(tcp) \S+->`)
	encoded       = regexp.MustCompile(`\s*Encoded authorization failure message: \S+`)
)

// Text is the message of an error for an object's status: the same for the same trouble. A status that changed with every
// attempt would be written, and read, and cause the next attempt.
func Text(err error) string {
	text := encoded.ReplaceAllString(err.Error(), "")
	text = ownPort.ReplaceAllString(text, "$1 ")
	return requestNumber.ReplaceAllString(text, "")
}

// Worded is an error whose message is its Text.
type Worded struct{ Err error }

// Error is the same for the same trouble.
func (e Worded) Error() string { return Text(e.Err) }

// Unwrap is the error itself.
func (e Worded) Unwrap() error { return e.Err }
