package aws_test

import (
	"strings"
	"testing"
	"time"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/aws/awstest"
	"tenon.sh/provider/aws/cloud"
)

// hanging returns a fault: a call without an answer. The clock advances only by it, because each attempt lasts until its timeout.
func (w *world) hanging(times int, done bool) awstest.Fault {
	return awstest.Fault{Hang: true, Times: times, Done: done, Hung: func() { w.clock.Step(cloud.Patience) }}
}

// tries is the number of attempts that the SDK makes for a call without an answer.
const tries = 3

func TestACallThatHangsIsGivenUpAndNamed(t *testing.T) {
	t.Parallel()
	for action, condition := range map[string]string{
		"ec2:DescribeSubnets":        awsv1.ConditionSubnetsReady,
		"ec2:DescribeSecurityGroups": awsv1.ConditionSecurityGroupsReady,
		"ssm:GetParameter":           awsv1.ConditionAMIsReady,
		"iam:GetInstanceProfile":     awsv1.ConditionInstanceProfileReady,
		"eks:DescribeCluster":        awsv1.ConditionAMIsReady, // the version of Kubernetes determines the images
	} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, untried)
			c := w.class("general", nil)
			began := w.clock.Now()
			w.account.Fail(action, w.hanging(tries, false))
			problem := w.resolve(c)
			is := v1.GetCondition(c, condition)
			want := action + ": AWS did not answer within " + cloud.Patience.String()
			if is == nil || is.Status != "Unknown" || !strings.Contains(is.Message, want) || !strings.Contains(problem, want) {
				t.Errorf("condition %+v, problem %q, want them to hold %q", is, problem, want)
			}
			if took := w.clock.Since(began); took != tries*cloud.Patience || took >= 5*time.Minute {
				t.Errorf("it took %s", took)
			}
			w.clock.Step(time.Minute)
			if problem := w.resolve(c); problem != "" {
				t.Errorf("it answers again: %s", problem)
			}
		})
	}
}

// EC2 may or may not have started machines in a call without an answer. Each claim gets exactly one machine.
func TestAFleetThatHangsIsNeitherDoubledNorLost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		times int
		done  bool
	}{
		"nothing was started": {tries, false}, "all were started": {tries, true},
		"nothing was started, answers again": {1, false}, "all were started, answers again": {1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, untried)
			w.account.SetLaunchTime(w.clock.Now())
			c := w.resolved("general", nil)
			claims := w.equal(5, c)
			w.account.Fail("ec2:CreateFleet", w.hanging(test.times, test.done))
			failed := w.tryAll(claims, c)
			if test.times < tries && len(failed) > 0 {
				t.Errorf("EC2 answers the second attempt, but: %v", failed)
			}
			if test.times == tries && len(failed) == 0 {
				t.Error("EC2 did not answer, but all claims have a machine")
			}
			for name, err := range failed {
				if problem := launchError("LaunchUnanswered", "ec2:CreateFleet: AWS did not answer within")(err); problem != "" {
					t.Errorf("%s: %v: %s", name, err, problem)
				}
			}
			w.account.Heal()
			w.settle(c)
			w.wantOneEach()
			if n := len(w.account.Calls("ec2:TerminateInstances")); n > 0 {
				t.Errorf("%d calls to terminate machines that were started for claims", n)
			}
		})
	}
}

// Some minutes of calls without answers delay a cluster, but do not change the final state.
func TestAClusterLivesThroughCallsThatHang(t *testing.T) {
	t.Parallel()
	w := newWorld(t, everything)
	for _, action := range []string{"ec2:CreateLaunchTemplate", "ec2:DescribeInstances", "ec2:TerminateInstances", "iam:CreateInstanceProfile", "sqs:ReceiveMessage"} {
		w.restart()
		w.aLife(func() { w.account.Fail(action, w.hanging(2*tries, false)) })
		if t.Failed() {
			t.Fatalf("that was with %s", action)
		}
	}
}
