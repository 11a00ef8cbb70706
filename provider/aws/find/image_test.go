package find_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tenon.sh/api/awsv1"
	"tenon.sh/provider/aws/awstest"
	"tenon.sh/provider/aws/find"
)

func day(n int) time.Time { return time.Date(2026, 5, n, 0, 0, 0, 0, time.UTC) }

func TestImagesThatAnyTermSelects(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	long, later := day(1), day(1).AddDate(1, 0, 0)
	f.account.SetImages(
		awstest.Image{ID: "ami-old", Name: "mine-1", Created: day(1), Tags: map[string]string{"team": "a"}},
		awstest.Image{ID: "ami-new", Name: "mine-2", Created: day(2), Tags: map[string]string{"team": "a", "tier": "x"}},
		awstest.Image{ID: "ami-newest", Name: "mine-3", Created: day(3), Deprecated: long, Tags: map[string]string{"team": "a"}},
		awstest.Image{ID: "ami-soon", Name: "soon", Created: day(4), Deprecated: later},
		awstest.Image{ID: "ami-arm", Name: "mine-arm", Created: day(2), Architecture: "arm64", Tags: map[string]string{"team": "a"}},
		awstest.Image{ID: "ami-theirs", Name: "mine-2", Created: day(9), Owner: "999999999999"},
		awstest.Image{ID: "ami-mac", Name: "mine-mac", Created: day(5), Architecture: "x86_64_mac"},
		awstest.Image{ID: "ami-twin-a", Name: "twin-a", Created: day(6)},
		awstest.Image{ID: "ami-twin-b", Name: "twin-b", Created: day(6)},
		awstest.Image{ID: "ami-old-deprecated", Name: "worn-1", Created: day(1), Deprecated: long},
		awstest.Image{ID: "ami-new-deprecated", Name: "worn-2", Created: day(2), Deprecated: long},
	)
	type term = awsv1.AMISelectorTerm
	for _, test := range []struct {
		rule  string
		terms []term
		want  string
	}{
		{"an ID", []term{{ID: "ami-old"}}, "ami-old"},
		{"the newest of two", []term{{ID: "ami-old"}, {ID: "ami-new"}}, "ami-new"},
		{"one for each architecture; of the same age, the first by ID", []term{{Tags: awsv1.Tags{"team": "a"}}}, "ami-arm ami-new"},
		{"rather old than deprecated", []term{{ID: "ami-old"}, {ID: "ami-newest"}}, "ami-old"},
		{"deprecated, if there is no other", []term{{ID: "ami-newest"}}, "ami-newest!"},
		{"the newest of deprecated ones", []term{{Name: "worn-*"}}, "ami-new-deprecated!"},
		{"not deprecated yet", []term{{ID: "ami-soon"}}, "ami-soon"},
		{"of the same age, the last by name", []term{{Name: "twin-*"}}, "ami-twin-b"},
		{"a name is one's own or Amazon's", []term{{Name: "mine-2"}}, "ami-new"},
		{"a name of somebody else", []term{{Name: "mine-2", Owner: "999999999999"}}, "ami-theirs"},
		{"everything of an owner", []term{{Owner: "999999999999"}}, "ami-theirs"},
		{"all tags of a term", []term{{Tags: awsv1.Tags{"team": "a", "tier": "*"}}}, "ami-new"},
		{"an architecture that is for no node", []term{{ID: "ami-mac"}}, ""},
		{"nothing", []term{{Name: "none"}}, ""},
		{"one term or another", []term{{ID: "ami-arm"}, {Name: "twin-a"}}, "ami-twin-a ami-arm"},
	} {
		class := &awsv1.EC2NodeClass{Spec: awsv1.EC2NodeClassSpec{AMISelectorTerms: test.terms}}
		got, err := f.Images(t.Context(), class, awstest.Kubernetes)
		if err != nil {
			t.Fatalf("%s: %v", test.rule, err)
		}
		var ids []string
		for _, i := range got {
			id := i.ID
			if i.Deprecated {
				id += "!"
			}
			ids = append(ids, id)
		}
		if want := strings.Fields(test.want); !slices.Equal(ids, want) {
			t.Errorf("%s: got %v, want %v", test.rule, ids, want)
		}
	}
}

func aliased(alias string) *awsv1.EC2NodeClass {
	return &awsv1.EC2NodeClass{Spec: awsv1.EC2NodeClassSpec{AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: alias}}}}
}

// describe returns an image as "name arch [requirements]".
func describe(i find.Image) string {
	var needs []string
	for _, r := range i.Requirements {
		_, name, _ := strings.Cut(r.Key, "/")
		needs = append(needs, strings.TrimSpace(fmt.Sprintf("%s %s %s", name, r.Operator, strings.Join(r.Values, ","))))
	}
	return i.Name + ": " + strings.Join(needs, "; ")
}

func TestAliasesStandForPublishedImages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const none = "instance-gpu-count DoesNotExist; instance-accelerator-count DoesNotExist"
	for _, test := range []struct {
		alias, kubernetes string
		want              []string
	}{
		{"al2023@latest", "1.34", []string{
			"amazon-eks-node-al2023-x86_64-standard-1.34-v20260505: arch In amd64; " + none,
			"amazon-eks-node-al2023-arm64-standard-1.34-v20260505: arch In arm64; " + none,
			"amazon-eks-node-al2023-x86_64-nvidia-1.34-v20260505: arch In amd64; instance-gpu-count Exists",
			"amazon-eks-node-al2023-arm64-nvidia-1.34-v20260505: arch In arm64; instance-gpu-count Exists",
			"amazon-eks-node-al2023-x86_64-neuron-1.34-v20260505: arch In amd64; instance-accelerator-count Exists",
		}},
		{"al2023@v20260505", "1.34", []string{
			"amazon-eks-node-al2023-x86_64-standard-1.34-v20260505: arch In amd64; " + none,
			"amazon-eks-node-al2023-arm64-standard-1.34-v20260505: arch In arm64; " + none,
			"amazon-eks-node-al2023-x86_64-nvidia-1.34-v20260505: arch In amd64; instance-gpu-count Exists",
			"amazon-eks-node-al2023-arm64-nvidia-1.34-v20260505: arch In arm64; instance-gpu-count Exists",
			"amazon-eks-node-al2023-x86_64-neuron-1.34-v20260505: arch In amd64; instance-accelerator-count Exists",
		}},
		{"bottlerocket@v1.50.0", "1.34", []string{
			"bottlerocket-aws-k8s-1.34-x86_64-v1.50.0-abcdef: arch In amd64; " + none,
			"bottlerocket-aws-k8s-1.34-x86_64-v1.50.0-abcdef: arch In amd64; instance-accelerator-count Exists",
			"bottlerocket-aws-k8s-1.34-arm64-v1.50.0-abcdef: arch In arm64; " + none,
			"bottlerocket-aws-k8s-1.34-nvidia-x86_64-v1.50.0-abcdef: arch In amd64; instance-gpu-count Exists",
			"bottlerocket-aws-k8s-1.34-nvidia-arm64-v1.50.0-abcdef: arch In arm64; instance-gpu-count Exists",
		}},
		{"al2@latest", "1.32", []string{
			"amazon-eks-node-1.32-v20260505: arch In amd64; " + none,
			"amazon-eks-arm64-node-1.32-v20260505: arch In arm64; " + none,
			"amazon-eks-gpu-node-1.32-v20260505: arch In amd64; instance-accelerator-count Exists",
			"amazon-eks-gpu-node-1.32-v20260505: arch In amd64; instance-gpu-count Exists",
		}},
		{"windows2022@latest", "1.34", []string{"Windows_Server-2022-English-Core-EKS_Optimized-1.34-2026.05.05: os In windows; arch In amd64; windows-build In 10.0.20348"}},
		{"al2023@v1", "1.34", nil},
		{"al2023@latest", "1.20", nil},
	} {
		got, err := f.Images(t.Context(), aliased(test.alias), test.kubernetes)
		var have []string
		for _, i := range got {
			have = append(have, describe(i))
		}
		if err != nil || !slices.Equal(sorted(have), sorted(test.want)) {
			t.Errorf("%s on %s: %v\ngot  %s\nwant %s", test.alias, test.kubernetes, err, strings.Join(sorted(have), "\n     "), strings.Join(sorted(test.want), "\n     "))
		}
	}
}

func TestAliasesThatNothingIsPublishedForAreExplained(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, test := range []struct{ alias, kubernetes, want string }{
		{"al2@latest", "1.33", "the last was 1.32"},
		{"al2@v20250505", "1.34", "the last was 1.32"},
		{"windows2025@latest", "1.34", "the first is 1.35"},
		{"al2023@a@b", "1.34", "family@version"},
		{"al2023@latest", "latest", "not of the form"},
	} {
		_, err := f.Images(t.Context(), aliased(test.alias), test.kubernetes)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s on %s: %v, want %q", test.alias, test.kubernetes, err, test.want)
		}
	}
}

func TestAnAliasIsNotAskedForAgainAndAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 5 {
		f.clock.Step(5 * time.Minute) // images are remembered for a minute, parameters for a day
		if _, err := f.Images(t.Context(), aliased("al2023@latest"), "1.34"); err != nil {
			t.Fatal(err)
		}
	}
	if ssm, ec2 := len(f.account.Calls("ssm:GetParameter")), len(f.account.Calls("ec2:DescribeImages")); ssm != 5 || ec2 != 5 {
		t.Errorf("%d calls of SSM and %d of EC2, want 5 and 5", ssm, ec2)
	}
}

func TestTheLatestImageIsAskedForAgainOnceItIsDeprecated(t *testing.T) {
	t.Parallel()
	for alias, want := range map[string]int{"windows2022@latest": 2, "al2023@v20260505": 5} {
		f := newFixture(t)
		var images []awstest.Image
		for _, id := range []string{"ami-5171d000000000001", "ami-a1202300000000000"} {
			images = append(images, awstest.Image{ID: id, Name: id, Created: day(1), Deprecated: day(2)})
		}
		f.account.SetImages(images...)
		for range 2 {
			if got, err := f.Images(t.Context(), aliased(alias), "1.34"); err != nil || len(got) != 1 || !got[0].Deprecated {
				t.Fatalf("%s: %v, %v", alias, got, err)
			}
			f.clock.Step(5 * time.Minute)
		}
		if n := len(f.account.Calls("ssm:GetParameter")); n != want {
			t.Errorf("%s: %d calls of SSM, want %d", alias, n, want)
		}
	}
}

// If an image were left out because SSM is busy, its machines would count as drifted.
func TestNoImageIsLeftOutBecauseSSMWasBusy(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.account.Fail("ssm:GetParameter", awstest.Fault{Status: 500, Code: "InternalServerError", After: 2})
	if got, err := f.Images(t.Context(), aliased("al2023@latest"), "1.34"); err == nil {
		t.Errorf("%d images and no error", len(got))
	}
	f.account.Heal()
	f.clock.Step(10 * time.Second)
	if got, err := f.Images(t.Context(), aliased("al2023@latest"), "1.34"); err != nil || len(got) != 5 {
		t.Errorf("%d images, %v", len(got), err)
	}
}
