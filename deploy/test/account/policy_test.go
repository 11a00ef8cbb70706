package accounttest

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

// policies is where the policies are written down, once for Terraform and CloudFormation.
const policies = "../../terraform/karpenter/policies"

// controllerPolicies are those of the controller, by the middle of their names.
func controllerPolicies() map[string]string {
	return map[string]string{
		"NodeLifecycle": "node-lifecycle.json", "IAMIntegration": "iam-integration.json", "EKSIntegration": "eks-integration.json",
		"Interruption": "interruption.json", "ZonalShift": "zonal-shift.json", "ResourceDiscovery": "resource-discovery.json",
	}
}

// A document is a policy of IAM.
type document struct {
	Version   string
	ID        string `json:"Id"`
	Statement []statement
}

type statement struct {
	Sid       string
	Effect    string
	Principal any
	Action    texts
	Resource  texts
	Condition map[string]map[string]texts
}

// texts is one text or a list of them, which mean the same in policies.
type texts []string

func (l *texts) UnmarshalJSON(content []byte) error {
	var one string
	if json.Unmarshal(content, &one) == nil {
		*l = texts{one}
		return nil
	}
	return json.Unmarshal(content, (*[]string)(l))
}

// parsePolicy reads a policy and says what is wrong with it.
func parsePolicy(text string) (document, error) {
	var d document
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return d, err
	}
	if d.Version != "2012-10-17" || len(d.Statement) == 0 {
		return d, fmt.Errorf("version %q, %d statements", d.Version, len(d.Statement))
	}
	for _, s := range d.Statement {
		if s.Effect != "Allow" && s.Effect != "Deny" || len(s.Action) == 0 || len(s.Resource) == 0 && s.Principal == nil {
			return d, fmt.Errorf("statement %q has no effect, no action, or neither resource nor principal", s.Sid)
		}
	}
	return d, nil
}

// raw is a policy as it is written down, with what is left open in it.
func raw(t *testing.T, file string) document {
	t.Helper()
	content, err := fs.ReadFile(os.DirFS(policies), file)
	if err != nil {
		t.Fatal(err)
	}
	d, err := parsePolicy(string(content))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return d
}

// controllerStatements are all statements for the controller.
func controllerStatements(t *testing.T) (out []statement) {
	t.Helper()
	for _, file := range controllerPolicies() {
		out = append(out, raw(t, file).Statement...)
	}
	slices.SortFunc(out, func(a, b statement) int { return strings.Compare(a.Sid, b.Sid) })
	return out
}
