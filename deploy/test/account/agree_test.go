package accounttest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
)

// Whoever installs with one gets the same as whoever installs with the other.
func TestTheTemplateAndTheModuleMakeTheSame(t *testing.T) {
	t.Parallel()
	for _, in := range places() {
		fromTemplate, fromModule := ofTemplate(t, in), ofModule(t, in)
		for _, what := range slices.Sorted(maps.Keys(fromTemplate)) {
			if !reflect.DeepEqual(fromTemplate[what], fromModule[what]) {
				t.Errorf("%s: %s:\ntemplate %v\nmodule   %v", in.partition, what, fromTemplate[what], fromModule[what])
			}
		}
		for what := range fromModule {
			if fromTemplate[what] == nil {
				t.Errorf("%s: only the module has %s", in.partition, what)
			}
		}
		if len(fromTemplate) < 8+5 {
			t.Errorf("%s: only %v were compared", in.partition, slices.Sorted(maps.Keys(fromTemplate)))
		}
	}
}

// ofTemplate is what the CloudFormation template makes, by what it is.
func ofTemplate(t *testing.T, in place) map[string]any {
	t.Helper()
	out := map[string]any{}
	for name, p := range readTemplate(t, in).resources() {
		switch {
		case p["ManagedPolicyName"] != nil:
			out[p["ManagedPolicyName"].(string)] = parsed(t, p["PolicyDocument"].(string))
		case p["RoleName"] != nil:
			out[p["RoleName"].(string)] = parsed(t, p["AssumeRolePolicyDocument"].(string))
			out["policies of "+p["RoleName"].(string)] = sorted(p["ManagedPolicyArns"].([]any))
		case p["QueueName"] != nil:
			out["queue "+p["QueueName"].(string)] = fmt.Sprint(p["MessageRetentionPeriod"], p["SqsManagedSseEnabled"])
		case p["Queues"] != nil:
			out["queue policy"] = parsed(t, p["PolicyDocument"].(string))
		case p["EventPattern"] != nil:
			target := p["Targets"].([]any)[0].(map[string]any)
			out[strings.TrimSuffix(name, "Rule")] = fmt.Sprint(p["EventPattern"], target["Id"], target["Arn"])
		case p["RoleArn"] != nil:
			out["association"] = fmt.Sprint(p["ClusterName"], p["Namespace"], p["ServiceAccount"], p["RoleArn"])
		case p["PrincipalArn"] != nil:
			out["access entry"] = fmt.Sprint(p["ClusterName"], p["PrincipalArn"], p["Type"])
		default:
			t.Errorf("%s: the module is not compared with it", name)
		}
	}
	return out
}

// ofModule is what the Terraform module makes, by what it is.
func ofModule(t *testing.T, in place) map[string]any {
	t.Helper()
	m := readModule(t, in, inputs(in))
	out := map[string]any{}
	text := func(object cty.Value, attribute string) string { return object.GetAttr(attribute).AsString() }
	for _, p := range m.resource("aws_iam_policy", "controller").AsValueMap() {
		out[text(p, "name")] = parsed(t, text(p, "policy"))
	}
	for _, name := range []string{"controller", "node"} {
		for _, role := range m.resource("aws_iam_role", name).AsValueSlice() {
			out[text(role, "name")] = parsed(t, text(role, "assume_role_policy"))
			var arns []any
			for _, a := range m.resource("aws_iam_role_policy_attachment", name).AsValueMap() {
				if text(a, "role") != text(role, "name") {
					t.Errorf("a policy of %s is attached to %s", name, text(a, "role"))
				}
				arns = append(arns, text(a, "policy_arn"))
			}
			out["policies of "+text(role, "name")] = sorted(arns)
		}
	}
	queue := m.resource("aws_sqs_queue", "interruption")
	out["queue "+text(queue, "name")] = fmt.Sprint(queue.GetAttr("message_retention_seconds").AsBigFloat().String(), queue.GetAttr("sqs_managed_sse_enabled").True())
	out["queue policy"] = parsed(t, text(m.resource("aws_sqs_queue_policy", "interruption"), "policy"))
	targets := m.resource("aws_cloudwatch_event_target", "interruption").AsValueMap()
	for name, rule := range m.resource("aws_cloudwatch_event_rule", "interruption").AsValueMap() {
		if text(targets[name], "rule") != text(rule, "name") {
			t.Errorf("the target of %s belongs to rule %s", name, text(targets[name], "rule"))
		}
		out[name] = fmt.Sprint(parsed(t, text(rule, "event_pattern")), text(targets[name], "target_id"), text(targets[name], "arn"))
	}
	for _, a := range m.resource("aws_eks_pod_identity_association", "controller").AsValueSlice() {
		out["association"] = fmt.Sprint(text(a, "cluster_name"), text(a, "namespace"), text(a, "service_account"), text(a, "role_arn"))
	}
	for _, a := range m.resource("aws_eks_access_entry", "node").AsValueSlice() {
		out["access entry"] = fmt.Sprint(text(a, "cluster_name"), text(a, "principal_arn"), text(a, "type"))
	}
	return out
}

func parsed(t *testing.T, text string) (out any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return out
}

func sorted(list []any) string {
	var out []string
	for _, element := range list {
		out = append(out, fmt.Sprint(element))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// Every kind of message that the controller understands has a rule that brings it.
func TestThereIsARuleForEveryKindOfNotice(t *testing.T) {
	t.Parallel()
	want := []string{"AWS Health Event", "EC2 Capacity Reservation Instance Interruption Warning", "EC2 Instance Rebalance Recommendation",
		"EC2 Instance State-change Notification", "EC2 Spot Instance Interruption Warning"}
	var got []string
	for _, p := range readTemplate(t, places()[0]).resources() {
		if pattern, ok := p["EventPattern"].(map[string]any); ok {
			got = append(got, pattern["detail-type"].([]any)[0].(string))
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
