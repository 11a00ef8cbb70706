package aws_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"tenon.sh/api/awsv1"
	"tenon.sh/provider/aws/machine"
)

func (w *world) clean() {
	w.Helper()
	w.must(w.provider.Clean(w.Context()))
}

func (w *world) templates() int {
	w.Helper()
	out, err := ec2.NewFromConfig(w.account.Config()).DescribeLaunchTemplates(w.Context(), &ec2.DescribeLaunchTemplatesInput{})
	w.must(err)
	return len(out.LaunchTemplates)
}

func (w *world) profiles() int {
	w.Helper()
	out, err := iam.NewFromConfig(w.account.Config()).ListInstanceProfiles(w.Context(), &iam.ListInstanceProfilesInput{})
	w.must(err)
	return len(out.InstanceProfiles)
}

func TestMachinesAreTaggedWithTheNamesOfTheirNodesOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	claim := w.claim("a", c, in(corev1.LabelInstanceTypeStable, "m5.large"))
	m := w.launch(claim, c)
	w.clean()
	if n := len(w.account.Calls("ec2:CreateTags")); n > 0 {
		t.Errorf("%d calls to tag a machine without a node", n)
	}
	changed := w.stored(claim)
	changed.Status.NodeName = "node-a"
	w.must(w.client.Status().Update(t.Context(), changed))
	w.clock.Step(time.Minute)
	w.clean()
	w.clean()
	if n := len(w.account.Calls("ec2:CreateTags")); n != 1 {
		t.Errorf("%d calls of CreateTags", n)
	}
	if a := w.stored(claim).Annotations; a[awsv1.TaggedAnnotationKey] != "true" || a[awsv1.ClusterTaggedAnnotationKey] != "true" {
		t.Errorf("annotations %v", a)
	}
	for _, i := range w.account.Machines() {
		tags := map[string]string{}
		for _, tag := range i.Tags {
			tags[*tag.Key] = *tag.Value
		}
		if tags["Name"] != "node-a" || tags[awsv1.NodeClaimTagKey] != "a" {
			t.Errorf("machine %s has tags %v", m.ID, tags)
		}
	}
}

func TestTemplatesThatNobodyUsesAreDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, untried)
	c := w.resolved("general", nil)
	w.launch(w.claim("a", c, in(corev1.LabelInstanceTypeStable, "m5.large")), c)
	w.restart() // the new provider does not know its maker
	w.clean()
	w.clock.Step(20 * time.Minute)
	w.clean()
	if n := w.templates(); n != 1 {
		t.Errorf("%d templates after 20 minutes, want 1", n)
	}
	w.clock.Step(20 * time.Minute)
	w.clean()
	if n := w.templates(); n != 0 {
		t.Errorf("%d templates are left", n)
	}
	w.must(w.provider.Clean(t.Context()))
}

func TestProfilesThatNobodyNeedsAreDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.account.NewRole("others")
	c := w.resolved("general", nil)
	first := c.Status.InstanceProfile
	w.must(w.client.Status().Update(t.Context(), c))
	c.Spec.Role = "others"
	w.must(w.client.Update(t.Context(), c))
	c.Generation++
	if problem := w.resolve(c); problem != "" || c.Status.InstanceProfile == first {
		t.Fatalf("problem %q, profile %s", problem, c.Status.InstanceProfile)
	}
	w.must(w.client.Status().Update(t.Context(), c))
	w.clean()
	if n := w.profiles(); n != 2 {
		t.Errorf("%d profiles at first, want 2", n)
	}
	w.clock.Step(2 * time.Hour)
	w.clean()
	if n := w.profiles(); n != 1 {
		t.Errorf("%d profiles after two hours, want that of the class", n)
	}
}

// Machines that tenon uninstall --keep-machines has released have neither claim nor class. But a machine without its profile gets no
// credentials any more.
func TestProfilesOfMachinesThatWereLetGoStay(t *testing.T) {
	t.Parallel()
	for name, finalized := range map[string]bool{"whose class is gone": false, "whose class is deleted later": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			c := w.resolved("general", nil)
			claim := w.claim("a", c, in(corev1.LabelInstanceTypeStable, "m5.large"))
			m := w.launch(claim, c)
			w.clean()
			w.must(w.client.Delete(t.Context(), w.stored(claim)))
			w.must(w.provider.Release(t.Context(), m.ID))
			stored := &awsv1.EC2NodeClass{}
			w.must(w.client.Get(t.Context(), nameOf("general"), stored))
			if !finalized {
				stored.Finalizers = nil
				w.must(w.client.Update(t.Context(), stored))
			}
			w.must(w.client.Delete(t.Context(), stored))
			look := func() {
				w.restart()
				w.clock.Step(2 * time.Hour)
				w.clean()
			}
			look()
			if n := w.profiles(); n != 1 {
				t.Fatalf("%d instance profiles while a machine uses one", n)
			}
			if err := w.client.Get(t.Context(), nameOf("general"), stored); !apierrors.IsNotFound(err) {
				t.Errorf("the class waits for a machine that is nobody's: %v", err)
			}
			_, id, _ := machine.ParseID(m.ID)
			w.account.Kill(id)
			look()
			if n := w.profiles(); n != 0 {
				t.Errorf("%d instance profiles after the machine has ended", n)
			}
		})
	}
}

func TestAClassThatIsDeletedLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	claim := w.claim("a", c, in(corev1.LabelInstanceTypeStable, "m5.large"))
	w.launch(claim, c)
	w.clean()
	stored := &awsv1.EC2NodeClass{}
	w.must(w.client.Get(t.Context(), nameOf("general"), stored))
	if !slices.Contains(stored.Finalizers, awsv1.TerminationFinalizer) {
		t.Fatalf("finalizers %v", stored.Finalizers)
	}
	w.must(w.client.Delete(t.Context(), stored))
	w.clean()
	if n := w.templates(); n == 0 {
		t.Error("the template is gone while the class still has a claim")
	}
	w.must(w.client.Delete(t.Context(), w.stored(claim)))
	w.clean()
	if err := w.client.Get(t.Context(), nameOf("general"), stored); !apierrors.IsNotFound(err) {
		t.Errorf("the class is still there: %v", err)
	}
	if templates, profiles := w.templates(), w.profiles(); templates+profiles > 0 {
		t.Errorf("%d templates and %d instance profiles are left", templates, profiles)
	}
}
