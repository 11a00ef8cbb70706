package examine

import (
	"fmt"
	"strings"

	"tenon.sh/provider"
	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/aws/find"
)

const (
	// fewAddresses is the number of free addresses below which there is a warning: one machine with its pods takes as many.
	fewAddresses = 32
	// manyMessages is the number of waiting messages at which the queue seems to have no reader.
	manyMessages = 100
)

func finding(level provider.Level, check, object, says, do string) provider.Finding {
	return provider.Finding{Level: level, Check: check, Object: object, Says: says, Do: do}
}

func judgeIdentity(who string, err error) []provider.Finding {
	const check = "aws identity"
	switch {
	case err != nil:
		return []provider.Finding{finding(provider.Problem, check, "", "AWS does not answer: "+cloud.Text(err), "see to the credentials of whoever runs this, and to AWS_REGION")}
	case who == "":
		return nil
	}
	return []provider.Finding{finding(provider.OK, check, "", "AWS is asked as "+who+"; the controller's own rights show when this runs in its pod: kubectl exec deploy/karpenter -- tenon doctor", "")}
}

// judgePermissions lists the refused actions, each with the policy statement that would allow it.
func judgePermissions(tries []try) (out []provider.Finding) {
	const check = "aws permissions"
	notTried, allowed := map[string][]string{}, 0
	var reasons []string
	for _, t := range tries {
		action := t.action
		if passing(t.err) {
			action = "iam:PassRole"
		}
		switch {
		case t.not != "":
			if notTried[t.not] == nil {
				reasons = append(reasons, t.not)
			}
			notTried[t.not] = append(notTried[t.not], action)
		case cloud.Denied(t.err), cloud.Unknown(t.err):
			do := "allow " + action
			if sid := cloud.Statement(action, ""); sid != "" {
				do += ", by statement " + sid + " of the controller's policy"
			}
			out = append(out, finding(provider.Problem, check, action, "it is not allowed: "+cloud.Text(t.err), do))
		case cloud.Passing(t.err):
			out = append(out, finding(provider.Warning, check, action, "it could not be tried: "+cloud.Text(t.err), "run this again"))
		default: // the dry run succeeded, or failed for another reason than rights
			allowed++
		}
	}
	if len(out) == 0 {
		out = append(out, finding(provider.OK, check, "", fmt.Sprintf("%d actions are allowed", allowed), ""))
	}
	for _, why := range reasons {
		out = append(out, finding(provider.OK, check, "", fmt.Sprintf("not tried, because %s: %s", why, strings.Join(notTried[why], ", ")), ""))
	}
	return out
}

func judgeQueue(name string, q queueState) []provider.Finding {
	const check = "aws queue"
	object := "queue " + name
	switch {
	case name == "":
		return []provider.Finding{finding(provider.Warning, check, "", "no interruption queue is configured: machines that AWS takes away are noticed when they are gone",
			"make the queue and its rules, and set settings.interruptionQueue")}
	case cloud.NotFound(q.err):
		return []provider.Finding{finding(provider.Problem, check, object, "it does not exist in this region", "make it, or correct settings.interruptionQueue")}
	case q.err != nil:
		return []provider.Finding{finding(provider.Problem, check, object, "it cannot be found: "+cloud.Text(q.err), "allow sqs:GetQueueUrl, by statement "+cloud.Statement("sqs:GetQueueUrl", "")+" of the controller's policy")}
	case q.attributesErr != nil:
		return []provider.Finding{finding(provider.Warning, check, object, "it is there; its policy and its messages cannot be looked at: "+cloud.Text(q.attributesErr), "run this as somebody with sqs:GetQueueAttributes")}
	}
	var out []provider.Finding
	if !eventsMaySend(q.policy) {
		out = append(out, finding(provider.Problem, check, object, "its policy does not let events.amazonaws.com send messages: no notice ever arrives",
			"allow sqs:SendMessage to the services events.amazonaws.com and sqs.amazonaws.com in the queue's policy"))
	}
	if q.waiting >= manyMessages {
		out = append(out, finding(provider.Warning, check, object, fmt.Sprintf("%d messages wait in it: nobody reads them, or too slowly", q.waiting), "see whether the controller runs, and its log for sqs"))
	}
	if len(out) == 0 {
		out = append(out, finding(provider.OK, check, object, fmt.Sprintf("it is there, EventBridge may send to it, and %d messages wait", q.waiting), ""))
	}
	return out
}

func judgeSubnets(class string, subnets []find.Subnet, err error) (out []provider.Finding) {
	const check = "aws subnets"
	object := "EC2NodeClass " + class
	switch {
	case err != nil:
		return []provider.Finding{finding(provider.Warning, check, object, "its subnets could not be looked at: "+cloud.Text(err), "")}
	case len(subnets) == 0:
		return []provider.Finding{finding(provider.Problem, check, object, "its terms select no subnet", "tag subnets as spec.subnetSelectorTerms says, or correct it")}
	}
	total, zones := 0, map[string]bool{}
	for _, s := range subnets {
		total += s.Free
		zones[s.Zone] = true
		if s.Free < fewAddresses {
			out = append(out, finding(provider.Warning, check, object, fmt.Sprintf("subnet %s in %s has %d free addresses", s.ID, s.Zone, s.Free), "select larger subnets as well, or add a range to the VPC"))
		}
	}
	if total == 0 {
		return []provider.Finding{finding(provider.Problem, check, object, fmt.Sprintf("none of its %d subnets has a free address: no machine can be started", len(subnets)), "select larger subnets as well, or add a range to the VPC")}
	}
	if len(out) == 0 {
		out = append(out, finding(provider.OK, check, object, fmt.Sprintf("%d subnets in %d zones have %d free addresses", len(subnets), len(zones), total), ""))
	}
	return out
}
