package v1_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	v1 "tenon.sh/api/v1"
)

func TestDurationKeepsItsText(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want string
	}{
		{`"1h"`, "1h0m0s"},
		{`"90m"`, "1h30m0s"},
		{`"1h30m"`, "1h30m0s"},
		{`"0s"`, "0s"},
		{`"Never"`, "Never"},
	}
	for _, test := range tests {
		var d v1.NillableDuration
		if err := json.Unmarshal([]byte(test.text), &d); err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if d.String() != test.want {
			t.Errorf("%s: read as %s, want %s", test.text, d, test.want)
		}
		back, err := json.Marshal(d)
		if err != nil || string(back) != test.text {
			t.Errorf("%s: written as %s, %v", test.text, back, err)
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1.NodeClaimSpec{ExpireAfter: d})
		if err != nil || `"`+content["expireAfter"].(string)+`"` != test.text {
			t.Errorf("%s: converted to %v, %v", test.text, content["expireAfter"], err)
		}
	}
	for _, bad := range []string{`"1 hour"`, `5`, `"never"`, `{}`} {
		var d v1.NillableDuration
		if err := json.Unmarshal([]byte(bad), &d); err == nil || !strings.Contains(err.Error(), "duration") {
			t.Errorf("%s: error %v", bad, err)
		}
	}
}

func TestDurationMadeInCodeIsWrittenInGoForm(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]v1.NillableDuration{`"1m30s"`: v1.DurationOf(90 * time.Second), `"Never"`: {}} {
		if got, err := json.Marshal(d); err != nil || string(got) != want {
			t.Errorf("written as %s, %v; want %s", got, err, want)
		}
	}
}

// If budgets are absent, the API server sets 10 %; an empty list means no bound.
func TestEmptyBudgetsSurviveARoundTrip(t *testing.T) {
	t.Parallel()
	for text, kept := range map[string]bool{`{"budgets":[]}`: true, `{}`: false} {
		var d v1.Disruption
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Fatal(err)
		}
		back, err := json.Marshal(d.DeepCopy())
		if err != nil || strings.Contains(string(back), `"budgets":[]`) != kept {
			t.Errorf("%s: written as %s, %v", text, back, err)
		}
	}
}
