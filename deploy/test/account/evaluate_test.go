package accounttest

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tenon.sh/provider/aws/awstest"
)

// A request is one thing that IAM is asked when a call arrives: may this action be taken on this resource? A call that
// touches several resources asks about each of them.
type request struct {
	action   string
	resource string
	// keys are what conditions look at.
	keys map[string][]string
}

func (r request) String() string {
	return fmt.Sprintf("%s on %s with %v", r.action, r.resource, r.keys)
}

// allowed reports whether any of the statements allows a request. None of the controller's denies anything.
func allowed(statements []statement, r request) bool {
	return slices.ContainsFunc(statements, func(s statement) bool {
		if s.Effect != "Allow" || !slices.Contains(s.Action, r.action) || !slices.ContainsFunc(s.Resource, func(p string) bool { return like(p, r.resource) }) {
			return false
		}
		for operator, conditions := range s.Condition {
			for key, wanted := range conditions {
				if !holds(operator, r.keys[key], wanted) {
					return false
				}
			}
		}
		return true
	})
}

// holds is a condition of IAM. An operator that this test does not know holds never.
func holds(operator string, got, wanted []string) bool {
	equal := func(v string) bool { return slices.Contains(wanted, v) }
	switch operator {
	case "StringEquals":
		return len(got) == 1 && equal(got[0])
	case "StringEqualsIfExists":
		return len(got) == 0 || len(got) == 1 && equal(got[0])
	case "StringLike":
		return len(got) == 1 && slices.ContainsFunc(wanted, func(p string) bool { return like(p, got[0]) })
	case "ForAllValues:StringEquals":
		return !slices.ContainsFunc(got, func(v string) bool { return !equal(v) })
	}
	return false
}

// like reports whether a text fits a pattern in which * stands for anything.
func like(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(text)
}

// A history turns calls into what IAM is asked about them. It remembers the tags of what was made.
type history struct {
	place    place
	nodeRole string
	tags     map[string]map[string]string // of launch templates and what they say, instances, instance profiles
}

func (h *history) arn(service, account, resource string) string {
	region := h.place.region
	if service == "iam" {
		region = ""
	}
	return "arn:aws:" + service + ":" + region + ":" + account + ":" + resource
}

// requests are what IAM is asked about a call.
func (h *history) requests(t *testing.T, c awstest.Call) (out []request) {
	t.Helper()
	name := c.Form.Get("LaunchTemplateName") + c.Form.Get("InstanceProfileName") // at most one of them is there
	own := func(service, resource string, keys map[string][]string) []request {
		return []request{{strings.TrimSuffix(c.Action, "Batch"), h.arn(service, h.place.account, resource), keys}}
	}
	switch c.Action {
	case "ec2:CreateLaunchTemplate":
		made, inside := tagsOf(c, "TagSpecification."), tagsOf(c, "LaunchTemplateData.TagSpecification.")
		h.tags["launch-template"] = made["launch-template"] // they are all alike
		for kind, tags := range inside {
			h.tags[kind+" of "+name] = tags
		}
		return h.creates(c.Action, made)
	case "ec2:CreateFleet", "ec2:RunInstances":
		return h.launches(c)
	case "ec2:CreateTags":
		id := "instance/" + c.Form.Get("ResourceId.1")
		return own("ec2", id, keys(h.tags[id], tagList(c, "Tag.")))
	case "ec2:TerminateInstances":
		for _, id := range c.List("InstanceId") {
			out = append(out, own("ec2", "instance/"+id, keys(h.tags["instance/"+id], nil))...)
		}
		return out
	case "ec2:DeleteLaunchTemplate":
		return own("ec2", "launch-template/lt-1", keys(h.tags["launch-template"], nil))
	case "iam:CreateInstanceProfile":
		tags, arn := tagList(c, "Tags.member."), "instance-profile"+c.Form.Get("Path")+name
		h.tags[name] = tags
		return append(own("iam", arn, keys(nil, tags)), request{"iam:TagInstanceProfile", h.arn("iam", h.place.account, arn), keys(tags, tags)})
	case "iam:AddRoleToInstanceProfile":
		return append(own("iam", "instance-profile/karpenter/"+name, keys(h.tags[name], nil)), h.passesRole())
	case "iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile", "iam:GetInstanceProfile":
		return own("iam", "instance-profile/karpenter/"+name, keys(h.tags[name], nil))
	case "eks:DescribeCluster":
		return own("eks", "cluster/demo", nil)
	case "ssm:GetParameter":
		return []request{{c.Action, h.arn("ssm", "", "parameter"+parsed(t, string(c.Body)).(map[string]any)["Name"].(string)), nil}}
	case "sqs:GetQueueUrl", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:DeleteMessageBatch":
		return own("sqs", "demo", nil)
	}
	return []request{{c.Action, "nothing in particular", map[string][]string{"aws:RequestedRegion": {h.place.region}}}}
}

func (h *history) passesRole() request {
	return request{"iam:PassRole", h.nodeRole, map[string][]string{"iam:PassedToService": {"ec2.amazonaws.com"}}}
}

// launches are the requests of a call that starts machines: it makes some resources and uses others, once in its own name
// and once in that of RunInstances.
func (h *history) launches(c awstest.Call) (out []request) {
	made := tagsOf(c, "TagSpecification.")
	var template string
	for key := range c.Form {
		if strings.HasSuffix(key, "LaunchTemplateName") {
			template = cmp.Or(template, c.Form.Get(key))
		}
	}
	kinds := []string{"instance", "volume", "network-interface"}
	if c.Form.Get("TargetCapacitySpecification.DefaultTargetCapacityType") == "spot" {
		kinds = append(kinds, "spot-instances-request")
	}
	if c.Action == "ec2:CreateFleet" {
		kinds = append(kinds, "fleet")
	}
	all := map[string]map[string]string{}
	for _, kind := range kinds {
		all[kind] = made[kind]
		if all[kind] == nil {
			all[kind] = h.tags[kind+" of "+template]
		}
	}
	for _, action := range []string{c.Action, "ec2:RunInstances"} {
		out = append(out, h.creates(action, all)...)
		for _, used := range []string{"image/ami-1", "snapshot/snap-1"} {
			out = append(out, request{action, h.arn("ec2", "", used), nil})
		}
		for _, used := range []string{"security-group/sg-1", "subnet/subnet-1", "capacity-reservation/cr-1", "placement-group/pg-1"} {
			out = append(out, request{action, h.arn("ec2", h.place.account, used), nil})
		}
		if template != "" {
			out = append(out, request{action, h.arn("ec2", h.place.account, "launch-template/lt-1"), keys(h.tags["launch-template"], nil)})
		}
	}
	return append(out, h.passesRole())
}

// creates are the requests of a call that makes resources with tags: to make each, and to tag it.
func (h *history) creates(action string, made map[string]map[string]string) (out []request) {
	for kind, tags := range made {
		arn := h.arn("ec2", h.place.account, kind+"/x")
		tagging := keys(nil, tags)
		tagging["ec2:CreateAction"] = []string{strings.TrimPrefix(action, "ec2:")}
		out = append(out, request{action, arn, keys(nil, tags)}, request{"ec2:CreateTags", arn, tagging})
	}
	return out
}

// keys are the condition keys of the tags that a resource has, and of those that a call sets.
func keys(has, sets map[string]string) map[string][]string {
	out := map[string][]string{}
	for key, value := range has {
		out["aws:ResourceTag/"+key] = []string{value}
	}
	for key, value := range sets {
		out["aws:RequestTag/"+key] = []string{value}
		out["aws:TagKeys"] = append(out["aws:TagKeys"], key)
	}
	return out
}

// tagsOf are the tags that a call gives to what it makes, by kind.
func tagsOf(c awstest.Call, prefix string) map[string]map[string]string {
	out := map[string]map[string]string{}
	for i := 1; c.Form.Get(fmt.Sprintf("%s%d.ResourceType", prefix, i)) != ""; i++ {
		out[c.Form.Get(fmt.Sprintf("%s%d.ResourceType", prefix, i))] = tagList(c, fmt.Sprintf("%s%d.Tag.", prefix, i))
	}
	return out
}

// tagList is a list of tags in a call.
func tagList(c awstest.Call, prefix string) map[string]string {
	out := map[string]string{}
	for i := 1; c.Form.Get(fmt.Sprintf("%s%d.Key", prefix, i)) != ""; i++ {
		out[c.Form.Get(fmt.Sprintf("%s%d.Key", prefix, i))] = c.Form.Get(fmt.Sprintf("%s%d.Value", prefix, i))
	}
	return out
}
