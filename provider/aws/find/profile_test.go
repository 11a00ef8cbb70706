package find_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/api/awsv1"
)

func classWithRole(uid, role string) *awsv1.EC2NodeClass {
	return &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: types.UID(uid)}, Spec: awsv1.EC2NodeClassSpec{Role: role, Tags: map[string]string{"team": "a"}}}
}

func TestInstanceProfilesAreMadeForRoles(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.account.NewRole("nodes")
	f.account.NewRole("others")
	resolve := func(c *awsv1.EC2NodeClass) string {
		t.Helper()
		name, err := f.InstanceProfile(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	given := classWithRole("1", "")
	given.Spec.InstanceProfile = new("mine")
	if got := resolve(given); got != "mine" || len(f.account.Calls("")) != 2 {
		t.Errorf("a profile that is given: %s, after %d calls", got, len(f.account.Calls("")))
	}
	class := classWithRole("1", "nodes")
	first := resolve(class)
	if !strings.HasPrefix(first, "demo_") {
		t.Errorf("profile %s", first)
	}
	create := f.account.Calls("iam:CreateInstanceProfile")[0]
	if got := create.Form.Get("Path"); got != "/karpenter/us-west-2/demo/1/" {
		t.Errorf("path %s", got)
	}
	for _, want := range []string{"kubernetes.io/cluster/demo", "eks:eks-cluster-name", "karpenter.k8s.aws/ec2nodeclass", "topology.kubernetes.io/region", "team"} {
		if !strings.Contains(fmt.Sprint(create.Form), want) {
			t.Errorf("no tag %s", want)
		}
	}
	// After a crash before the status was written, the result is the same, without a second profile.
	if got := resolve(classWithRole("1", "nodes")); got != first || len(f.account.Calls("iam:CreateInstanceProfile")) != 1 {
		t.Errorf("again: %s, %d profiles were made", got, len(f.account.Calls("iam:CreateInstanceProfile")))
	}
	class.Status.InstanceProfile = first
	calls := len(f.account.Calls(""))
	if got := resolve(class); got != first || len(f.account.Calls("")) != calls {
		t.Errorf("what is known is asked for again: %s", got)
	}
	class.Spec.Role = "others"
	second := resolve(class)
	if second == first {
		t.Error("another role, the same profile: machines of the role before would change")
	}
	if !f.Protected(first) || !f.Protected(second) || f.Protected("another") {
		t.Error("the profile before, and the new one, are not to be cleaned up")
	}
	class.Spec.Role = "nodes"
	if got := resolve(class); got != first {
		t.Errorf("back to the first role: %s, want %s", got, first)
	}
	if got := resolve(classWithRole("2", "team/nodes")); got == first {
		t.Error("two classes share a profile")
	}
	withPath := classWithRole("2", "team/nodes")
	withPath.Status.InstanceProfile = resolve(withPath)
	f.clock.Step(time.Hour)
	if f.Protected(first) {
		t.Error("a profile is protected for ever")
	}
	// IAM is asked again, and answers without the path.
	if got := resolve(withPath); got != withPath.Status.InstanceProfile {
		t.Errorf("a role with a path: %s, want %s", got, withPath.Status.InstanceProfile)
	}
}

func TestARoleThatDoesNotExistIsToldAndLeavesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	class := classWithRole("1", "nodes")
	for range 3 {
		if _, err := f.InstanceProfile(t.Context(), class); err == nil || !strings.Contains(err.Error(), "role nodes does not exist") {
			t.Errorf("got %v", err)
		}
	}
	made, removed := len(f.account.Calls("iam:CreateInstanceProfile")), len(f.account.Calls("iam:DeleteInstanceProfile"))
	if made != 1 || removed != 1 {
		t.Errorf("%d profiles were made and %d removed, want one each: the role is not looked for all the time", made, removed)
	}
	f.account.NewRole("nodes")
	f.clock.Step(2 * time.Minute)
	if _, err := f.InstanceProfile(t.Context(), class); err != nil {
		t.Error(err)
	}
}
