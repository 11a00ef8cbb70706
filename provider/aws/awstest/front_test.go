package awstest

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// moto may break off in the middle of an answer. The call has then failed, and the SDK repeats it. The half answer is discarded.
func TestHalfAnAnswerIsNone(t *testing.T) {
	const whole = `<DescribeInstanceTypesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><instanceTypeSet><item><instanceType>m5.large</instanceType></item></instanceTypeSet></DescribeInstanceTypesResponse>`
	var calls atomic.Int32
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := whole
		if calls.Add(1) == 1 {
			w.Header().Set("Content-Length", "1000") // more than the sent bytes
			text = whole[:50]
		}
		w.Header().Set("Content-Type", "text/xml")
		_, _ = w.Write([]byte(text))
	}))
	defer broken.Close()
	a := open(t, &moto{url: broken.URL}, "200000000000")
	out, err := ec2.NewFromConfig(a.Config()).DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{NextToken: new(t.Name())})
	if err != nil || len(out.InstanceTypes) != 1 {
		t.Fatalf("%v, %+v", err, out)
	}
	if n := calls.Load(); n != 2 {
		t.Errorf("moto was asked %d times", n)
	}
}
