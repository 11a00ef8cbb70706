package awstest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Call is a call as it arrived.
type Call struct {
	// Action is the action's name in policies, "ec2:DescribeSubnets".
	Action string
	// Form holds the parameters of services that send forms, Body the body of other calls.
	Form url.Values
	Body []byte
}

// A Fault replaces the answer to a call.
type Fault struct {
	// Status is the HTTP status, 400 if 0; below 0 the connection is closed without an answer.
	Status        int
	Code, Message string
	// Times is the number of calls that fail; 0 means all.
	Times int
	// After is the number of calls that succeed before.
	After int
	// Done means that the call is carried out and only its answer is lost.
	Done bool
	// Hang leaves the call without an answer until the caller gives up. Hung, if set, is called when a call begins to hang; the caller waits
	// meanwhile.
	Hang bool
	Hung func()
}

// answer is a complete answer of HTTP.
type answer struct {
	mu     sync.Mutex // held during the call to moto
	status int
	header http.Header
	body   []byte
}

// serve is the front: it counts the call, and lets it fail, answers it or passes it on.
func (a *Account) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	call := newCall(r, a.hurried(body))
	if fault := a.record(call); fault != nil {
		if fault.Done {
			a.carryOut(r, call)
		}
		if fault.Hang {
			a.hang(r, call, fault)
			return
		}
		fault.write(w, call)
		return
	}
	if a.limited(call) {
		(&Fault{Status: http.StatusServiceUnavailable, Code: "RequestLimitExceeded", Message: "Request limit exceeded."}).write(w, call)
		return
	}
	if text, contentType := a.answers(call); text != "" {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, text)
		return
	}
	got := a.carryOut(r, call)
	for key, values := range got.header {
		w.Header()[key] = values
	}
	w.WriteHeader(got.status)
	_, _ = w.Write(got.body)
}

// hang waits until the caller gives up. If it does not within a minute, the test fails.
func (a *Account) hang(r *http.Request, call Call, fault *Fault) {
	if fault.Hung != nil {
		fault.Hung()
	}
	select {
	case <-r.Context().Done():
	case <-a.closing:
	case <-time.After(time.Minute):
		a.t.Errorf("%s hung for a minute, and nobody gave it up", call.Action)
	}
}

// carryOut answers a call by moto, or by the front if moto cannot.
func (a *Account) carryOut(r *http.Request, call Call) *answer {
	got := &answer{}
	switch call.Action {
	case "ec2:DescribeInstanceTypes", "ec2:DescribeInstanceTypeOfferings":
		got = answerFor(call.Action + "?" + call.Form.Encode()) // moto answers the same in every account, and slowly
	case "ec2:CreateFleet":
		if call.Form.Get("DryRun") != "true" {
			return a.createFleet(r, call)
		}
	}
	body, arns := call.Body, []string(nil)
	if call.Action == "ec2:DescribeInstances" {
		body, arns = withoutProfiles(call)
	}
	got.mu.Lock()
	if got.status != http.StatusOK { // a failure is not shared
		a.pass(r, body, got)
	}
	got.mu.Unlock()
	switch {
	case got.status != http.StatusOK:
	case call.Action == "ec2:CreateLaunchTemplate":
		a.keepTemplate(call)
	case call.Action == "ec2:DescribeInstances":
		return &answer{status: got.status, header: http.Header{"Content-Type": {"text/xml"}}, body: a.completed(got.body, arns)}
	case call.Action == "eks:DescribeCluster":
		return &answer{status: got.status, header: http.Header{"Content-Type": {"application/json"}}, body: a.withServices(got.body)}
	case call.Action == "ec2:TerminateInstances":
		a.stopped(call.List("InstanceId"))
	}
	return got
}

// faultAnswer returns a fault as an answer.
func faultAnswer(call Call, f Fault) *answer {
	w := httptest.NewRecorder()
	f.write(w, call)
	return &answer{status: w.Code, header: w.Header(), body: w.Body.Bytes()}
}

// answerFor returns the answer that all accounts share.
func answerFor(question string) *answer {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.answers[question] == nil {
		shared.answers[question] = &answer{}
	}
	return shared.answers[question]
}

// pass passes a call to moto.
func (a *Account) pass(r *http.Request, body []byte, into *answer) {
	into.status = http.StatusBadGateway
	// A call is carried out even if its caller has gone; only ReceiveMessage ends with its caller.
	ctx := context.WithoutCancel(r.Context())
	if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".ReceiveMessage") {
		ctx = r.Context()
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, a.moto.url+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return
	}
	request.Header = r.Header.Clone()
	request.Header.Set("x-moto-account-id", a.ID)
	request.Header.Del("Accept-Encoding")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		into.body = []byte(err.Error())
		return
	}
	defer response.Body.Close()
	answered, err := io.ReadAll(response.Body)
	if err != nil { // an incomplete answer must not be used or shared
		into.body = []byte(err.Error())
		return
	}
	into.status, into.header, into.body = response.StatusCode, response.Header, answered
}

// newCall identifies a call: the service is in the signature; the action is in the form, a header or the path.
func newCall(r *http.Request, body []byte) Call {
	service := ""
	if parts := strings.Split(r.Header.Get("Authorization"), "/"); len(parts) > 3 {
		service = parts[3]
	}
	call := Call{Body: body}
	operation := ""
	switch target := r.Header.Get("X-Amz-Target"); {
	case target != "":
		operation = target[strings.LastIndex(target, ".")+1:]
	case service == "eks":
		operation = map[bool]string{true: "DescribeCluster", false: "CreateCluster"}[r.Method == http.MethodGet]
	case service == "arc-zonal-shift":
		operation = "GetManagedResource"
	default:
		call.Form, _ = url.ParseQuery(string(body))
		operation = call.Form.Get("Action")
	}
	call.Action = service + ":" + operation
	return call
}

// write writes an error in the service's form.
func (f *Fault) write(w http.ResponseWriter, call Call) {
	if f.Status < 0 {
		if connection, _, err := http.NewResponseController(w).Hijack(); err == nil {
			connection.Close()
		}
		return
	}
	status := f.Status
	if status == 0 {
		status = http.StatusBadRequest
	}
	service, _, _ := strings.Cut(call.Action, ":")
	number := rand.Text() // each request has another ID
	w.Header().Set("X-Amzn-RequestId", number)
	switch service {
	case "ec2":
		w.WriteHeader(status)
		fmt.Fprintf(w, "<Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors><RequestID>%s</RequestID></Response>", f.Code, f.Message, number)
	case "iam", "sts":
		w.WriteHeader(status)
		fmt.Fprintf(w, "<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error><RequestId>%s</RequestId></ErrorResponse>", f.Code, f.Message, number)
	default:
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.Header().Set("X-Amzn-Errortype", f.Code)
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"__type": f.Code, "message": f.Message})
	}
}
